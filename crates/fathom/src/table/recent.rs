//! Rows that are bounded: the one that was longest without a record gives way.

use std::hash::Hash;
use std::num::NonZero;

use lru::LruCache;

/// Rows that are kept.
const ROWS_MAX: NonZero<usize> = NonZero::new(1000).expect("not zero");

#[derive(Clone)]
pub(crate) struct Recent<K: Hash + Eq, R> {
    rows: LruCache<K, R>,
    /// Rows that had to give way, since the start.
    pub(crate) left_out: u64,
}

impl<K: Hash + Eq + Copy, R> Recent<K, R> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            rows: LruCache::new(ROWS_MAX),
            left_out: 0,
        }
    }

    /// The row of this key, which is now the most recent.
    pub(crate) fn row(&mut self, key: K, new: impl FnOnce() -> R) -> &mut R {
        let is_full = self.rows.len() == ROWS_MAX.get();
        self.left_out += u64::from(is_full && !self.rows.contains(&key));
        self.rows.get_or_insert_mut(key, new)
    }

    /// All, the most recent first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &R> {
        self.rows.iter().map(|(_, row)| row)
    }

    /// The same, to be changed.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut R> {
        self.rows.iter_mut().map(|(_, row)| row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_and_those_left_out_are_counted() {
        let mut rows = Recent::new();
        for number in 0..1500 {
            *rows.row(number, || 0) += number;
        }
        *rows.row(700, || 0) += 1;
        assert_eq!((rows.all().count(), rows.left_out), (1000, 500));
        assert_eq!(rows.all().next(), Some(&701));
        assert_eq!(rows.all().nth(1), Some(&1499));
    }
}
