//! Packets as they pass a place in the lab.

use fathom_lab::{PacketFate, PacketHeader, Passed, Tap, Transport, Way};

use crate::Flow;

/// A packet at the place that a measurement is compared at, `wan0` of the router.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passing {
    /// When, in ns since 1970.
    pub time_ns: u64,
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

impl From<Passed> for Passing {
    fn from(packet: Passed) -> Self {
        Self {
            time_ns: packet.time_ns,
            header: packet.header,
        }
    }
}

/// What passed `wan0` by the record of the link there: forward packets when its thread read them,
/// backward ones when it wrote them, which are also the times of its capture file.
pub fn passed_by_link(truth: &[PacketFate]) -> Vec<Passing> {
    let mut passings: Vec<Passing> = truth
        .iter()
        .filter_map(|packet| {
            let time_ns = match packet.way {
                Way::Forward => packet.read_ns,
                Way::Backward => packet.written_ns?,
            };
            let header = packet.header?;
            Some(Passing { time_ns, header })
        })
        .collect();
    passings.sort_by_key(|passing| passing.time_ns);
    passings
}

/// What passed `wan0` by the clock of the kernel, which no busy machine makes late.
pub fn passed_by_tap(tap: Tap) -> anyhow::Result<Vec<Passing>> {
    Ok(tap.finish()?.into_iter().map(Passing::from).collect())
}
