//! Random decisions that depend only on the seed, the packet's index and what is decided, never on
//! what was decided before.

use crate::random::{below, fraction, mix};

/// What a roll decides; each purpose has its own independent sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Loss = 1,
    Duplication,
    Corruption,
    CorruptedByte,
    Reordering,
    Jitter,
}

/// The random numbers of one direction of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dice {
    seed: u64,
}

impl Dice {
    /// Two directions of one link get unrelated numbers from one `seed` by their `stream`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self {
            seed: mix(mix(seed).wrapping_add(stream)),
        }
    }

    /// A uniform number for `purpose` of the packet `index`.
    pub(crate) fn roll(self, index: u64, purpose: Purpose) -> u64 {
        mix(mix(self.seed ^ index).wrapping_add(purpose as u64))
    }

    /// Whether an event of `probability` (0 to 1) happens to the packet `index`.
    pub(crate) fn happens(self, index: u64, purpose: Purpose, probability: f64) -> bool {
        probability > 0.0 && fraction(self.roll(index, purpose)) < probability
    }

    /// A uniform number from 0 to below `limit` for `purpose` of the packet `index`.
    pub(crate) fn below(self, index: u64, purpose: Purpose, limit: u64) -> u64 {
        below(self.roll(index, purpose), limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequency_matches_probability() {
        let dice = Dice::new(7, 0);
        let hits = (0..100_000)
            .filter(|index| dice.happens(*index, Purpose::Loss, 0.02))
            .count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
    }

    #[test]
    fn purposes_and_streams_are_independent() {
        let (forward, backward) = (Dice::new(7, 0), Dice::new(7, 1));
        let both = (0..100_000)
            .filter(|index| {
                forward.happens(*index, Purpose::Loss, 0.1)
                    && forward.happens(*index, Purpose::Duplication, 0.1)
            })
            .count();
        assert!((850..1_150).contains(&both), "{both}");
        assert_ne!(
            forward.roll(0, Purpose::Loss),
            backward.roll(0, Purpose::Loss)
        );
    }
}
