//! From words to what an IP packet carries: TCP, UDP, DNS, QUIC, ICMP echo.

use std::net::IpAddr;

use etherparse::{TcpHeader, UdpHeader};

use crate::hosts::Ends;
use crate::words::{Problem, Words};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Reads the transport part of a packet line: the protocol's number and the bytes behind the IP
/// header.
pub(crate) fn read(words: &mut Words<'_>, ends: Ends) -> Result<(u8, Vec<u8>), Problem> {
    match words.expect("transport")? {
        "tcp" => Ok((TCP, tcp(words, ends)?)),
        "udp" => {
            let payload = words.bytes()?;
            Ok((UDP, udp(ends, &payload)))
        }
        "dns" => {
            let message = dns(words)?;
            Ok((UDP, udp(ends, &message)))
        }
        "quic" => {
            let packet = quic(words)?;
            Ok((UDP, udp(ends, &packet)))
        }
        "echo" => echo(words, ends),
        "protocol" => Ok((words.value("protocol")?, words.bytes()?)),
        word => Err(format!("\"{word}\" is no transport")),
    }
}

/// A UDP datagram; its checksum is not used.
pub(crate) fn udp(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let header = UdpHeader {
        source_port: ends.source.port(),
        destination_port: ends.destination.port(),
        length: (8 + payload.len()) as u16,
        checksum: 0,
    };
    [&header.to_bytes()[..], payload].concat()
}

fn tcp(words: &mut Words<'_>, ends: Ends) -> Result<Vec<u8>, Problem> {
    let mut header = TcpHeader::new(ends.source.port(), ends.destination.port(), 0, 1000);
    let (mut options, mut payload, mut offset) = (Vec::new(), Vec::new(), None);
    loop {
        match words.peek() {
            Some("syn") => header.syn = true,
            Some("fin") => header.fin = true,
            Some("rst") => header.rst = true,
            Some("psh") => header.psh = true,
            Some(
                "seq" | "ack" | "win" | "len" | "ts" | "unaligned-ts" | "sack" | "option-bytes"
                | "offset" | "dns",
            ) => {
                let field = words.expect("field")?;
                match field {
                    "seq" => header.sequence_number = words.value("sequence number")?,
                    "ack" => {
                        header.ack = true;
                        header.acknowledgment_number = words.value("acknowledgement")?;
                    }
                    "win" => header.window_size = words.value("window")?,
                    "len" => payload = vec![0; words.value("length")?],
                    "ts" => options.extend(timestamps(words, &[1, 1, 8, 10])?),
                    "unaligned-ts" => options.extend(timestamps(words, &[8, 10])?),
                    "sack" => options.extend(sack(words)?),
                    "option-bytes" => options.extend(words.bytes()?),
                    "offset" => offset = Some(words.value::<u8>("data offset")?),
                    _ => {
                        let message = dns(words)?;
                        payload.extend((message.len() as u16).to_be_bytes());
                        payload.extend(message);
                    }
                }
                continue;
            }
            _ => break,
        }
        words.next();
    }
    options.resize(options.len().next_multiple_of(4), 0);
    header
        .set_options_raw(&options)
        .map_err(|error| error.to_string())?;
    let mut segment = [&header.to_bytes()[..], &payload].concat();
    if let Some(offset) = offset {
        segment[12] = segment[12] & 0x0f | offset << 4;
    }
    Ok(segment)
}

fn timestamps(words: &mut Words<'_>, kind: &[u8]) -> Result<Vec<u8>, Problem> {
    let value: u32 = words.value("TSval")?;
    let echo: u32 = words.value("TSecr")?;
    Ok([kind, &value.to_be_bytes(), &echo.to_be_bytes()].concat())
}

/// `sack LEFT RIGHT`, with any number of further pairs.
fn sack(words: &mut Words<'_>) -> Result<Vec<u8>, Problem> {
    let mut edges = Vec::new();
    while let Some(edge) = words.value_if::<u32>() {
        edges.extend(edge.to_be_bytes());
    }
    if edges.is_empty() || edges.len() % 8 != 0 {
        return Err("the edges of SACK blocks come in pairs".to_owned());
    }
    Ok([&[1, 1, 5, edges.len() as u8 + 2], &edges[..]].concat())
}

/// `query ID NAME [TYPE]` or `answer ID NAME [TYPE]`; also `update`, which is another opcode.
fn dns(words: &mut Words<'_>) -> Result<Vec<u8>, Problem> {
    let flags: u16 = match words.expect("query or answer")? {
        "query" => 0x0100,
        "answer" => 0x8180,
        "update" => 0x2800,
        word => return Err(format!("\"{word}\" is no DNS message")),
    };
    let id: u16 = words.value("transaction id")?;
    let name = words.expect("name")?;
    let kind: u16 = words.value_if().unwrap_or(1);
    let mut message: Vec<u8> = [id, flags, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend([kind, 1].map(u16::to_be_bytes).as_flattened());
    Ok(message)
}

/// `initial [v2]`, `handshake [v2]`, `version NUMBER`, or `short SPIN`.
fn quic(words: &mut Words<'_>) -> Result<Vec<u8>, Problem> {
    let long = |first: u8, version: u32| {
        [&[first][..], &version.to_be_bytes(), &[4, 1, 2, 3, 4, 0]].concat()
    };
    let mut packet = match words.expect("kind of QUIC packet")? {
        "initial" if words.take("v2") => long(0xd0, 0x6b33_43cf),
        "initial" => long(0xc0, 1),
        "handshake" if words.take("v2") => long(0xf0, 0x6b33_43cf),
        "handshake" => long(0xe0, 1),
        "version" => long(0xc0, words.value("version")?),
        "short" => vec![0x40 | words.value::<u8>("spin bit")? << 5, 1, 2, 3, 4],
        word => return Err(format!("\"{word}\" is no QUIC packet")),
    };
    packet.resize(packet.len() + 20, 0);
    Ok(packet)
}

/// `request ID SEQUENCE`, `reply ID SEQUENCE`, or `error`, which is no echo; `bytes N` of data.
fn echo(words: &mut Words<'_>, ends: Ends) -> Result<(u8, Vec<u8>), Problem> {
    let is_v4 = ends.source.is_ipv4();
    let kind: u8 = match (words.expect("request or reply")?, is_v4) {
        ("request", true) => 8,
        ("reply", true) => 0,
        ("error", true) => 3,
        ("request", false) => 128,
        ("reply", false) => 129,
        ("error", false) => 1,
        (word, _) => return Err(format!("\"{word}\" is no ICMP message")),
    };
    let id: u16 = words.value("echo identifier")?;
    let sequence: u16 = words.value("echo sequence number")?;
    let bytes: usize = if words.take("bytes") {
        words.value("length")?
    } else {
        48
    };
    let fields = [u16::from(kind) << 8, 0, id, sequence].map(u16::to_be_bytes);
    let mut message = [fields.as_flattened(), &vec![0x55; bytes][..]].concat();
    let checksum = echo_checksum(ends, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    Ok((if is_v4 { 1 } else { 58 }, message))
}

/// Of an ICMP message, and over IPv6 of its pseudo-header, too (RFC 1071, RFC 8200).
fn echo_checksum(ends: Ends, message: &[u8]) -> u16 {
    let mut summed = message.to_vec();
    if let (IpAddr::V6(source), IpAddr::V6(destination)) = (ends.source.ip(), ends.destination.ip())
    {
        summed.extend(source.octets());
        summed.extend(destination.octets());
        summed.extend((message.len() as u32).to_be_bytes());
        summed.extend(58_u32.to_be_bytes());
    }
    let (words, rest) = summed.as_chunks::<2>();
    let mut sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    sum += rest.first().map_or(0, |last| u32::from(*last) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
