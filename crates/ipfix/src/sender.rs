//! The thread that sends what is spooled, so that measuring never waits for a collector.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fathom_record::Time;

use crate::connection::{Connection, Connector};
use crate::{Counters, Destination, Error, Outgoing, OutgoingQueue, Refresh, Transport};

/// The pause after the first failure; it doubles with each one that follows.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderSettings {
    /// When templates are sent again over UDP.
    pub refresh: Refresh,
    /// Bytes of messages that may wait while the collector is away; by default 16 MiB.
    pub spool_bytes: usize,
}

impl Default for SenderSettings {
    fn default() -> Self {
        Self {
            refresh: Refresh::default(),
            spool_bytes: 16 << 20,
        }
    }
}

/// Sends messages to one collector from a thread of its own.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: OutgoingQueue,
    /// When to end at the latest, once the end was asked for.
    deadline: Option<Instant>,
    has_ended: bool,
    /// Why the collector is away, if it is.
    trouble: Option<String>,
    /// The longest packet that reaches it whole, once that is known, where that matters.
    path_mtu: Option<u16>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements: a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changes, for `patience` at most.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, patience: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, patience);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Sender {
    /// Starts the thread, which connects by itself, again and again if it must.
    ///
    /// # Errors
    /// [`Error::Certificates`], [`Error::Destination`] for a name that no certificate can be for,
    /// [`Error::Thread`].
    pub fn start(destination: &Destination, settings: &SenderSettings) -> Result<Self, Error> {
        Self::start_with(destination, settings, None, Connector::new(destination)?)
    }

    /// The same, once there is a connection; over UDP, once the name has an address.
    ///
    /// # Errors
    /// As [`Sender::start`], [`Error::Resolve`] and [`Error::Connect`].
    pub fn connect(destination: &Destination, settings: &SenderSettings) -> Result<Self, Error> {
        let connector = Connector::new(destination)?;
        let connection = connector.connect()?;
        Self::start_with(destination, settings, Some(connection), connector)
    }

    fn start_with(
        destination: &Destination,
        settings: &SenderSettings,
        connection: Option<Connection>,
        connector: Connector,
    ) -> Result<Self, Error> {
        let is_lossy = destination.transport == Transport::Udp;
        let mut queue =
            OutgoingQueue::new(is_lossy.then_some(settings.refresh), settings.spool_bytes);
        if connection.is_some() {
            queue.connected();
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue,
                deadline: None,
                has_ended: false,
                trouble: None,
                path_mtu: None,
            }),
            changed: Condvar::new(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("ipfix".to_owned());
        let started = thread.spawn(move || run(&for_thread, &connector, connection));
        started.map_err(|source| Error::Thread {
            destination: destination.to_string(),
            source,
        })?;
        Ok(Self { shared })
    }

    /// Takes messages; returns at once.
    pub fn push(&self, messages: impl Iterator<Item = Outgoing>) {
        let mut messages = messages.peekable();
        if messages.peek().is_none() {
            return;
        }
        let mut state = self.shared.lock();
        for message in messages {
            state.queue.push(message);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().queue.counters()
    }

    /// Why messages wait, or did until the end, if the collector cannot be reached.
    pub fn trouble(&self) -> Option<String> {
        self.shared.lock().trouble.clone()
    }

    /// Bytes of messages that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.shared.lock().queue.waiting_bytes()
    }

    /// The longest packet that reaches the collector whole, once that is known, where that matters.
    pub(crate) fn path_mtu(&self) -> Option<u16> {
        self.shared.lock().path_mtu
    }

    /// Sends what waits, for `patience` at most, and ends; what did not leave is counted as
    /// dropped.
    pub fn finish(&self, patience: Duration) -> Counters {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        state.queue.end(Time::now());
        state.deadline = Some(deadline);
        self.shared.changed.notify_all();
        while !state.has_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The thread may be waiting for the kernel; it ends by itself and finds nothing
                // left to send.
                state.queue.abandon();
                break;
            }
            state = self.shared.wait(state, left);
        }
        state.queue.counters()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.lock().deadline.get_or_insert(Instant::now());
        self.shared.changed.notify_all();
    }
}

fn run(shared: &Shared, connector: &Connector, mut connection: Option<Connection>) {
    let mut pause = FIRST_PAUSE;
    while wait_for_work(shared) {
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => connect(shared, connector),
        };
        match open.and_then(|open| send_all(shared, open)) {
            Ok(open) => {
                connection = Some(open);
                pause = FIRST_PAUSE;
            }
            Err(reason) => {
                let mut state = shared.lock();
                state.queue.failed();
                state.trouble = Some(reason);
                pause_before_retry(shared, state, pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
    if let Some(open) = connection {
        open.close();
    }
    let mut state = shared.lock();
    state.queue.abandon();
    state.has_ended = true;
    shared.changed.notify_all();
}

/// Waits until there is something to send; false when there is nothing more to come, or no time
/// left.
fn wait_for_work(shared: &Shared) -> bool {
    let mut state = shared.lock();
    loop {
        let now = Time::now();
        let has_work = state.queue.next(now).is_some();
        match state.deadline {
            Some(deadline) if Instant::now() >= deadline => return false,
            Some(_) if !has_work && !state.queue.has_farewell() => return false,
            _ if has_work => return true,
            _ => {}
        }
        let due = state.queue.due();
        let patience = due.map_or(LONGEST_PAUSE, |due| {
            Duration::from_nanos(due.0.saturating_sub(now.0))
        });
        // At least a little, or a clock that stands still would keep a processor busy.
        let patience = patience.clamp(Duration::from_millis(1), LONGEST_PAUSE);
        state = shared.wait(state, patience);
    }
}

fn connect(shared: &Shared, connector: &Connector) -> Result<Connection, String> {
    let connection = connector.connect().map_err(|error| chain(&error))?;
    shared.lock().queue.connected();
    Ok(connection)
}

/// Sends until nothing waits, and gives the connection back; the reason if it is of no use any
/// more.
fn send_all(shared: &Shared, mut connection: Connection) -> Result<Connection, String> {
    let mut message = Vec::new();
    shared.lock().path_mtu = connection.path_mtu();
    loop {
        {
            let mut state = shared.lock();
            let is_late = state
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline);
            match state.queue.next(Time::now()) {
                Some(next) if !is_late => message.clone_from(&next.bytes),
                _ => return Ok(connection),
            }
        }
        // Without the lock: measuring must not wait for the network.
        let sent = connection.send(&message);
        sent.map_err(|error| format!("send to the collector: {error}"))?;
        let mut state = shared.lock();
        state.trouble = None;
        state.queue.sent(Time::now());
    }
}

/// Waits; not longer than until the deadline, once there is one.
fn pause_before_retry(shared: &Shared, mut state: MutexGuard<'_, State>, pause: Duration) {
    let until = Instant::now() + pause;
    loop {
        let until = state.deadline.map_or(until, |deadline| deadline.min(until));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        state = shared.wait(state, left);
    }
}

/// An error with its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
