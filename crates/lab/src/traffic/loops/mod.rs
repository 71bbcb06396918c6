//! Clients that send their next request when they have their answer, at once or after they have
//! thought, and how long they waited for each: the truth of response latency.
//!
//! Over one connection the [`Shape`] says which requests are outstanding together, and [`Service`]
//! how long the server takes. No thread waits busily.

mod client;
mod message;
mod server;
mod service;

use std::net::SocketAddr;
use std::time::Duration;

pub use server::start_server;
pub use service::Service;

use crate::{Namespace, Result, Worker};

/// Which requests are outstanding together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// So many at any time: each answer triggers a request.
    Window(u32),
    /// So many at once: the last of their answers triggers as many again.
    Batch(u32),
    /// One, and after its answer so many at once; the last of their answers begins the next such
    /// tree.
    Tree(u32),
}

/// A closed loop of requests.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Connections at the same time, each with a loop of its own.
    pub connections: u32,
    /// Which requests are outstanding together.
    pub shape: Shape,
    /// How long the server takes for a request.
    pub service: Service,
    /// Whether the server works on one request at a time, in their order; else on all at once.
    pub is_serial: bool,
    /// Bytes of a request, 24 at least.
    pub request_bytes: u32,
    /// Bytes of a response, 8 at least.
    pub response_bytes: u32,
    /// After so many turns, such a pause.
    pub pause: Option<(u32, Duration)>,
    /// After each turn, how long the client thinks.
    pub think: Option<Service>,
    /// How long the loop goes on.
    pub duration: Duration,
    /// Of the times.
    pub seed: u64,
}

impl Workload {
    /// One connection with small messages that loops for three seconds.
    pub fn new(shape: Shape, service: Service) -> Self {
        Self {
            connections: 1,
            shape,
            service,
            is_serial: false,
            request_bytes: 120,
            response_bytes: 400,
            pause: None,
            think: None,
            duration: Duration::from_secs(3),
            seed: 1,
        }
    }

    /// Runs the loops from `namespace`.
    ///
    /// # Errors
    /// [`crate::Error::Runtime`] when a connection cannot be made, or breaks.
    pub fn run(&self, namespace: &Namespace, server: SocketAddr) -> Result<Vec<Loop>> {
        // A slow device would let the stack put requests together that the client sends one by one.
        namespace.set("net/ipv4/tcp_autocorking", "0")?;
        let workers = (0..self.connections).map(|number| {
            let (namespace, own) = (namespace.clone(), self.clone());
            Worker::start("closed loop", move |_| {
                client::run(&namespace, server, &own, number)
            })
        });
        let workers = workers.collect::<Result<Vec<_>>>()?;
        workers.into_iter().map(Worker::join).collect()
    }
}

/// What a client did on one connection.
#[derive(Debug, Clone)]
pub struct Loop {
    /// The client's end.
    pub client: SocketAddr,
    /// In the order of their end.
    pub turns: Vec<Turn>,
}

/// Requests that were sent together, until the last of their answers: what triggers others. In a
/// window that slides, a single request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// When the first request was about to be written, in ns since 1970.
    pub began_ns: u64,
    /// When the client read the last byte of the last answer, in ns since 1970. If it got to that
    /// late, for lack of a processor, when its kernel had that byte: afterwards it did not wait for
    /// the server, as one that thinks does not.
    pub ended_ns: u64,
}

impl Turn {
    /// How long the client waited, in ns.
    pub fn latency_ns(self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns)
    }
}

/// The timers of this thread end within a microsecond of their time, not within fifty.
pub(super) fn sharpen_timers() {
    // Refused, they are less exact.
    let _ = nix::sys::prctl::set_timerslack(1_000);
}
