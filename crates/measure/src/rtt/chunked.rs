//! A map for very many small values: it grows by pieces, so that growing never holds everything twice.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Entries of a piece.
const CHUNK: usize = 1024;

/// From keys to values, which are added but not removed one by one.
pub(super) struct ChunkedMap<K, V> {
    index: HashTable<u32>,
    chunks: Vec<Vec<(K, V)>>,
    hasher: RandomState,
}

impl<K: Hash + Eq, V> ChunkedMap<K, V> {
    pub(super) fn new() -> Self {
        Self {
            index: HashTable::new(),
            chunks: Vec::new(),
            hasher: RandomState::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The value of this key; made by `first` if there is none yet.
    pub(super) fn get_or_insert_with(&mut self, key: K, first: impl FnOnce() -> V) -> &mut V {
        let hash = self.hasher.hash_one(&key);
        let chunks = &self.chunks;
        let is_it = |&place: &u32| chunks[place as usize / CHUNK][place as usize % CHUNK].0 == key;
        let place = match self.index.find(hash, is_it) {
            Some(&place) => place,
            None => self.insert(hash, key, first()),
        };
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK].1
    }

    fn insert(&mut self, hash: u64, key: K, value: V) -> u32 {
        let place = self.index.len() as u32;
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push((key, value));
        }
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |&place: &u32| {
            hasher.hash_one(&chunks[place as usize / CHUNK][place as usize % CHUNK].0)
        };
        self.index.insert_unique(hash, place, hash_of);
        place
    }

    /// The entry that was inserted as the `place`th.
    pub(super) fn at(&self, place: u32) -> &(K, V) {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// All entries, taken out in the order of their insertion.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> + use<K, V> {
        self.index.clear();
        std::mem::take(&mut self.chunks).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_given() {
        let mut map = ChunkedMap::new();
        for number in 0..5000_u32 {
            *map.get_or_insert_with(number % 2500, || 0) += 1;
        }
        assert_eq!(map.len(), 2500);
        assert_eq!(map.at(2499), &(2499, 2));
        assert_eq!(map.drain().map(|(_, count)| count).sum::<u32>(), 5000);
        assert_eq!(map.len(), 0);
        assert_eq!(*map.get_or_insert_with(7, || 1), 1);
    }
}
