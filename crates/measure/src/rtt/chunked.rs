//! A map for very many small values: it grows by pieces, so that growing never holds everything
//! twice.

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
        let is_it =
            |&position: &u32| chunks[position as usize / CHUNK][position as usize % CHUNK].0 == key;
        let position = match self.index.find(hash, is_it) {
            Some(&position) => position,
            None => self.insert(hash, key, first()),
        };
        &mut self.chunks[position as usize / CHUNK][position as usize % CHUNK].1
    }

    fn insert(&mut self, hash: u64, key: K, value: V) -> u32 {
        let position = self.index.len() as u32;
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push((key, value));
        }
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |&position: &u32| {
            hasher.hash_one(&chunks[position as usize / CHUNK][position as usize % CHUNK].0)
        };
        self.index.insert_unique(hash, position, hash_of);
        position
    }

    /// All entries, taken out.
    pub(super) fn take(&mut self) -> Entries<K, V> {
        self.index.clear();
        Entries(std::mem::take(&mut self.chunks))
    }
}

/// What was in a map.
pub(super) struct Entries<K, V>(Vec<Vec<(K, V)>>);

impl<K, V> Entries<K, V> {
    pub(super) fn len(&self) -> usize {
        let last = self.0.last().map_or(0, Vec::len);
        self.0.len().saturating_sub(1) * CHUNK + last
    }

    /// The entry that was inserted as the `position`th.
    pub(super) fn at(&self, position: u32) -> &(K, V) {
        &self.0[position as usize / CHUNK][position as usize % CHUNK]
    }

    /// All of them, in the order of their insertion.
    pub(super) fn into_iter(self) -> impl Iterator<Item = (K, V)> {
        self.0.into_iter().flatten()
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
        let taken = map.take();
        assert_eq!((taken.len(), taken.at(2499)), (2500, &(2499, 2)));
        assert_eq!(taken.into_iter().map(|(_, count)| count).sum::<u32>(), 5000);
        assert_eq!(map.len(), 0);
        assert_eq!(*map.get_or_insert_with(7, || 1), 1);
    }
}
