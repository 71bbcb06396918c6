//! Which packet was answered by which, found in the lab's record by the definition of each method.
//!
//! This is deliberately not the algorithm of the tool: it keeps everything, has no bounds, and
//! looks at each method by itself.

mod quic;
mod request;
mod tcp;

pub use quic::{quic_handshake, spin};
pub use request::{dns, echo};
pub use tcp::{handshake, sequence, timestamp};

use crate::{Flow, Method, Passing};

/// A packet and what answered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The flow of the packet.
    pub flow: Flow,
    /// The method that finds it.
    pub method: Method,
    /// When the packet passed, in ns since 1970.
    pub packet_ns: u64,
    /// When its answer did.
    pub answer_ns: u64,
    /// The answer had been overtaken by the answer to a later packet.
    pub is_overtaken: bool,
}

impl Pair {
    /// The round trip, in ns.
    pub fn rtt_ns(&self) -> u64 {
        self.answer_ns - self.packet_ns
    }

    fn new(flow: Flow, method: Method, packet_ns: u64, answer_ns: u64) -> Self {
        Self {
            flow,
            method,
            packet_ns,
            answer_ns,
            is_overtaken: false,
        }
    }
}

/// The pairs of all methods, TCP by `timestamp` or, where packets carry none, by `sequence`.
pub fn all(passings: &[Passing]) -> Vec<Pair> {
    let of_tcp = if tcp::has_timestamps(passings) {
        timestamp
    } else {
        sequence
    };
    [of_tcp, handshake, echo, dns, quic_handshake, spin]
        .into_iter()
        .flat_map(|find| find(passings))
        .collect()
}
