//! What happened to packets, samples and flows, by name.

use fathom_record::{Count, Time};

use crate::counts::named;
use crate::native::PACKET_VERDICT_COUNT;
use crate::rtt::native::{self, RTT_COUNTER_COUNT};

/// Everything that is counted besides samples; nothing is lost without a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub(crate) verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    pub(crate) counters: [u64; RTT_COUNTER_COUNT as usize],
    pub(crate) evicted: u64,
    pub(crate) refused: u64,
}

impl Counts {
    /// Frames seen, whatever became of them.
    pub fn frames(&self) -> u64 {
        self.verdicts.iter().sum()
    }

    /// Samples that came out.
    pub fn samples(&self) -> u64 {
        self.counters[native::RTT_COUNT_SAMPLES as usize]
    }

    /// All counts that are not zero, by name, but frames and samples.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counters = native::counter_names().iter().copied().zip(self.counters);
        named(
            self.verdicts,
            counters,
            native::RTT_COUNT_SAMPLES,
            self.evicted,
            self.refused,
        )
    }

    /// The same as records.
    pub fn records(&self, time: Time) -> impl Iterator<Item = Count> + use<> {
        self.named()
            .map(move |(name, count)| Count::new(time, "rtt", name, count))
    }
}

impl std::ops::AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        let add = |own: &mut [u64], other: &[u64]| {
            for (own, other) in own.iter_mut().zip(other) {
                *own += other;
            }
        };
        add(&mut self.verdicts, &other.verdicts);
        add(&mut self.counters, &other.counters);
        self.evicted += other.evicted;
        self.refused += other.refused;
    }
}
