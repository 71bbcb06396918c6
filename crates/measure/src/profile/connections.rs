//! From moments to profiles: what is known of each connection, and what comes next for it.

#[cfg(test)]
mod tests;
mod waiting;

use std::collections::VecDeque;

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
use super::options::Options;
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
    pub(super) fn new(capabilities: Capabilities, names: Names, options: &Options) -> Self {
        let active_timeout_ns = Nanoseconds::from(options.active_timeout).0;
        Self {
            builder: ProfileBuilder::new(capabilities, names, options.coalesces),
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
            connection.establish(snapshot, builder, report);
            if connection.is_waiting() {
                self.wait(&snapshot.of);
            }
            return;
        }
        // What the handshake took is the first round trip, unless the SYN-ACK was sent again.
        let handshake_ns = u64::from(snapshot.round_trip) * 1_000;
        let start_ns = snapshot.of.time.saturating_sub(handshake_ns);
        let mut arrived = Connection::arrived(snapshot, start_ns);
        arrived.tell_if_due(snapshot.of.time, builder, report);
        if arrived.is_waiting() {
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
        connection.end(snapshot, end, &mut self.builder, report);
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
