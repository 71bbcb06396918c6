//! Packets as they pass a place in the lab.

use std::collections::{HashMap, VecDeque};

use fathom_lab::{PacketFate, PacketHeader, Topology, Transport, Way};

use crate::Flow;

/// An end of a link: the place that a measurement is compared at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where forward packets go in and backward packets come out, as `wan0` of the router.
    First,
    /// Where forward packets come out and backward packets go in, as `lan0` of the router.
    Second,
}

/// A packet at the end of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passing {
    /// When, in ns since 1970: read by the link going in, written by it coming out.
    pub time_ns: u64,
    /// It passed no earlier.
    pub earliest_ns: u64,
    /// It passed no later.
    pub latest_ns: u64,
    /// Its parsed headers.
    pub header: PacketHeader,
}

impl Passing {
    /// The flow as the records of fathom name it.
    pub fn flow(&self) -> Flow {
        let header = &self.header;
        let (source_port, destination_port) = match header.transport {
            Transport::Echo { identifier, .. } => (identifier, identifier),
            _ => (header.source_port, header.destination_port),
        };
        Flow {
            protocol: header.protocol,
            source: header.source,
            source_port,
            destination: header.destination,
            destination_port,
        }
    }
}

/// All parsed packets that pass `end`, in order of time.
pub fn passings(truth: &[PacketFate], end: End) -> Vec<Passing> {
    let goes_in = |way| (way == Way::Forward) == (end == End::First);
    let mut passings: Vec<Passing> = truth
        .iter()
        .filter_map(|packet| {
            let time_ns = if goes_in(packet.way) {
                packet.read_ns
            } else {
                packet.written_ns?
            };
            Some(Passing {
                time_ns,
                earliest_ns: time_ns,
                latest_ns: time_ns,
                header: packet.header?,
            })
        })
        .collect();
    passings.sort_by_key(|passing| passing.time_ns);
    passings
}

/// All parsed packets that pass `wan0`, in order of time, with the limits that both links together set to it: a packet came out of one link
/// before it passed, and was read by the other after. The thread that reads may have waited for a processor; the measurement point did not.
pub fn passings_at_wan(lab: &Topology) -> Vec<Passing> {
    let lan = passings(&lab.lan.truth(), End::Second);
    let mut passings = passings(&lab.wan.truth(), End::First);
    let mut at_lan: HashMap<Flow, VecDeque<Passing>> = HashMap::new();
    for passing in lan {
        at_lan.entry(passing.flow()).or_default().push_back(passing);
    }
    for passing in &mut passings {
        let Some(queue) = at_lan.get_mut(&passing.flow()) else {
            continue;
        };
        // The router keeps the order of a flow; what it has not passed on is not asked for.
        let Some(position) = queue
            .iter()
            .position(|other| other.header == passing.header)
        else {
            continue;
        };
        let time_ns = queue[position].time_ns;
        queue.drain(..=position);
        passing.earliest_ns = passing.earliest_ns.min(time_ns);
        passing.latest_ns = passing.latest_ns.max(time_ns);
    }
    passings
}
