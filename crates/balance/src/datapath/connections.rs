//! Scans of the table of connections: which are active, wait, or have an epoch that is over; and,
//! less often, where all of them are.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fathom_measure::kernel::{monotonic_ns, wall_clock_offset};
use fathom_measure::response::StoredFlow;
use fathom_measure::response::native::flow_key;

use super::Key;
use super::epochs::Epochs;
use super::mapped_array::MappedArray;
use super::object::Program;
use super::setup::idle_units;
use crate::Error;
use crate::config::Transport;
use crate::native::{
    BALANCE_BUCKET_SLOTS, BALANCE_IS_CLOSING, BALANCE_IS_CONFIRMED, BALANCE_TIME_SHIFT,
    BALANCE_WAS_MEASURED, balance_bucket, balance_connection, balance_measured,
};

/// A request that has been unanswered for longer says nothing of how fast the server is: the client
/// has gone, or waits for something to happen.
const GIVEN_UP_NS: u64 = 5_000_000_000;
/// Scans of the whole table may take at most this fraction of the time: one part in `SHARE`.
const SHARE: u32 = 50;

/// What a scan of the whole table found.
#[derive(Debug, Default)]
pub(super) struct TableScan {
    /// Connections that are open, by the number of their server.
    pub(super) open: HashMap<u16, u32>,
    /// These, and those that are closing.
    pub(super) held: HashMap<u16, u32>,
    /// Ring entries of the connections in the table that are not confirmed, or whose server is not
    /// that of their ring entry, by the index of the service.
    pub(super) strays: HashMap<u16, HashSet<u32>>,
    /// Services that have connections, by index.
    pub(super) services: HashSet<u16>,
}

/// What the last scan of measured connections found.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Those that are active.
    active: HashMap<Key, u32>,
    /// Those that wait, and for how long together.
    waiting: HashMap<Key, (u32, u64)>,
}

/// The time of the table, as packets tell it: its clock is the kernel's tick, which user space
/// cannot read.
#[derive(Debug, Clone, Copy, Default)]
struct TableTime {
    /// The last time that a packet has left, in units of the table, and when that was first seen.
    newest: u32,
    at_ns: u64,
}

impl TableTime {
    fn take(&mut self, used: u32, now_ns: u64) {
        if used > self.newest {
            (self.newest, self.at_ns) = (used, now_ns);
        }
    }

    /// Not later than it is.
    fn now(self, now_ns: u64) -> u32 {
        let passed = now_ns.saturating_sub(self.at_ns) >> BALANCE_TIME_SHIFT;
        self.newest.saturating_add(passed as u32)
    }
}

/// Which scans are needed.
#[derive(Debug, Default)]
struct ScanSchedule {
    /// What packets had counted at the last scan.
    counted: Vec<u64>,
    /// When that was first found.
    moved_ns: u64,
    /// When the whole table may be scanned again.
    whole_due_ns: u64,
    /// So often it must be: rings have changed, or connections may have.
    whole_needed: u32,
}

/// A change of the table may be counted before it is made: so many scans of the whole follow it.
const SCANS_AFTER: u32 = 2;

impl ScanSchedule {
    /// Packets have counted so much by now.
    fn take(&mut self, counted: Vec<u64>, now_ns: u64) {
        if self.counted != counted || self.moved_ns == 0 {
            (self.counted, self.moved_ns) = (counted, now_ns);
            self.whole_needed = SCANS_AFTER;
        }
    }

    /// Rings have changed.
    fn need_whole(&mut self) {
        self.whole_needed = self.whole_needed.max(1);
    }

    /// Is there any connection that is active, that waits, or whose epoch is not over?
    fn may_be_active(&self, epoch: Duration, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.moved_ns) < recent_ns(epoch)
    }

    fn is_whole_due(&self, now_ns: u64) -> bool {
        self.whole_needed > 0 && now_ns >= self.whole_due_ns
    }

    /// The whole table was scanned, from then until now.
    fn has_scanned_whole(&mut self, begun_ns: u64, now_ns: u64) {
        self.whole_needed = self.whole_needed.saturating_sub(1);
        self.whole_due_ns = now_ns + u64::from(SHARE) * now_ns.saturating_sub(begun_ns);
    }
}

/// After so long without a packet a connection is not active, waits for nobody, and its epoch has
/// been told.
fn recent_ns(epoch: Duration) -> u64 {
    // Two units besides, since the table's time is in whole ones.
    let epoch_ns = u64::try_from(epoch.as_nanos()).unwrap_or(u64::MAX / 4);
    2 * epoch_ns.max(GIVEN_UP_NS / 2) + (2 << BALANCE_TIME_SHIFT)
}

/// The table of connections, and what is known of it.
pub(super) struct Connections {
    buckets: MappedArray<balance_bucket>,
    measured: MappedArray<balance_measured>,
    /// The length of an epoch.
    epoch: Duration,
    scan: TableScan,
    activity: Activity,
    time: TableTime,
    pace: ScanSchedule,
}

impl Connections {
    pub(super) fn open(program: &Program, epoch: Duration) -> Result<Self, Error> {
        Ok(Self {
            buckets: MappedArray::new(program.map("balance_buckets")?)?,
            measured: MappedArray::new(program.map("balance_measured")?)?,
            epoch,
            scan: TableScan::default(),
            activity: Activity::default(),
            time: TableTime::default(),
            pace: ScanSchedule::default(),
        })
    }

    pub(super) fn set_epoch(&mut self, epoch: Duration) {
        self.epoch = epoch;
    }

    /// What the last scan of the whole table found.
    pub(super) fn last_scan(&self) -> &TableScan {
        &self.scan
    }

    /// Connections that sent a request of late, those that wait, and for how long together.
    pub(super) fn activity(&self, key: Key) -> (u32, Option<(u32, u64)>) {
        let active = self.activity.active.get(&key).copied();
        (
            active.unwrap_or(0),
            self.activity.waiting.get(&key).copied(),
        )
    }

    /// Rings have changed.
    pub(super) fn need_whole(&mut self) {
        self.pace.need_whole();
    }

    /// May the whole table be scanned, and must it?
    pub(super) fn is_whole_due(&self) -> bool {
        self.pace.is_whole_due(monotonic_ns())
    }

    /// Scans measured connections that had packets of late: ends the epochs of those that are
    /// silent, and finds those that wait. `counted` is what packets have counted by now: where that
    /// is as before, the table is too.
    pub(super) fn scan_active(
        &mut self,
        counted: Vec<u64>,
        interval: Duration,
        epochs: &mut Epochs,
    ) {
        let now = monotonic_ns();
        self.pace.take(counted, now);
        self.activity = Activity::default();
        if !self.pace.may_be_active(self.epoch, now) {
            return;
        }
        let offset = wall_clock_offset();
        let units = (recent_ns(self.epoch) >> BALANCE_TIME_SHIFT) as u32 + 1;
        let since = self.time.now(now).saturating_sub(units);
        let slots = BALANCE_BUCKET_SLOTS as usize;
        for at in 0..(self.buckets.len() * slots).min(self.measured.len()) {
            let Some(used) = self.used_at(at) else {
                continue;
            };
            self.time.take(used, now);
            if used < since {
                continue;
            }
            let connection = self.buckets.get(at / slots).connections[at % slots];
            let has = |flag: u32| u32::from(connection.flags) & flag != 0;
            if !has(BALANCE_WAS_MEASURED) || self.measured.word(at, 0) == 0 {
                continue;
            }
            let flow = epoch_reader(&self.measured.get(at), connection.protocol);
            let key = Key {
                service: connection.service,
                server: connection.server(),
            };
            let is_closing = has(BALANCE_IS_CLOSING);
            self.activity.take(key, &flow, is_closing, now, interval);
            epochs.end(key, at as u32, &flow, now, offset);
        }
    }

    /// When the connection in this slot was last used, in units of the table; `None`: there is
    /// none, or it is not measured.
    fn used_at(&self, at: usize) -> Option<u32> {
        let slots = BALANCE_BUCKET_SLOTS as usize;
        let word = |word: usize| self.buckets.word(at / slots, 2 * (at % slots) + word);
        let second = word(1);
        let is_measured = second >> 48 & u64::from(BALANCE_WAS_MEASURED) != 0;
        (is_measured && word(0) != 0).then_some(second as u32)
    }

    /// Scans the whole table: how many connections servers have, and which are not where
    /// `server_at` says: the entry of a connection in the ring of its service, and the server
    /// there.
    pub(super) fn scan_whole(
        &mut self,
        server_at: impl Fn(&balance_connection) -> Option<(u32, u16)>,
    ) {
        let begun = monotonic_ns();
        let mut scan = TableScan::default();
        let table_now = self.time.now(begun);
        for bucket in 0..self.buckets.len() {
            for connection in self.buckets.get(bucket).connections {
                if connection.word == 0 {
                    continue;
                }
                self.time.take(connection.used, begun);
                scan.take(&connection, table_now, &server_at);
            }
        }
        self.scan = scan;
        self.pace.has_scanned_whole(begun, monotonic_ns());
    }
}

impl TableScan {
    fn take(
        &mut self,
        connection: &balance_connection,
        now: u32,
        server_at: &impl Fn(&balance_connection) -> Option<(u32, u16)>,
    ) {
        let server = connection.server();
        let has = |flag: u32| u32::from(connection.flags) & flag != 0;
        let is_past = is_past(connection, now);
        // One that is not confirmed must be found by its next packet.
        let is_opening = !has(BALANCE_IS_CONFIRMED) && !is_past;
        if let Some((entry, _)) =
            server_at(connection).filter(|(_, now)| *now != server || is_opening)
        {
            let strays = self.strays.entry(connection.service).or_default();
            strays.insert(entry);
        }
        if !is_past {
            self.services.insert(connection.service);
            *self.held.entry(server).or_insert(0) += 1;
            *self.open.entry(server).or_insert(0) += u32::from(!has(BALANCE_IS_CLOSING));
        }
    }
}

impl Activity {
    fn take(
        &mut self,
        key: Key,
        flow: &StoredFlow,
        is_closing: bool,
        now: u64,
        interval: Duration,
    ) {
        let age = u128::from(now.saturating_sub(flow.last()));
        *self.active.entry(key).or_insert(0) += u32::from(age < interval.as_nanos());
        if let Some(wait) = flow
            .waiting(now)
            .filter(|wait| !is_closing && wait.0 < GIVEN_UP_NS)
        {
            let (count, sum) = self.waiting.entry(key).or_insert((0, 0));
            *count += 1;
            *sum += wait.0;
        }
    }
}

/// What is measured of a connection of this protocol.
fn epoch_reader(measured: &balance_measured, protocol: u8) -> StoredFlow {
    let balance_measured { flow, bins } = *measured;
    let mut key = flow_key::default();
    key.set_protocol(protocol.into());
    StoredFlow { flow, bins, key }
}

/// May its slot be taken by another? A slot is not emptied: what was is there until then.
fn is_past(connection: &balance_connection, now: u32) -> bool {
    let [idle, closing, opening, datagram_idle] = idle_units();
    let flags = u32::from(connection.flags);
    let limit = if flags & BALANCE_IS_CLOSING != 0 {
        closing
    } else if flags & BALANCE_IS_CONFIRMED == 0 {
        opening
    } else if connection.protocol == Transport::Tcp.number() {
        idle
    } else {
        datagram_idle
    };
    now.saturating_sub(connection.used) > limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_past_when_it_was_silent_for_long() {
        let [idle, closing, ..] = idle_units();
        let connection = |flags: u32, protocol: u8| balance_connection {
            used: 1000,
            flags: flags as u8,
            protocol,
            ..balance_connection::default()
        };
        let open = connection(BALANCE_IS_CONFIRMED, 6);
        assert!(!is_past(&open, 1000 + idle) && is_past(&open, 1001 + idle));
        let over = connection(BALANCE_IS_CONFIRMED | BALANCE_IS_CLOSING, 6);
        assert!(!is_past(&over, 1000 + closing) && is_past(&over, 1001 + closing));
        assert!(is_past(&connection(BALANCE_IS_CONFIRMED, 17), 1000 + idle));
        // One that is newer than the last scan knows.
        assert!(!is_past(&open, 0));
    }

    #[test]
    fn where_no_packets_pass_nothing_is_scanned() {
        const MS: u64 = 1_000_000;
        let (mut pace, mut whole, mut active) = (ScanSchedule::default(), 0, 0);
        // Packets pass for a second, and then none for a minute; a scan of all takes 40 ms.
        for round in 0..305 {
            let now = (100 + round * 200) * MS;
            pace.take(vec![round.min(5)], now);
            active += u32::from(pace.may_be_active(Duration::from_millis(200), now));
            if pace.is_whole_due(now) {
                whole += 1;
                pace.has_scanned_whole(now - 40 * MS, now);
            }
        }
        // The first, and two after the last packet, two seconds apart.
        assert_eq!(whole, 3);
        assert_eq!(active, 5 + 36);
        pace.need_whole();
        assert!(pace.is_whole_due(3_600_000 * MS));
    }
}
