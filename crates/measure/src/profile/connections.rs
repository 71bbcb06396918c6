//! From moments to profiles: what is known of each connection, and what comes next for it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use fathom_record::Record;

use super::connection::{Connection, Maker};
use super::ending::{connect_error, ending};
use super::meta::Meta;
use super::moment::Moment;
use super::{Indicator, State};
use crate::native::{self, profile_meta, profile_moment_of, profile_snapshot};

/// A `connect()` behind which no SYN came after so long has found no route.
const ATTEMPT: Duration = Duration::from_secs(1);
/// An established connection that nobody accepted for so long is told of all the same.
const ACCEPTANCE: Duration = Duration::from_secs(1);
/// Connections that are followed at a time.
const CONNECTIONS_MAX: usize = 65_536;

/// What this kernel can tell, and how to read it.
#[derive(Debug, Clone)]
pub(crate) struct Abilities {
    /// What profiles come without.
    pub(crate) missing: Vec<Indicator>,
    /// Length of a jiffy.
    pub(crate) jiffy_ns: u64,
    /// Where control groups are mounted.
    pub(crate) groups: Option<PathBuf>,
}

impl Abilities {
    /// Whether profiles have this.
    pub(super) fn can(&self, indicator: Indicator) -> bool {
        !self.missing.contains(&indicator)
    }
}

/// All connections that are followed.
#[derive(Debug)]
pub(crate) struct Connections {
    maker: Maker,
    /// How long a profile may become before the connection is told of; zero: as long as it likes.
    active_timeout_ns: u64,
    known: HashMap<u64, Connection>,
    metas: HashMap<u64, Meta>,
    attempts: HashMap<u64, profile_moment_of>,
    /// The connection that closed last: what its `connect()` returned needs no profile of its own.
    last_closed: u64,
    /// Connections that were dropped to make room.
    pub(crate) forgotten: u64,
}

/// Where profiles go.
pub(crate) type Report<'a> = &'a mut dyn FnMut(&dyn Record);

impl Connections {
    pub(crate) fn new(abilities: Abilities, active_timeout: Duration) -> Self {
        Self {
            maker: Maker::new(abilities),
            active_timeout_ns: nanoseconds(active_timeout),
            known: HashMap::new(),
            metas: HashMap::new(),
            attempts: HashMap::new(),
            last_closed: 0,
            forgotten: 0,
        }
    }

    /// How many connections are followed.
    pub(crate) fn len(&self) -> usize {
        self.known.len() + self.metas.len()
    }

    /// Takes what the ring held. `offset_ns` makes the kernel's time that of the wall clock.
    pub(crate) fn read(&mut self, mut bytes: &[u8], offset_ns: u64, report: Report<'_>) {
        self.maker.offset_ns = offset_ns;
        while let Some((moment, behind)) = Moment::read(bytes) {
            self.take(moment, report);
            bytes = behind;
        }
    }

    /// Tells of what nothing more will come for: attempts without a SYN, and connections that wait for their application.
    pub(crate) fn look_back(&mut self, now_ns: u64, report: Report<'_>) {
        let is_over = |since_ns: u64, limit| now_ns.saturating_sub(since_ns) > nanoseconds(limit);
        let mut failed: Vec<profile_moment_of> = self.attempts.values().copied().collect();
        failed.retain(|of| is_over(of.time, ATTEMPT));
        for of in failed {
            self.attempts.remove(&of.connection);
            self.fail(&of, "no route, or no free port", report);
        }
        for connection in self.known.values_mut() {
            if connection
                .is_waiting_since()
                .is_some_and(|since_ns| is_over(since_ns, ACCEPTANCE))
            {
                connection.tell_establishment(&mut self.maker, report);
            }
        }
    }

    /// The end of the measurement, after a last look through all sockets: what is known of each connection.
    pub(crate) fn finish(&mut self, report: Report<'_>) {
        for (_, mut connection) in self.known.drain() {
            connection.tell_establishment(&mut self.maker, report);
            if let Some(seen) = connection.seen.take() {
                connection.tell(
                    &seen,
                    State::Update,
                    "end of measurement",
                    &mut self.maker,
                    report,
                );
            }
        }
    }

    fn take(&mut self, moment: Moment, report: Report<'_>) {
        match moment {
            Moment::Note(of) => self.note(&of, report),
            Moment::Meta(meta) => self.meta(&meta, report),
            Moment::Snapshot(snapshot) => match u32::from(snapshot.of.moment) {
                native::PROFILE_ESTABLISHED => self.establish(snapshot, report),
                native::PROFILE_LOSSY => self.update(&snapshot, "lossy", report),
                native::PROFILE_RECOVERED => self.update(&snapshot, "recovered", report),
                native::PROFILE_CLOSED => self.close(&snapshot, report),
                _ => self.see(snapshot, report),
            },
        }
    }

    fn note(&mut self, of: &profile_moment_of, report: Report<'_>) {
        match u32::from(of.moment) {
            native::PROFILE_ATTEMPT => drop(self.attempts.insert(of.connection, *of)),
            native::PROFILE_FAILED if of.connection != self.last_closed => {
                self.fail(of, connect_error(of.error), report);
            }
            native::PROFILE_CONNECT => {
                self.attempts.remove(&of.connection);
                let connection = Connection::opened(of, &mut self.maker);
                self.insert(of.connection, connection, report);
            }
            native::PROFILE_ACCEPTED => {
                if let Some(connection) = self.known.get_mut(&of.connection) {
                    connection.accept(of, &mut self.maker, report);
                }
            }
            _ => {}
        }
    }

    fn fail(&mut self, of: &profile_moment_of, reason: &'static str, report: Report<'_>) {
        self.known.remove(&of.connection);
        let connection = Connection::opened(of, &mut self.maker);
        let snapshot = profile_snapshot {
            of: *of,
            ..profile_snapshot::default()
        };
        report(
            &self
                .maker
                .profile(&connection, &snapshot, State::Unreachable, reason),
        );
    }

    fn establish(&mut self, snapshot: Box<profile_snapshot>, report: Report<'_>) {
        let id = snapshot.of.connection;
        // What sent its SYN may be lost.
        self.attempts.remove(&id);
        if let Some(connection) = self.known.get_mut(&id) {
            connection.flow = snapshot.of.flow();
            connection.tell(
                &snapshot,
                State::Established,
                "established",
                &mut self.maker,
                report,
            );
        } else {
            self.insert(id, Connection::arrived(snapshot), report);
        }
    }

    fn update(&mut self, snapshot: &profile_snapshot, reason: &'static str, report: Report<'_>) {
        let id = snapshot.of.connection;
        if let Some(connection) = self.known.get_mut(&id) {
            connection.tell(snapshot, State::Update, reason, &mut self.maker, report);
        } else {
            // What it did before cannot be told from what it does from now on.
            self.insert(id, Connection::existing(snapshot, State::Update), report);
        }
    }

    fn close(&mut self, snapshot: &profile_snapshot, report: Report<'_>) {
        let id = snapshot.of.connection;
        self.last_closed = id;
        self.attempts.remove(&id);
        let (state, reason) = ending(snapshot.of.old_state, snapshot.of.error);
        if let Some(mut connection) = self.known.remove(&id) {
            connection.tell(snapshot, state, reason, &mut self.maker, report);
        } else {
            let connection = Connection::unknown(&snapshot.of);
            report(&self.maker.profile(&connection, snapshot, state, reason));
        }
    }

    /// A connection that was found by looking through all.
    fn see(&mut self, snapshot: Box<profile_snapshot>, report: Report<'_>) {
        let of = snapshot.of;
        let Some(connection) = self.known.get_mut(&of.connection) else {
            self.insert(
                of.connection,
                Connection::existing(&snapshot, State::Established),
                report,
            );
            return;
        };
        let is_long = of.time.saturating_sub(connection.start_ns) >= self.active_timeout_ns;
        if self.active_timeout_ns != 0 && is_long {
            connection.tell(
                &snapshot,
                State::Update,
                "periodic",
                &mut self.maker,
                report,
            );
        } else {
            connection.seen = Some(snapshot);
        }
    }

    fn meta(&mut self, meta: &profile_meta, report: Report<'_>) {
        let id = meta.of.connection;
        match u32::from(meta.of.moment) {
            native::PROFILE_META_CONNECT => {
                self.attempts.remove(&id);
                self.metas.insert(id, Meta::opened(meta, &mut self.maker));
            }
            native::PROFILE_META_ESTABLISHED => {
                let known = self.metas.entry(id).or_insert_with(|| Meta::arrived(meta));
                known.tell(
                    meta,
                    State::Established,
                    "established",
                    &mut self.maker,
                    report,
                );
            }
            _ => {
                let (state, reason) = ending(meta.of.old_state, meta.of.error);
                let known = self.metas.remove(&id);
                let mut known = known.unwrap_or_else(|| Meta::unknown(meta));
                known.tell(meta, state, reason, &mut self.maker, report);
            }
        }
    }

    /// Takes a connection in. When there is no room the eighth that was silent for longest is given up, with a last profile of each.
    fn insert(&mut self, id: u64, connection: Connection, report: Report<'_>) {
        if self.known.len() >= CONNECTIONS_MAX {
            let mut ages: Vec<(u64, u64)> = self
                .known
                .iter()
                .map(|(id, known)| (known.start_ns, *id))
                .collect();
            ages.sort_unstable();
            for (_, oldest) in ages.iter().take(CONNECTIONS_MAX / 8) {
                if let Some(mut connection) = self.known.remove(oldest) {
                    self.forgotten += 1;
                    connection.tell_desync(&mut self.maker, report);
                }
            }
        }
        self.known.insert(id, connection);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
