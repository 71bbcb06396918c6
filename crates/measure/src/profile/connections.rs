//! From moments to profiles: what is known of each connection, and what comes next for it.

use std::collections::VecDeque;
use std::time::Duration;

use fathom_record::Nanoseconds;
use rustc_hash::FxHashMap;

use super::connection::{Connection, ProfileBuilder};
use super::connection_table::ConnectionTable;
use super::ending::{connect_error, ending};
use super::metas::Metas;
use super::moment::Moment;
use super::names::Names;
use super::reorder::ProfileRecord;
use super::{Indicator, State};
use crate::profile::native::{
    self, profile_attempt, profile_moment_of, profile_slot, profile_snapshot,
};

/// A `connect()` behind which no SYN came after so long has found no route; an established
/// connection that nobody accepted for this time is reported anyway.
const PATIENCE_NS: u64 = 1_000_000_000;
/// What the kernel has written to a slot is whole after so long.
const SETTLED_NS: u64 = 5_000_000;

/// What this kernel can tell, and how to read it.
#[derive(Debug, Clone)]
pub(crate) struct Capabilities {
    /// What profiles come without.
    pub(crate) missing: Vec<Indicator>,
    /// Length of a jiffy.
    pub(crate) jiffy_ns: u64,
}

impl Capabilities {
    /// Whether profiles have this.
    pub(super) fn can(&self, indicator: Indicator) -> bool {
        !self.missing.contains(&indicator)
    }
}

/// All connections that are followed.
#[derive(Debug)]
pub(crate) struct Connections {
    builder: ProfileBuilder,
    connection_table: ConnectionTable<profile_snapshot>,
    metas: Metas,
    /// Those that have no slot in the kernel.
    attempts: FxHashMap<u64, profile_attempt>,
    /// Attempts in slots are reported up to this time.
    attempts_told_ns: u64,
    /// Attempts, and established connections that wait for their application, in the order that
    /// they came.
    waiting: VecDeque<Waiting>,
    /// The connection that closed last: what its `connect()` returned needs no profile of its own.
    last_closed: u64,
}

/// Whom to look at again when some time has passed.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    since_ns: u64,
    connection: u64,
}

/// Where profiles go.
pub(crate) type Report<'a> = &'a mut dyn FnMut(ProfileRecord);

impl Connections {
    pub(super) fn new(capabilities: Capabilities, names: Names, active_timeout: Duration) -> Self {
        let active_timeout_ns = Nanoseconds::from(active_timeout).0;
        Self {
            builder: ProfileBuilder::new(capabilities, names),
            connection_table: ConnectionTable::new(active_timeout_ns),
            metas: Metas::new(active_timeout_ns),
            attempts: FxHashMap::default(),
            attempts_told_ns: 0,
            waiting: VecDeque::new(),
            last_closed: 0,
        }
    }

    /// Connections that were dropped to make room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.connection_table.forgotten + self.metas.connection_table.forgotten
    }

    /// Takes what the ring held. `offset_ns` makes the kernel's time that of the wall clock.
    pub(crate) fn read(&mut self, mut bytes: &[u8], offset_ns: u64, report: Report<'_>) {
        self.builder.offset_ns = offset_ns;
        while let Some((moment, behind)) = Moment::read(bytes) {
            self.take(&moment, report);
            bytes = behind;
        }
    }

    /// Tells of what nothing more will come for: attempts without a SYN, and connections that wait
    /// for their application. `slots` is what the kernel keeps.
    pub(crate) fn look_back(&mut self, now_ns: u64, slots: &[profile_slot], report: Report<'_>) {
        let limit_ns = now_ns.saturating_sub(PATIENCE_NS);
        let told_ns = std::mem::replace(&mut self.attempts_told_ns, limit_ns);
        for slot in slots
            .iter()
            .filter(|slot| slot.holds(native::PROFILE_ATTEMPT))
            .filter(|slot| (told_ns + 1..=limit_ns).contains(&slot.since))
        {
            self.fail(&slot.attempt(), connect_error(0), report);
        }
        self.metas.look_back(limit_ns, &mut self.builder, report);
        self.look_at_waiting(now_ns, slots, report);
    }

    /// The same of those only that are known to wait; a connection that was accepted meanwhile is
    /// told of at once.
    pub(crate) fn look_at_waiting(
        &mut self,
        now_ns: u64,
        slots: &[profile_slot],
        report: Report<'_>,
    ) {
        let waiting = std::mem::take(&mut self.waiting);
        let still = waiting
            .into_iter()
            .filter(|waiting| self.waits(*waiting, now_ns, slots, report))
            .collect();
        self.waiting = still;
    }

    fn waits(
        &mut self,
        waiting: Waiting,
        now_ns: u64,
        slots: &[profile_slot],
        report: Report<'_>,
    ) -> bool {
        let id = waiting.connection;
        let slot = profile_slot::find(slots, id);
        let is_over = waiting.since_ns <= now_ns.saturating_sub(PATIENCE_NS);
        if let Some(connection) = self.connection_table.known.get_mut(&id) {
            let is_accepted = slot.is_some_and(|slot| {
                slot.holds(native::PROFILE_ACCEPTED)
                    && slot.since <= now_ns.saturating_sub(SETTLED_NS)
            });
            if is_over || is_accepted {
                connection.stop_waiting(slot, &mut self.builder, report);
            }
            if connection.is_unaccepted() {
                return true;
            }
        }
        if !is_over {
            return self.attempts.contains_key(&id);
        }
        let has_sent = slot.is_some_and(|slot| slot.holds(native::PROFILE_CONNECT));
        if let Some(attempt) = self.attempts.remove(&id)
            && !has_sent
        {
            self.fail(&attempt, connect_error(0), report);
        }
        false
    }

    /// Is it known that something is still to be told?
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The time of what is still to be told, if something is.
    pub(crate) fn oldest_waiting_ns(&mut self, slots: &[profile_slot]) -> Option<u64> {
        let told_ns = self.attempts_told_ns;
        let attempts = slots
            .iter()
            .filter(|slot| slot.holds(native::PROFILE_ATTEMPT) && slot.since > told_ns)
            .map(|slot| slot.since);
        let waiting = self.waiting.front().map(|waiting| waiting.since_ns);
        let metas = self.metas.oldest_waiting_ns();
        attempts.chain(waiting).chain(metas).min()
    }

    /// The end of the measurement, after a last look through all sockets: what is known of each
    /// connection.
    pub(crate) fn finish(&mut self, slots: &[profile_slot], report: Report<'_>) {
        for (_, mut meta) in self.metas.connection_table.known.drain() {
            meta.finish(&mut self.builder, report);
        }
        for (id, mut connection) in self.connection_table.known.drain() {
            let slot = profile_slot::find(slots, id);
            connection.stop_waiting(slot, &mut self.builder, report);
            connection.finish(&mut self.builder, report);
        }
    }

    fn take(&mut self, moment: &Moment, report: Report<'_>) {
        match moment {
            Moment::Note(of) => self.note(of, report),
            Moment::Attempt(attempt) => self.attempt(attempt, report),
            Moment::Meta(meta) => self.metas.take(meta, &mut self.builder, report),
            Moment::Snapshot(snapshot) => self.snapshot(snapshot, report),
        }
    }

    fn snapshot(&mut self, snapshot: &profile_snapshot, report: Report<'_>) {
        if let Some(kept) = snapshot.kept() {
            self.note(&kept, report);
        }
        let id = snapshot.of.connection;
        let builder = &mut self.builder;
        match u32::from(snapshot.of.moment) {
            native::PROFILE_ESTABLISHED => self.establish(snapshot, report),
            native::PROFILE_LOSSY => self
                .connection_table
                .update(id, snapshot, "lossy", builder, report),
            native::PROFILE_RECOVERED => {
                self.connection_table
                    .update(id, snapshot, "recovered", builder, report);
            }
            native::PROFILE_CLOSED => self.close(snapshot, report),
            _ => self.connection_table.see(id, snapshot, builder, report),
        }
    }

    fn note(&mut self, of: &profile_moment_of, report: Report<'_>) {
        match u32::from(of.moment) {
            native::PROFILE_CONNECT => {
                self.attempts.remove(&of.connection);
                let connection = Connection::opened(of, &mut self.builder);
                self.connection_table
                    .insert(of.connection, connection, &mut self.builder, report);
            }
            native::PROFILE_ACCEPTED => {
                let subflow = self.metas.accept(of, &mut self.builder, report);
                let id = subflow.unwrap_or(of.connection);
                if let Some(connection) = self.connection_table.known.get_mut(&id) {
                    connection.accept(of, &mut self.builder, report);
                }
            }
            _ => {}
        }
    }

    fn wait(&mut self, of: &profile_moment_of) {
        self.waiting.push_back(Waiting {
            since_ns: of.time,
            connection: of.connection,
        });
    }

    /// That `connect()` was called, or failed, unless its connection has had a profile for that.
    fn attempt(&mut self, attempt: &profile_attempt, report: Report<'_>) {
        let of = &attempt.of;
        if u32::from(of.moment) == native::PROFILE_ATTEMPT {
            self.attempts.insert(of.connection, *attempt);
            self.wait(of);
            return;
        }
        let was_found = of.error == 0 && of.time <= self.attempts_told_ns;
        if of.connection != self.last_closed && !was_found {
            self.fail(attempt, connect_error(of.error), report);
        }
    }

    fn fail(&mut self, attempt: &profile_attempt, reason: &'static str, report: Report<'_>) {
        self.connection_table.known.remove(&attempt.of.connection);
        let mut connection = Connection::opened(&attempt.of, &mut self.builder);
        let snapshot = profile_snapshot {
            of: attempt.of,
            cgroup: attempt.cgroup,
            net_namespace: attempt.net_namespace,
            ..profile_snapshot::default()
        };
        let end = (State::Unreachable, reason);
        connection.tell(&snapshot, end, &mut self.builder, report);
    }

    fn establish(&mut self, snapshot: &profile_snapshot, report: Report<'_>) {
        let id = snapshot.of.connection;
        // What sent its SYN may be lost.
        self.attempts.remove(&id);
        let builder = &mut self.builder;
        if let Some(connection) = self.connection_table.known.get_mut(&id) {
            connection.flow = snapshot.of.flow();
            let end = (State::Established, "established");
            connection.tell(snapshot, end, builder, report);
            return;
        }
        // What the handshake took is the first round trip, unless the SYN-ACK was sent again.
        let handshake_ns = u64::from(snapshot.round_trip) * 1_000;
        let start_ns = snapshot.of.time.saturating_sub(handshake_ns);
        let arrived = Connection::arrived(snapshot, "server", start_ns);
        self.connection_table.insert(id, arrived, builder, report);
        self.wait(&snapshot.of);
    }

    fn close(&mut self, snapshot: &profile_snapshot, report: Report<'_>) {
        let id = snapshot.of.connection;
        self.last_closed = id;
        self.attempts.remove(&id);
        let end = ending(snapshot.of.old_state, snapshot.of.error);
        let known = self.connection_table.known.remove(&id);
        let mut connection = known.unwrap_or_else(|| Connection::unknown(&snapshot.of));
        connection.tell(snapshot, end, &mut self.builder, report);
    }
}

impl Connection<profile_snapshot> {
    /// The first profile of a server's connection, if it is still to be told, with what the
    /// kernel's slot says of who accepted it.
    fn stop_waiting(
        &mut self,
        slot: Option<&profile_slot>,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if let Some(slot) = slot.filter(|slot| slot.holds(native::PROFILE_ACCEPTED)) {
            self.accept(&slot.told(), builder, report);
        }
        self.tell_establishment(builder, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn connections() -> Connections {
        let capabilities = Capabilities {
            missing: Vec::new(),
            jiffy_ns: 4_000_000,
        };
        Connections::new(capabilities, Names::default(), Duration::ZERO)
    }

    /// How many records `work` makes.
    fn told(work: impl FnOnce(Report<'_>)) -> u32 {
        let mut count = 0;
        work(&mut |_told: ProfileRecord| count += 1);
        count
    }

    #[test]
    fn an_attempt_in_a_slot_is_told_of_once() {
        let mut connections = connections();
        let slot = profile_slot {
            connection: 5,
            since: 10 * SECOND_NS,
            moment: native::PROFILE_ATTEMPT as u8,
            ..profile_slot::default()
        };
        let mut look = |now_ns| told(|report| connections.look_back(now_ns, &[slot], report));
        assert_eq!(look(10 * SECOND_NS + 1), 0);
        assert_eq!(look(11 * SECOND_NS), 1);
        assert_eq!(look(12 * SECOND_NS), 0);
        // The same socket tries again, and the kernel tells of the attempt before.
        let mut again = slot.attempt();
        again.of.moment = native::PROFILE_FAILED as u8;
        assert_eq!(told(|report| connections.attempt(&again, report)), 0);
        again.of.time = 12 * SECOND_NS;
        assert_eq!(told(|report| connections.attempt(&again, report)), 1);
    }

    #[test]
    fn who_accepted_is_found_in_the_slot() {
        let mut connections = connections();
        let mut snapshot = profile_snapshot::default();
        snapshot.of.connection = u64::from(native::PROFILE_SLOTS) + 1;
        snapshot.of.time = SECOND_NS;
        let mut slots = [profile_slot::default(); 2];
        slots[1] = profile_slot {
            connection: snapshot.of.connection,
            since: SECOND_NS + 7,
            moment: native::PROFILE_ACCEPTED as u8,
            process_id: 9,
            ..profile_slot::default()
        };
        assert_eq!(told(|report| connections.establish(&snapshot, report)), 0);
        let mut look = |now_ns| told(|report| connections.look_back(now_ns, &slots, report));
        assert_eq!(look(SECOND_NS + 7), 0);
        assert_eq!(look(SECOND_NS + SETTLED_NS + 7), 1);
        assert_eq!(look(3 * SECOND_NS), 0);
    }

    #[test]
    fn who_waits_holds_the_others_back_until_it_is_told() {
        let mut connections = connections();
        let mut snapshot = profile_snapshot::default();
        (snapshot.of.connection, snapshot.of.time) = (9, SECOND_NS);
        assert_eq!(told(|report| connections.establish(&snapshot, report)), 0);
        assert_eq!(connections.oldest_waiting_ns(&[]), Some(SECOND_NS));
        let look = |now_ns| told(|report| connections.look_at_waiting(now_ns, &[], report));
        assert_eq!([2 * SECOND_NS - 1, 2 * SECOND_NS].map(look), [0, 1]);
        assert_eq!(connections.oldest_waiting_ns(&[]), None);
        let slot = profile_slot {
            connection: 5,
            since: 3 * SECOND_NS,
            moment: native::PROFILE_ATTEMPT as u8,
            ..profile_slot::default()
        };
        assert_eq!(connections.oldest_waiting_ns(&[slot]), Some(3 * SECOND_NS));
    }

    /// The last profile of each connection has the sums of all.
    #[test]
    fn the_last_profile_has_totals() {
        let mut connections = connections();
        let mut profiles = Vec::new();
        let mut report = |told: ProfileRecord| match told {
            ProfileRecord::Tcp(profile) => profiles.push(profile),
            other => panic!("{other:?} is of no connection"),
        };
        let mut at = |moment: u32, time: u64, bytes_sent: u64| {
            let mut snapshot = profile_snapshot {
                bytes_sent,
                packets_sent: (bytes_sent / 1_000) as u32,
                segments_out: 1 + (bytes_sent / 1_000) as u32,
                ..profile_snapshot::default()
            };
            snapshot.of.connection = 5;
            (snapshot.of.moment, snapshot.of.time) = (moment as u8, time);
            connections.snapshot(&snapshot, &mut report);
        };
        at(native::PROFILE_ESTABLISHED, 10, 0);
        at(native::PROFILE_LOSSY, 20, 3_000);
        at(native::PROFILE_RECOVERED, 35, 5_000);
        at(native::PROFILE_CLOSED, 60, 6_000);
        assert_eq!(profiles.len(), 4);
        let (last, others) = profiles.split_last().unwrap();
        assert!(others.iter().all(|profile| profile.total.0.is_none()));
        let total = last.total.0.as_ref().unwrap();
        assert_eq!((last.bytes_sent, total.total_bytes_sent), (1_000, 6_000));
        assert_eq!(total.total_packets_sent, 6);
        assert_eq!(total.total_duration_ns.0, 50);
        let sum = |of: fn(&crate::profile::TcpProfile) -> u64| -> u64 {
            profiles.iter().map(|profile| of(profile)).sum()
        };
        assert_eq!(total.total_packets, sum(|profile| profile.packets));
        assert_eq!(total.total_bytes, sum(|profile| profile.bytes));
    }

    /// A look before the last profile, or one that comes later than what it saw, has nothing new.
    #[test]
    fn the_end_does_not_go_back_to_an_older_look() {
        let mut connections = connections();
        let mut at = |moment: u32, time: u64, bytes_sent: u64| {
            let mut snapshot = profile_snapshot {
                bytes_sent,
                ..profile_snapshot::default()
            };
            snapshot.of.connection = 5;
            (snapshot.of.moment, snapshot.of.time) = (moment as u8, time);
            told(|report| connections.snapshot(&snapshot, report))
        };
        assert_eq!(at(native::PROFILE_ESTABLISHED, 10, 0), 0);
        assert_eq!(at(native::PROFILE_SEEN, 20, 3_000), 0);
        assert_eq!(at(native::PROFILE_LOSSY, 30, 5_000), 2);
        assert_eq!(at(native::PROFILE_SEEN, 25, 4_000), 0);
        assert_eq!(told(|report| connections.finish(&[], report)), 0);
    }
}
