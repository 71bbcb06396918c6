//! Repeatable random numbers of a fixed algorithm.

/// One step of `SplitMix64` (Steele, Lea, Flood 2014): a bijection whose outputs pass statistical tests for consecutive inputs.
pub(crate) fn mix(input: u64) -> u64 {
    let mut state = input.wrapping_add(INCREMENT);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    state: u64,
}

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let value = mix(self.state);
        self.state = self.state.wrapping_add(INCREMENT);
        value
    }

    /// From 0 to below 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let value = self.next().to_le_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_splitmix64() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let mut sequence = Sequence { state: 0 };
        assert_eq!(sequence.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(sequence.next(), 0x6e78_9e6a_a1b9_65f4);
    }
}
