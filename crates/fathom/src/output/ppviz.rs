//! The machine-readable format of Pollere's pping, which ppviz draws.

use std::fmt::Write as _;
use std::io::Write as _;

use fathom_measure::rtt::RttSample;
use fathom_record::format::Sink;
use fathom_record::{Record, Value};

/// Writes a line a sample, as `pping -m` does: time and round trip in seconds, least round trip of the flow, three counts of bytes,
/// and the flow as `address:port+address:port`.
///
/// The counts of bytes are 0: samples do not carry them. As with pping the flow is that of the packet that answered: the round trip is
/// the one to its first address. Other records than samples have no place in this format.
#[derive(Debug, Default)]
pub(super) struct PpvizWriter {
    flow: String,
}

impl Sink for PpvizWriter {
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>) {
        if !std::ptr::eq(record.schema(), RttSample::SCHEMA) {
            return;
        }
        let value = |name| {
            RttSample::SCHEMA
                .position(name)
                .map_or(Value::Missing, |index| record.value(index))
        };
        let (Value::Time(time), Value::Duration(rtt)) = (value("time"), value("rtt_ns")) else {
            return;
        };
        // A single request has no least round trip but its own.
        let least = match value("rtt_min_ns") {
            Value::Duration(least) => least,
            _ => rtt,
        };
        self.flow.clear();
        put_end(
            &mut self.flow,
            value("destination"),
            value("destination_port"),
        );
        self.flow.push('+');
        put_end(&mut self.flow, value("source"), value("source_port"));
        let [time, rtt, least] = [time, rtt, least].map(Seconds);
        // Writing to memory does not fail.
        let _ = writeln!(out, "{time} {rtt} {least} 0 0 0 {}", self.flow);
    }
}

/// pping has no brackets around IPv6 addresses.
fn put_end(text: &mut String, address: Value<'_>, port: Value<'_>) {
    if let (Value::Address(address), Value::Port(port)) = (address, port) {
        let _ = write!(text, "{address}:{port}");
    }
}

/// Nanoseconds as seconds with six decimals, cut off.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = self.0 / 1000;
        write!(formatter, "{}.{:06}", us / 1_000_000, us % 1_000_000)
    }
}
