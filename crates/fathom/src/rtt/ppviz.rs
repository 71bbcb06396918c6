//! The machine-readable format of Pollere's pping, which ppviz draws.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;

use fathom_measure::rtt::{Report, RttSample, SampleBytes};
use fathom_record::Record;

use crate::output::Formatter;

/// Samples; of flows it shows nothing.
pub(super) struct Ppviz;

impl Formatter for Ppviz {
    fn put(&mut self, record: &dyn Record, text: &mut Vec<u8>) {
        if let Some(Report::Sample(sample, bytes)) = record.downcast_ref() {
            put_line(sample, *bytes, text);
        }
    }
}

/// Writes the line of a sample, as `pping -m` does: time and round trip in seconds, least round
/// trip of the flow, three counts of IP bytes, and the flow as `address:port+address:port`.
///
/// The counts are those of [`SampleBytes`]. Samples without them have a line without them, which
/// ppviz takes as well. As with pping the flow is that of the packet that answered: the round trip
/// is the one to its first address.
fn put_line(sample: &RttSample, bytes: Option<SampleBytes>, out: &mut Vec<u8>) {
    let (time, rtt) = (Seconds(sample.time.0), Seconds(sample.rtt_ns.0));
    // A single request has no least round trip but its own.
    let least = Seconds(sample.rtt_min_ns.unwrap_or(sample.rtt_ns).0);
    // Writing to memory does not fail.
    let _ = write!(out, "{time} {rtt} {least}");
    if let Some(bytes) = bytes {
        let _ = write!(out, " {} {} {}", bytes.sent, bytes.answered, bytes.returned);
    }
    let flow = sample.flow.reversed();
    let source = End(flow.source, flow.source_port);
    let destination = End(flow.destination, flow.destination_port);
    let _ = writeln!(out, " {source}+{destination}");
}

/// pping has no brackets around IPv6 addresses.
struct End(IpAddr, u16);

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.0, self.1)
    }
}

/// Nanoseconds as seconds with six decimals, cut off.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0 / 1000;
        write!(formatter, "{}.{:06}", us / 1_000_000, us % 1_000_000)
    }
}
