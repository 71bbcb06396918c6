//! Repeatable random numbers of a fixed algorithm.

/// One step of `SplitMix64` (Steele, Lea, Flood 2014): a bijection whose outputs pass statistical
/// tests for consecutive inputs.
pub(crate) fn mix(input: u64) -> u64 {
    let mut state = input.wrapping_add(INCREMENT);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// From 0 to below 1.
pub(crate) fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// From 0 to below `bound`: the upper half of the product, unbiased enough for bounds far below
/// 2^64.
pub(crate) fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// A stream of random numbers: the same for the same seed.
#[derive(Debug, Clone)]
pub struct Sequence {
    state: u64,
}

impl Sequence {
    /// Starts it.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let value = mix(self.state);
        self.state = self.state.wrapping_add(INCREMENT);
        value
    }

    /// From 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        fraction(self.bits())
    }

    /// From 0 to below `bound`, which is far below 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.bits(), bound)
    }

    /// Exponential, with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_splitmix64() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let mut sequence = Sequence { state: 0 };
        assert_eq!(sequence.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(sequence.bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn numbers_are_within_their_bounds() {
        let mut sequence = Sequence::new(7);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            assert!(sequence.below(13) < 13);
            assert!((0.0..1.0).contains(&sequence.uniform()));
            sum += sequence.exponential(3.0);
        }
        assert!((2.9..3.1).contains(&(sum / 10_000.0)), "{sum}");
    }
}
