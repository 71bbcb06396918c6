//! What measurements count in the same way.

use fathom_record::{Count, Time};

use crate::native::{self, PACKET_VERDICT_COUNT};

/// Interfaces that were asked for, by a pattern or as they came back, and are not measured; why is
/// told as it happens.
pub(crate) const REFUSED: &str = "interfaces left out";

/// What was counted since the start: nothing is lost without a count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// What was measured, as frames and samples, also where there was nothing.
    pub measured: Vec<(&'static str, u64)>,
    /// All other counts that are not zero, by name.
    pub named: Vec<(&'static str, u64)>,
}

impl Counts {
    /// The count of this name; 0 where there is none.
    pub fn get(&self, name: &str) -> u64 {
        let all = self.measured.iter().chain(&self.named);
        let mut found = all.filter(|(own, _)| *own == name);
        found.next().map_or(0, |&(_, count)| count)
    }

    /// The named ones as records of this measurement.
    pub fn records(&self, time: Time, measurement: &'static str) -> impl Iterator<Item = Count> {
        let named = self.named.iter();
        named.map(move |&(name, count)| Count::new(time, measurement, name, count))
    }

    /// What was measured, as `100 frames, 50 samples`.
    pub fn headline(&self) -> String {
        let measured = self.measured.iter();
        let texts: Vec<_> = measured
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        texts.join(", ")
    }
}

/// Counts of packets, of a measurement that has `N` counters of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketCounts<const N: usize> {
    pub(crate) verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    pub(crate) counters: [u64; N],
    pub(crate) evicted: u64,
    pub(crate) refused: u64,
}

impl<const N: usize> Default for PacketCounts<N> {
    fn default() -> Self {
        Self {
            verdicts: Default::default(),
            counters: [0; N],
            evicted: 0,
            refused: 0,
        }
    }
}

impl<const N: usize> PacketCounts<N> {
    /// By name: `names` of the counters; `came_out`: what is measured, and which of the counters
    /// tells how many.
    pub(crate) fn named(&self, names: &[&'static str], came_out: (&'static str, u32)) -> Counts {
        let verdicts = native::verdict_names().iter().copied().zip(self.verdicts);
        let counters = names.iter().copied().zip(self.counters);
        let (what, counter) = came_out;
        let others = (0..).zip(counters).filter(|(index, _)| *index != counter);
        // The first verdict is that of packets that were measured.
        let packets_and_others = verdicts.skip(1).chain(others.map(|(_, counter)| counter));
        Counts {
            measured: vec![
                ("frames", self.verdicts.iter().sum()),
                (what, self.counters[counter as usize]),
            ],
            named: packets_and_others
                .chain([
                    ("flows evicted: table full", self.evicted),
                    (REFUSED, self.refused),
                ])
                .filter(|&(_, count)| count != 0)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_names() {
        let mut counts = PacketCounts::<2>::default();
        counts.verdicts[0] = 7;
        counts.verdicts[1] = 3;
        counts.counters = [5, 0];
        counts.evicted = 2;
        let counts = counts.named(&["samples", "lost"], ("samples", 0));
        assert_eq!(counts.headline(), "10 frames, 5 samples");
        assert_eq!(counts.named.len(), 2);
        assert_eq!(counts.get("flows evicted: table full"), 2);
        assert_eq!((counts.get("samples"), counts.get("lost")), (5, 0));
        let records: Vec<_> = counts.records(Time(0), "rtt").collect();
        assert_eq!((records[0].measurement, records[0].count), ("rtt", 3));
    }
}
