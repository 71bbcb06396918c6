//! The record of what a link did to which packet and when.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::engine::{Decision, DropCause};
use super::header::PacketHeader;

/// The direction a packet took through a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the first end to the second.
    Forward,
    /// From the second end to the first.
    Backward,
}

/// Where a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Still in the link, or in it when it was stopped.
    Held,
    /// Written to the other end.
    Delivered,
    /// Lost at random.
    Lost,
    /// Dropped by a rule.
    RuleDropped,
    /// Dropped because the queue before the bottleneck was full.
    QueueDropped,
    /// Dropped because the emulation itself held too many packets: the measurement is void.
    Overflowed,
    /// Refused by the kernel at the other end, for instance because its device is down.
    Refused,
}

/// What happened to one packet.
#[derive(Debug, Clone, PartialEq)]
pub struct PacketFate {
    /// Its direction.
    pub way: Way,
    /// Its number in that direction, from zero, in the order of reading.
    pub index: u64,
    /// When it was read from the sending device, in ns of `CLOCK_REALTIME`.
    pub read_ns: u64,
    /// When it was written to the receiving device, in ns of `CLOCK_REALTIME`.
    pub written_ns: Option<u64>,
    /// When it should have been written, in ns of `CLOCK_REALTIME`; zero when dropped.
    pub due_ns: u64,
    /// Where it ended.
    pub fate: Fate,
    /// Whether it was written twice in a row.
    pub is_duplicated: bool,
    /// Whether a bit of it was flipped; `header` is from before.
    pub is_corrupted: bool,
    /// Whether it was held back at random, so that others could pass it.
    pub is_reordered: bool,
    /// How long a rule or reordering held it back beyond the delay of its direction, in ns.
    pub extra_delay_ns: u64,
    /// Bytes as read from the device.
    pub length_bytes: u32,
    /// Its headers, unless it is not IP or malformed.
    pub header: Option<PacketHeader>,
}

/// What one direction of a link did in all, also beyond the capacity of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets read from the sending device.
    pub read: u64,
    /// Packets written to the receiving device, duplicates not counted.
    pub delivered: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets dropped by rules.
    pub rule_dropped: u64,
    /// Packets dropped before the bottleneck.
    pub queue_dropped: u64,
    /// Packets dropped because the emulation held too many.
    pub overflowed: u64,
    /// Packets the receiving device refused.
    pub refused: u64,
    /// Packets missing from the record because it was full.
    pub unrecorded: u64,
    /// Multicast listener reports, which the link swallows and which `read` does not count.
    pub listener_reports: u64,
}

/// Truth of one direction, shared by its thread and the readers.
#[derive(Debug)]
pub(crate) struct Ledger {
    way: Way,
    capacity: usize,
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    fates: Vec<PacketFate>,
    totals: Totals,
}

/// What was read, before anything was decided.
pub(crate) struct Arrival {
    pub(crate) read_ns: u64,
    pub(crate) length_bytes: usize,
    pub(crate) header: Option<PacketHeader>,
}

impl Ledger {
    pub(crate) fn new(way: Way, capacity: usize) -> Self {
        Self {
            way,
            capacity,
            content: Mutex::default(),
        }
    }

    /// Records an arrival and what was decided; returns where, for [`Ledger::on_written`].
    pub(crate) fn on_decided(
        &self,
        arrival: &Arrival,
        decision: &Decision,
        due_ns: u64,
    ) -> Option<u32> {
        let mut content = self.lock();
        let index = content.totals.read;
        content.totals.read += 1;
        let fate = match decision.dropped {
            None => Fate::Held,
            Some(DropCause::Loss) => Fate::Lost,
            Some(DropCause::Rule) => Fate::RuleDropped,
            Some(DropCause::Queue) => Fate::QueueDropped,
            Some(DropCause::Overflow) => Fate::Overflowed,
        };
        content.totals.count(fate);
        if content.fates.len() >= self.capacity {
            content.totals.unrecorded += 1;
            return None;
        }
        content.fates.push(PacketFate {
            way: self.way,
            index,
            read_ns: arrival.read_ns,
            written_ns: None,
            due_ns,
            fate,
            is_duplicated: decision.is_duplicated,
            is_corrupted: decision.corruption.is_some(),
            is_reordered: decision.is_reordered,
            extra_delay_ns: decision.extra_delay_ns,
            length_bytes: arrival.length_bytes as u32,
            header: arrival.header,
        });
        u32::try_from(content.fates.len() - 1).ok()
    }

    /// Completes the `record` of a packet that left the link.
    pub(crate) fn on_written(&self, record: Option<u32>, written_ns: u64, fate: Fate) {
        let mut content = self.lock();
        content.totals.count(fate);
        if let Some(entry) = record.and_then(|record| content.fates.get_mut(record as usize)) {
            entry.fate = fate;
            entry.written_ns = (fate == Fate::Delivered).then_some(written_ns);
        }
    }

    /// Counts a swallowed listener report.
    pub(crate) fn on_listener_report(&self) {
        self.lock().totals.listener_reports += 1;
    }

    pub(crate) fn fates(&self) -> Vec<PacketFate> {
        self.lock().fates.clone()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// No step leaves the content half changed, so that of a thread that panicked is still good.
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Totals {
    /// Packets whose fate is final: all that were read, but those still in the link.
    pub fn settled(&self) -> u64 {
        self.delivered
            + self.lost
            + self.rule_dropped
            + self.queue_dropped
            + self.overflowed
            + self.refused
    }

    fn count(&mut self, fate: Fate) {
        let total = match fate {
            Fate::Held => return,
            Fate::Delivered => &mut self.delivered,
            Fate::Lost => &mut self.lost,
            Fate::RuleDropped => &mut self.rule_dropped,
            Fate::QueueDropped => &mut self.queue_dropped,
            Fate::Overflowed => &mut self.overflowed,
            Fate::Refused => &mut self.refused,
        };
        *total += 1;
    }
}
