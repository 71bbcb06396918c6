//! What happened to packets, samples and flows.

use crate::Counts;
use crate::counts::PacketCounts;
use crate::rtt::native::{self, RTT_COUNT_SAMPLES, RTT_COUNTER_COUNT};

pub(super) type RttCounts = PacketCounts<{ RTT_COUNTER_COUNT as usize }>;

impl From<RttCounts> for Counts {
    fn from(counts: RttCounts) -> Self {
        counts.named(native::counter_names(), ("samples", RTT_COUNT_SAMPLES))
    }
}
