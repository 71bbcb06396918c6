//! What happened to packets, epochs and flows, by name.

use fathom_record::{Count, Time};

use crate::counts::named;
use crate::native::PACKET_VERDICT_COUNT;
use crate::response::native::{self, RESPONSE_COUNTER_COUNT};

/// Everything that is counted besides epochs; nothing is lost without a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseCounts {
    pub(crate) verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    pub(crate) counters: [u64; RESPONSE_COUNTER_COUNT as usize],
    pub(crate) evicted: u64,
    pub(crate) refused: u64,
}

impl ResponseCounts {
    /// Frames seen, whatever became of them.
    pub fn frames(&self) -> u64 {
        self.verdicts.iter().sum()
    }

    /// Epochs that came out.
    pub fn epochs(&self) -> u64 {
        self.counters[native::RESPONSE_COUNT_EPOCHS as usize]
    }

    /// All counts that are not zero, by name, but frames and epochs.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let names = native::counter_names().iter().copied();
        let counters = names.zip(self.counters);
        named(
            self.verdicts,
            counters,
            native::RESPONSE_COUNT_EPOCHS,
            self.evicted,
            self.refused,
        )
    }

    /// The same as records.
    pub fn records(&self, time: Time) -> impl Iterator<Item = Count> + use<> {
        self.named()
            .map(move |(name, count)| Count::new(time, "response", name, count))
    }
}
