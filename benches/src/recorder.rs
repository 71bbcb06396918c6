//! The capture point: writes what passes, and the round-trip times that are true there.

use std::collections::HashSet;
use std::io::Write;
use std::net::SocketAddr;

use crate::Error;
use crate::pcap;
use crate::timestamps::PendingValues;
use crate::wire::{Frame, Segment, flag};

/// The instant of simulated time zero, in seconds since 1970 (2023-11-14): any round number that
/// tools print as a date.
const EPOCH_SECONDS: u64 = 1_700_000_000;

/// Which end of the connection a segment travels to; the client is the one that sent the first SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    /// The other one.
    pub(crate) fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ToServer => "to-server",
            Self::ToClient => "to-client",
        }
    }
}

/// A packet whose round trip may be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// When the capture stamped it.
    pub(crate) captured_at_us: u64,
    /// Whether it is a SYN or SYN-ACK, the packets of the `handshake` method.
    pub(crate) is_syn: bool,
    /// From the capture point to the receiving host; none if the packet is lost on that way.
    pub(crate) transit_ns: Option<u64>,
}

/// What the simulation knows about a segment that passes the capture point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passing {
    /// Index given by [`Recorder::add_flow`].
    pub(crate) flow: usize,
    /// Where it goes.
    pub(crate) direction: Direction,
    /// What it is.
    pub(crate) segment: Segment,
    /// Whether these bytes (or this SYN or FIN) were sent before.
    pub(crate) is_retransmission: bool,
    /// When its host sent it.
    pub(crate) sent_at_ns: u64,
    /// From the capture point to the receiving host; none if it is lost on that way.
    pub(crate) transit_ns: Option<u64>,
    /// The packet whose own arrival made the acknowledgement number what it is, on the first
    /// segment that says so. None where the number jumped because a hole was filled: such an
    /// acknowledgement tells nothing about the round trip of the packet it ends with.
    pub(crate) answers: Option<Measured>,
}

/// What a capture and its truth file hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets in the capture.
    pub packets: u64,
    /// Those that repeat a sequence range which passed the capture point before.
    pub retransmissions: u64,
    /// Samples of method `handshake`: SYN to SYN-ACK, and SYN-ACK to ACK.
    pub handshake_samples: u64,
    /// Samples of method `sequence`: data or FIN to the acknowledgement that ends exactly there.
    pub sequence_samples: u64,
    /// Samples of method `timestamp`, those of SYN and FIN included.
    pub timestamp_samples: u64,
}

#[derive(Debug, Clone, Copy)]
enum Method {
    Handshake,
    Sequence,
    Timestamp,
}

#[derive(Debug)]
struct Flow {
    client: SocketAddr,
    server: SocketAddr,
    /// `source,source_port,destination,destination_port` towards the server and towards the client.
    columns: [String; 2],
    pending_values: [PendingValues; 2],
    /// Where retransmitted ranges end, by direction.
    retransmitted_ends: [HashSet<u32>; 2],
    /// The IPv4 identification of the next packet, by direction: tcptrace takes equal ones for
    /// duplicates made by the network.
    identifications: [u16; 2],
}

/// Writes the capture and its truth, packet by packet in order of time.
#[derive(Debug)]
pub struct Recorder<C: Write, T: Write> {
    capture: pcap::Writer<C>,
    truth: T,
    flows: Vec<Flow>,
    totals: Totals,
}

impl<C: Write, T: Write> Recorder<C, T> {
    /// Starts a capture (pcap, Ethernet, microseconds, 128 bytes of each packet) and a truth file
    /// (CSV with a header line).
    ///
    /// A row of the truth file is one sample. `time` is that of the packet that ended it, in
    /// seconds since 1970; the measured packet went from source to destination, past the capture
    /// point; `rtt_ns` is the difference of the two times in the capture, hence a multiple of 1000;
    /// `path_ns` is the part of it spent on the way to the destination and back, queues included,
    /// the rest being how long the destination held the acknowledgement. `path_ns` is empty where
    /// the measured packet was lost and another with the same TCP timestamp was answered in its
    /// place.
    ///
    /// # Errors
    /// When one of the outputs refuses its header.
    pub fn new(capture: C, mut truth: T) -> Result<Self, Error> {
        let capture = pcap::Writer::new(capture).map_err(Error::WriteCapture)?;
        writeln!(
            truth,
            "time,source,source_port,destination,destination_port,method,direction,rtt_ns,path_ns"
        )
        .map_err(Error::WriteTruth)?;
        Ok(Self {
            capture,
            truth,
            flows: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Hands everything to the outputs.
    ///
    /// # Errors
    /// When one of the outputs cannot be flushed.
    pub fn finish(mut self) -> Result<Totals, Error> {
        self.capture.flush().map_err(Error::WriteCapture)?;
        self.truth.flush().map_err(Error::WriteTruth)?;
        Ok(self.totals)
    }

    /// What was recorded so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Makes a flow known, and returns the number by which packets name it.
    pub(crate) fn add_flow(&mut self, client: SocketAddr, server: SocketAddr) -> usize {
        let columns = |source: SocketAddr, destination: SocketAddr| {
            format!(
                "{},{},{},{}",
                source.ip(),
                source.port(),
                destination.ip(),
                destination.port()
            )
        };
        self.flows.push(Flow {
            client,
            server,
            columns: [columns(client, server), columns(server, client)],
            pending_values: Default::default(),
            retransmitted_ends: Default::default(),
            identifications: [1, 1],
        });
        self.flows.len() - 1
    }

    /// Records one packet; returns what its answer is going to measure.
    pub(crate) fn record(&mut self, at_ns: u64, passing: &Passing) -> Result<Measured, Error> {
        let now_us = at_ns / 1000;
        let flow = &mut self.flows[passing.flow];
        let (forward, backward) = (
            passing.direction as usize,
            passing.direction.reverse() as usize,
        );
        let (source, destination) = match passing.direction {
            Direction::ToServer => (flow.client, flow.server),
            Direction::ToClient => (flow.server, flow.client),
        };
        let segment = &passing.segment;
        let frame = Frame::new(source, destination, flow.identifications[forward], segment);
        flow.identifications[forward] = flow.identifications[forward].wrapping_add(1);
        self.capture
            .write(
                EPOCH_SECONDS * 1_000_000 + now_us,
                frame.captured(),
                frame.original_bytes(),
            )
            .map_err(Error::WriteCapture)?;
        self.totals.packets += 1;
        if passing.is_retransmission {
            self.totals.retransmissions += 1;
            flow.retransmitted_ends[forward].insert(segment.end());
        }

        let answered_value = flow.pending_values[backward].answered(segment);
        let this = Measured {
            captured_at_us: now_us,
            is_syn: segment.has(flag::SYN),
            transit_ns: passing.transit_ns,
        };
        flow.pending_values[forward].passed(segment, this);
        // Karn's rule: what was sent twice has no round-trip time.
        let answered_range = passing
            .answers
            .filter(|_| !flow.retransmitted_ends[backward].contains(&segment.acknowledgement));
        let return_ns = at_ns - passing.sent_at_ns;
        if let Some(answered) = answered_range {
            let method = if answered.is_syn {
                Method::Handshake
            } else {
                Method::Sequence
            };
            self.write_sample(now_us, passing, method, answered, return_ns)?;
        }
        if let Some(answered) = answered_value {
            self.write_sample(now_us, passing, Method::Timestamp, answered, return_ns)?;
        }
        Ok(this)
    }

    fn write_sample(
        &mut self,
        now_us: u64,
        passing: &Passing,
        method: Method,
        measured: Measured,
        return_ns: u64,
    ) -> Result<(), Error> {
        let (name, count) = match method {
            Method::Handshake => ("handshake", &mut self.totals.handshake_samples),
            Method::Sequence => ("sequence", &mut self.totals.sequence_samples),
            Method::Timestamp => ("timestamp", &mut self.totals.timestamp_samples),
        };
        *count += 1;
        let direction = passing.direction.reverse();
        let flow_columns = &self.flows[passing.flow].columns[direction as usize];
        let (seconds, microseconds) = (EPOCH_SECONDS + now_us / 1_000_000, now_us % 1_000_000);
        let rtt_ns = (now_us - measured.captured_at_us) * 1000;
        let direction = direction.name();
        let written = write!(
            self.truth,
            "{seconds}.{microseconds:06},{flow_columns},{name},{direction},{rtt_ns},"
        );
        let written = written.and_then(|()| match measured.transit_ns {
            Some(transit_ns) => writeln!(self.truth, "{}", transit_ns + return_ns),
            None => writeln!(self.truth),
        });
        written.map_err(Error::WriteTruth)
    }
}
