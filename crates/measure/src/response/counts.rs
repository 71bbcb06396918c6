//! What happened to packets, epochs and flows, by name.

use fathom_record::{Time, record};

use crate::counts::named;
use crate::native::{self, PACKET_VERDICT_COUNT, RESPONSE_COUNTER_COUNT};

record! {
    /// How often something happened that is not a measurement: packets left out, epochs lost, flows evicted.
    #[record = "response_count"]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ResponseCount {
        /// When it was read.
        #[field(ipfix = 325)]
        pub time: Time,
        /// What is counted, since the start.
        #[field(bare)]
        pub name: &'static str,
        /// How often.
        pub count: u64,
    }
}

/// Everything that is counted besides epochs; nothing is lost without a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseCounts {
    pub(crate) verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    pub(crate) counters: [u64; RESPONSE_COUNTER_COUNT as usize],
    pub(crate) evicted: u64,
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
        let names = native::response_counter_names().iter().copied();
        let counters = names.zip(self.counters);
        named(
            self.verdicts,
            counters,
            native::RESPONSE_COUNT_EPOCHS,
            self.evicted,
        )
    }

    /// The same as records.
    pub fn records(&self, time: Time) -> impl Iterator<Item = ResponseCount> + use<> {
        self.named()
            .map(move |(name, count)| ResponseCount { time, name, count })
    }
}
