//! A small seeded generator, so that a capture never changes with the version of a dependency.

/// `SplitMix64` (Steele, Lea and Flood, 2014): good enough to scatter tuples and gaps, and nothing more is asked of it.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A generator that repeats itself for the same `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// The next 32 random bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }

    /// A number from 0 to `bound` (excluded); `bound` itself is never zero here.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers_within_the_bound() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        for _ in 0..1000 {
            let number = one.below(13);
            assert_eq!(number, two.below(13));
            assert!(number < 13);
        }
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
