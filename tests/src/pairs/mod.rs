//! Which packet was answered by which, found in the lab's record by the definition of each method.
//!
//! This is deliberately not the algorithm of the tool: it keeps everything, has no bounds, and looks at each method by itself.

mod quic;
mod request;
mod tcp;

pub use quic::{quic_handshake, spin};
pub use request::{dns, echo};
pub use tcp::{handshake, sequence, timestamp, without_slot};

use crate::{Flow, Method, Passing};

/// A packet and what answered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The flow of the packet.
    pub flow: Flow,
    /// The method that finds it.
    pub method: Method,
    /// The packet.
    pub packet: Moment,
    /// Its answer.
    pub answer: Moment,
    /// The answer had been overtaken by the answer to a later packet.
    pub is_overtaken: bool,
}

/// When a packet passed, as far as the lab knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// In ns since 1970.
    pub time_ns: u64,
    /// No earlier than.
    pub earliest_ns: u64,
    /// No later than.
    pub latest_ns: u64,
}

impl From<&Passing> for Moment {
    fn from(passing: &Passing) -> Self {
        Self {
            time_ns: passing.time_ns,
            earliest_ns: passing.earliest_ns,
            latest_ns: passing.latest_ns,
        }
    }
}

impl Pair {
    /// The round trip, in ns.
    pub fn rtt_ns(&self) -> u64 {
        self.answer.time_ns - self.packet.time_ns
    }

    /// The shortest and the longest round trip that the limits of both moments allow, in ns.
    pub fn limits_ns(&self) -> (u64, u64) {
        (
            self.answer
                .earliest_ns
                .saturating_sub(self.packet.latest_ns),
            self.answer
                .latest_ns
                .saturating_sub(self.packet.earliest_ns),
        )
    }

    fn new(flow: Flow, method: Method, packet: Moment, answer: Moment) -> Self {
        Self {
            flow,
            method,
            packet,
            answer,
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
