//! What happened to packets and flows.

use crate::Counts;
use crate::counts::PacketCounts;
use crate::traffic::native::{self, TRAFFIC_COUNT_RECORDS, TRAFFIC_COUNTER_COUNT};

pub(super) type TrafficCounts = PacketCounts<{ TRAFFIC_COUNTER_COUNT as usize }>;

/// By name. (`From` would be of the number of counters alone, which a sibling may share.)
pub(super) fn named(counts: &TrafficCounts) -> Counts {
    counts.named(native::counter_names(), ("records", TRAFFIC_COUNT_RECORDS))
}
