//! The connections of one kind that are followed: TCP's, or MPTCP's.

use rustc_hash::FxHashMap;

use super::State;
use super::connection::{Connection, ProfileBuilder, Snapshot};
use super::connections::Report;

/// Connections that are followed at a time.
const CONNECTIONS_MAX: usize = 65_536;

/// Connections by what the kernel tells them from others by.
#[derive(Debug)]
pub(super) struct ConnectionTable<S: Snapshot> {
    pub(super) known: FxHashMap<u64, Connection<S>>,
    /// How long a profile may become before it is reported; zero: without limit.
    active_timeout_ns: u64,
    /// Connections that were dropped to make room.
    pub(super) forgotten: u64,
}

impl<S: Snapshot> ConnectionTable<S> {
    pub(super) fn new(active_timeout_ns: u64) -> Self {
        Self {
            known: FxHashMap::default(),
            active_timeout_ns,
            forgotten: 0,
        }
    }

    /// Something happened to a connection.
    pub(super) fn update(
        &mut self,
        id: u64,
        now: &S,
        reason: &'static str,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if let Some(connection) = self.known.get_mut(&id) {
            connection.tell(now, (State::Update, reason), builder, report);
        } else {
            // What it did before cannot be told from what it does from now on.
            let existing = Connection::existing(now, State::Update);
            self.insert(id, existing, builder, report);
        }
    }

    /// A connection was found by looking through all sockets.
    pub(super) fn see(
        &mut self,
        id: u64,
        now: &S,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        let Some(connection) = self.known.get_mut(&id) else {
            let existing = Connection::existing(now, State::Established);
            self.insert(id, existing, builder, report);
            return;
        };
        let is_long = now.of().time.saturating_sub(connection.start_ns) >= self.active_timeout_ns;
        if self.active_timeout_ns != 0 && is_long {
            connection.tell(now, (State::Update, "periodic"), builder, report);
        } else {
            connection.see(now);
        }
    }

    /// Takes a connection in. When there is no room the eighth that was silent for longest is given
    /// up, with a last profile of each.
    pub(super) fn insert(
        &mut self,
        id: u64,
        connection: Connection<S>,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if self.known.len() >= CONNECTIONS_MAX {
            let ages = self.known.iter().map(|(id, known)| (known.start_ns, *id));
            let mut ages: Vec<(u64, u64)> = ages.collect();
            ages.sort_unstable();
            for (_, oldest) in ages.iter().take(CONNECTIONS_MAX / 8) {
                if let Some(mut connection) = self.known.remove(oldest) {
                    self.forgotten += 1;
                    connection.lose("too many connections", builder, report);
                }
            }
        }
        self.known.insert(id, connection);
    }
}
