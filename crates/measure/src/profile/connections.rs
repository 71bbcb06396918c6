//! From moments to profiles: what is known of each connection, and what comes next for it.

mod waiting;

use std::collections::VecDeque;
use std::time::Duration;

use fathom_record::Nanoseconds;
use rustc_hash::FxHashMap;

use super::State;
use super::connection::{Connection, ProfileBuilder};
use super::connection_table::ConnectionTable;
use super::ending::{connect_error, ending};
use super::indicator::Capabilities;
use super::metas::Metas;
use super::moment::Moment;
use super::names::Names;
use super::reorder::ProfileRecord;
use crate::profile::native::{
    self, profile_attempt, profile_moment_of, profile_slot, profile_snapshot,
};
use waiting::Waiting;

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

    /// Ends the connections that are gone, by how they stood when they were last heard of. Which.
    pub(crate) fn end_gone(
        &mut self,
        is_gone: impl Fn(&profile_snapshot) -> bool,
        report: Report<'_>,
    ) -> Vec<u64> {
        let is_gone = |connection: &mut Connection<_>| connection.latest().is_some_and(&is_gone);
        let known = &mut self.connection_table.known;
        let gone = known.extract_if(|_, connection| is_gone(connection));
        let mut ids = Vec::new();
        for (id, mut connection) in gone {
            connection.lose("its end was missed", &mut self.builder, report);
            ids.push(id);
        }
        ids
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
        let mut arrived = Connection::arrived(snapshot, start_ns);
        if arrived.is_client() {
            arrived.tell_establishment(builder, report);
        } else {
            self.wait(&snapshot.of);
        }
        let builder = &mut self.builder;
        self.connection_table.insert(id, arrived, builder, report);
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
    use super::super::ending::SYN_SENT;
    use super::*;

    pub(super) fn connections() -> Connections {
        let capabilities = Capabilities {
            missing: Vec::new(),
            jiffy_ns: 4_000_000,
        };
        Connections::new(capabilities, Names::default(), Duration::ZERO)
    }

    /// How many records `work` makes.
    pub(super) fn told(work: impl FnOnce(Report<'_>)) -> u32 {
        let mut count = 0;
        work(&mut |_told: ProfileRecord| count += 1);
        count
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

    /// Its SYN was not told of. If that was sent again, it is not known when it was first.
    #[test]
    fn a_client_is_one_though_its_syn_was_missed() {
        for packets_retransmitted in [0, 1] {
            let mut profiles = Vec::new();
            let mut connections = connections();
            let mut snapshot = profile_snapshot {
                packets_retransmitted,
                round_trip: 3,
                ..profile_snapshot::default()
            };
            snapshot.of.moment = native::PROFILE_ESTABLISHED as u8;
            (snapshot.of.old_state, snapshot.of.time) = (SYN_SENT, 10_000);
            connections.snapshot(&snapshot, &mut |told| {
                if let ProfileRecord::Tcp(profile) = told {
                    profiles.push(profile);
                }
            });
            assert_eq!(profiles.len(), 1);
            assert_eq!(profiles[0].role, Some("client"));
            let establishment = (packets_retransmitted == 0).then_some(Nanoseconds(3_000));
            assert_eq!(profiles[0].establishment_ns, establishment);
        }
    }

    /// A look before the last profile, or one that comes later than what it saw, has nothing new.
    #[test]
    fn the_end_does_not_go_back_to_an_older_look() {
        let mut connections = connections();
        let mut durations = Vec::new();
        let mut report = |told: ProfileRecord| match told {
            ProfileRecord::Tcp(profile) => durations.push(profile.duration_ns.0),
            other => panic!("{other:?} is of no connection"),
        };
        for (moment, time) in [
            (native::PROFILE_ESTABLISHED, 10),
            (native::PROFILE_SEEN, 20),
            (native::PROFILE_LOSSY, 30),
            (native::PROFILE_SEEN, 25),
        ] {
            connections.snapshot(&at(moment, time), &mut report);
        }
        connections.finish(&[], &mut report);
        assert_eq!(durations, [0, 20, 0]);
    }

    /// It ends as it was last seen. Of one that is only about to be opened nothing is known.
    #[test]
    fn a_connection_whose_end_was_missed_has_a_last_profile() {
        let mut connections = connections();
        let mut ends = Vec::new();
        let mut report = |told: ProfileRecord| match told {
            ProfileRecord::Tcp(profile) => {
                ends.push((profile.end_state, profile.reason, profile.duration_ns.0));
            }
            other => panic!("{other:?} is of no connection"),
        };
        for (moment, time) in [
            (native::PROFILE_ESTABLISHED, 10),
            (native::PROFILE_RECOVERED, 15),
            (native::PROFILE_SEEN, 20),
        ] {
            connections.snapshot(&at(moment, time), &mut report);
        }
        let mut opened = at(native::PROFILE_CONNECT, 5).of;
        opened.connection = 6;
        connections.note(&opened, &mut report);
        let before = |ns| move |latest: &profile_snapshot| latest.of.time < ns;
        assert_eq!(connections.end_gone(before(20), &mut report), [0; 0]);
        assert_eq!(connections.end_gone(before(21), &mut report), [5]);
        let expected = [
            (State::Established, "established", 0),
            (State::Update, "recovered", 5),
            (State::Desync, "its end was missed", 5),
        ];
        assert_eq!(ends, expected);
    }

    fn at(moment: u32, time: u64) -> profile_snapshot {
        let mut snapshot = profile_snapshot::default();
        snapshot.of.connection = 5;
        (snapshot.of.moment, snapshot.of.time) = (moment as u8, time);
        snapshot
    }
}
