//! Puts records into the order of their times. Some are made late: which process accepted a
//! server's connection may take a second to learn.

use fathom_record::{Record, Time};

use super::dns::{DnsProfile, LookupProfile};
use super::{MptcpProfile, TcpProfile};

/// Records that may wait; beyond that the oldest are handed on, even if earlier ones may still
/// come.
const HELD_MAX: usize = 32_768;
/// The wall clock goes faster and slower when it is corrected: two times that are taken from it may
/// be nearer to each other than they were, by less than this.
const SLEW_NS: u64 = 1_000_000;
/// More than that is a clock that was set, after which there is no order with what came before.
const STEP_NS: u64 = 100_000_000;

/// A profile of any kind.
#[derive(Debug)]
pub(crate) enum ProfileRecord {
    Tcp(Box<TcpProfile>),
    Mptcp(Box<MptcpProfile>),
    Dns(Box<DnsProfile>),
    Lookup(Box<LookupProfile>),
}

impl ProfileRecord {
    pub(crate) fn record(&self) -> &dyn Record {
        match self {
            Self::Tcp(profile) => &**profile,
            Self::Mptcp(profile) => &**profile,
            Self::Dns(profile) => &**profile,
            Self::Lookup(profile) => &**profile,
        }
    }

    fn time(&self) -> Time {
        match self {
            Self::Tcp(profile) => profile.time,
            Self::Mptcp(profile) => profile.time,
            Self::Dns(profile) => profile.time,
            Self::Lookup(profile) => profile.time,
        }
    }
}

impl From<TcpProfile> for ProfileRecord {
    fn from(profile: TcpProfile) -> Self {
        Self::Tcp(Box::new(profile))
    }
}

impl From<MptcpProfile> for ProfileRecord {
    fn from(profile: MptcpProfile) -> Self {
        Self::Mptcp(Box::new(profile))
    }
}

impl From<DnsProfile> for ProfileRecord {
    fn from(profile: DnsProfile) -> Self {
        Self::Dns(Box::new(profile))
    }
}

impl From<LookupProfile> for ProfileRecord {
    fn from(profile: LookupProfile) -> Self {
        Self::Lookup(Box::new(profile))
    }
}

/// Records that wait for others which may come before them.
#[derive(Debug, Default)]
pub(super) struct ReorderBuffer {
    held: Vec<(Time, ProfileRecord)>,
    /// What made the kernel's time that of the wall clock.
    offset_ns: Option<u64>,
    /// The time of the last that left.
    left: Time,
    /// Records whose time was over when they came.
    pub(super) late: u64,
    /// Records that have left.
    pub(super) told: u64,
}

impl ReorderBuffer {
    pub(super) fn put(&mut self, told: ProfileRecord) {
        let time = told.time();
        self.late += u64::from(time < self.left);
        self.held.push((time, told));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Hands on records older than `until_ns`, in the kernel's time: nothing earlier will come.
    pub(super) fn leave(
        &mut self,
        until_ns: u64,
        offset_ns: u64,
        report: &mut dyn FnMut(&dyn Record),
    ) {
        let before_ns = self.offset_ns.replace(offset_ns);
        if before_ns.is_some_and(|before_ns| offset_ns.abs_diff(before_ns) > STEP_NS) {
            self.leave_all(report);
            self.left = Time(0);
        }
        self.sort();
        let until = Time(until_ns.wrapping_add(offset_ns).saturating_sub(SLEW_NS));
        let ready = self.held.partition_point(|(time, _)| *time < until);
        self.hand_on(ready.max(self.held.len().saturating_sub(HELD_MAX)), report);
    }

    /// Hands on all records.
    pub(super) fn leave_all(&mut self, report: &mut dyn FnMut(&dyn Record)) {
        self.sort();
        self.hand_on(self.held.len(), report);
    }

    /// The buffer is nearly sorted, and the sort is stable: records of one time keep their order.
    fn sort(&mut self) {
        self.held.sort_by_key(|(time, _)| *time);
    }

    fn hand_on(&mut self, count: usize, report: &mut dyn FnMut(&dyn Record)) {
        self.told += count as u64;
        for (time, told) in self.held.drain(..count) {
            self.left = self.left.max(time);
            report(told.record());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::InGroup;
    use fathom_record::{Nanoseconds, Value};

    const MS: u64 = 1_000_000;

    fn at(time_ms: u64) -> ProfileRecord {
        let time = Time(time_ms * MS);
        let lookup = LookupProfile {
            time,
            query_name: None,
            result: "0",
            start_time: time,
            latency_ns: Nanoseconds(0),
            pid: 1,
            process: "ping".into(),
            group: InGroup::default(),
        };
        lookup.into()
    }

    fn left(reorder: &mut ReorderBuffer, until_ns: u64, offset_ns: u64) -> Vec<u64> {
        let mut times = Vec::new();
        reorder.leave(until_ns, offset_ns, &mut |record| match record.value(0) {
            Value::Time(ns) => times.push(ns / MS),
            other => panic!("{other:?} is no time"),
        });
        times
    }

    #[test]
    fn what_comes_late_leaves_in_its_turn() {
        let mut reorder = ReorderBuffer::default();
        for time in [30, 10, 20] {
            reorder.put(at(time));
        }
        assert_eq!(left(&mut reorder, 21 * MS, 0), [10]);
        reorder.put(at(15));
        assert_eq!(reorder.late, 0);
        assert_eq!(left(&mut reorder, 40 * MS, 0), [15, 20, 30]);
        reorder.put(at(29));
        assert_eq!((reorder.late, reorder.is_empty()), (1, false));
    }

    #[test]
    fn a_clock_that_is_set_holds_nothing_back() {
        let mut reorder = ReorderBuffer::default();
        reorder.put(at(5_000));
        assert_eq!(left(&mut reorder, 1_000 * MS, 4_000 * MS), [0; 0]);
        assert_eq!(left(&mut reorder, 1_002 * MS, 4_000 * MS), [5_000]);
        reorder.put(at(1_010));
        assert_eq!(reorder.late, 1);
        assert_eq!(left(&mut reorder, 5, 1_000 * MS), [1_010]);
        reorder.put(at(1_005));
        assert_eq!(reorder.late, 1);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut reorder = ReorderBuffer::default();
        for time in 1..=HELD_MAX as u64 + 2 {
            reorder.put(at(time));
        }
        assert_eq!(left(&mut reorder, 0, 0), [1, 2]);
    }
}
