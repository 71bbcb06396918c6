//! What measurements count in the same way.

use crate::native::{self, PACKET_VERDICT_COUNT};

/// Interfaces that were asked for, by a pattern or as they came back, and are not measured; why is told as it happens.
pub(crate) const REFUSED: &str = "interfaces left out";

/// Counts that are not zero by name: packets by verdict without those that were measured, counters without the one that tells of what came out,
/// flows that were evicted, and interfaces that were refused.
pub(crate) fn named(
    verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    counters: impl Iterator<Item = (&'static str, u64)>,
    came_out: u32,
    evicted: u64,
    refused: u64,
) -> impl Iterator<Item = (&'static str, u64)> {
    let verdicts = native::verdict_names().iter().copied().zip(verdicts);
    let counters = (0..).zip(counters);
    let counters =
        counters.filter_map(move |(index, counter)| (index != came_out).then_some(counter));
    verdicts
        .skip(1)
        .chain(counters)
        .chain([("flows evicted: table full", evicted), (REFUSED, refused)])
        .filter(|&(_, count)| count != 0)
}
