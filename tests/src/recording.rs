//! Closed loops as files: what a capture at a router has of their clients, and what these waited.
//!
//! A recording is two files: `NAME.pcap.zst`, headers alone, without checksums and options but
//! timestamps, and `NAME.waits`, a line for each turn: the client's port, when the turn ended, in
//! microseconds after the line before it (the first: since 1970), and how long it took, in
//! microseconds.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};
use etherparse::PacketBuilder;
use etherparse::TcpOptionElement::{Noop, Timestamp};
use fathom_capture::{LinkType, Writer};
use fathom_lab::traffic::loops::Loop;
use fathom_lab::{PacketHeader, Passed, TcpFlags, Transport};
use std::net::IpAddr;

/// Bytes of the headers of IPv4 and TCP, the latter with timestamps.
const HEADER_BYTES: usize = 52;
/// How hard the files are pressed: they are made once.
const LEVEL: i32 = 19;

/// Writes what passed to `server_port`, as a compressed capture file.
pub fn write_capture(path: &Path, passed: &[Passed], server_port: u16) -> Result<()> {
    let file = File::create(path).with_context(|| format!("write {}", path.display()))?;
    let encoder = zstd::Encoder::new(file, LEVEL)?;
    let mut writer = Writer::new(encoder, LinkType::RAW, HEADER_BYTES as u32)?;
    let requests = passed
        .iter()
        .filter(|one| !one.is_outgoing && one.header.destination_port == server_port);
    for one in requests {
        let frame = frame(&one.header).context("no segment of IPv4")?;
        let length = frame.len() as u32 + one.header.payload_length;
        writer.write(one.time_ns, length, &frame)?;
    }
    writer.finish()?.finish()?;
    Ok(())
}

/// The headers of a segment; of its options only the timestamps.
fn frame(header: &PacketHeader) -> Option<Vec<u8>> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (header.source, header.destination) else {
        return None;
    };
    let Transport::Tcp {
        sequence,
        acknowledgement,
        flags,
        timestamps,
    } = header.transport
    else {
        return None;
    };
    let mut builder = PacketBuilder::ipv4(source.octets(), destination.octets(), 64).tcp(
        header.source_port,
        header.destination_port,
        sequence,
        65_535,
    );
    if flags.contains(TcpFlags::SYN) {
        builder = builder.syn();
    }
    if flags.contains(TcpFlags::FIN) {
        builder = builder.fin();
    }
    if flags.contains(TcpFlags::RST) {
        builder = builder.rst();
    }
    if flags.contains(TcpFlags::ACK) {
        builder = builder.ack(acknowledgement);
    }
    if let Some((value, echo)) = timestamps {
        let options = [Noop, Noop, Timestamp(value, echo)];
        builder = builder.options(&options).ok()?;
    }
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).ok()?;
    // A capture that was cut: the length is that of the whole packet; checksums would only make the
    // file larger.
    let length = u16::try_from(frame.len() as u32 + header.payload_length).unwrap_or(u16::MAX);
    frame[2..4].copy_from_slice(&length.to_be_bytes());
    frame[10..12].fill(0);
    frame[36..38].fill(0);
    Some(frame)
}

/// Writes what the clients waited.
pub fn write_waits(path: &Path, loops: &[Loop]) -> Result<()> {
    let mut text = String::new();
    for own in loops {
        let mut before_us = 0;
        for turn in &own.turns {
            let ended_us = turn.ended_ns / 1_000;
            let wait_us = turn.latency_ns() / 1_000;
            writeln!(
                text,
                "{} {} {wait_us}",
                own.client.port(),
                ended_us - before_us
            )?;
            before_us = ended_us;
        }
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
