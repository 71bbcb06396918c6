//! Community IDs are those of tshark.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::IpAddr;
use std::process::Command;

use fathom_record::{FlowKey, Protocol};

const ESP: Protocol = Protocol(50);
const OSPF: Protocol = Protocol(89);
const PORTS: (u16, u16) = (5000, 443);

/// What follows the IP header of a packet from the client, or of its answer.
fn payload(protocol: Protocol, is_answer: bool) -> Vec<u8> {
    let (from, to) = if is_answer { (PORTS.1, PORTS.0) } else { PORTS };
    let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
    let rest: &[u8] = match protocol {
        // Sequence numbers, a SYN of 20 bytes.
        Protocol::TCP => &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0],
        Protocol::UDP => &[0, 12, 0, 0, 1, 2, 3, 4],
        // Tag and checksum; INIT.
        Protocol::SCTP => &[
            0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 0, 0, 0, 1, 0, 0, 16, 0, 0, 1, 0, 1, 0, 0, 0, 1,
        ],
        Protocol::ICMP | Protocol::ICMPV6 => {
            let (request, reply) = if protocol == Protocol::ICMP {
                (8, 0)
            } else {
                (128, 129)
            };
            let kind = if is_answer { reply } else { request };
            return vec![kind, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4];
        }
        _ => return vec![2; 64],
    };
    [&ports, rest].concat()
}

fn frame(flow: &FlowKey, is_answer: bool) -> Vec<u8> {
    let payload = payload(flow.protocol, is_answer);
    let flow = if is_answer { flow.reversed() } else { *flow };
    let mut frame = vec![2; 12];
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = 20 + payload.len() as u8;
            frame.extend([
                8,
                0,
                0x45,
                0,
                0,
                length,
                0,
                1,
                0,
                0,
                64,
                flow.protocol.0,
                0,
                0,
            ]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let length = payload.len() as u8;
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, flow.protocol.0, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        _ => unreachable!("both are of one family"),
    }
    frame.extend(payload);
    frame
}

/// A pcap of Ethernet.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 0xffff, 1_u32] {
        file.extend(word.to_le_bytes());
    }
    for (second, frame) in (1_700_000_000..).zip(frames) {
        for word in [second, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// A Community ID for each frame, or nothing.
fn by_tshark(frames: &[Vec<u8>]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.pcap");
    std::fs::write(&path, capture(frames)).unwrap();
    let output = Command::new("tshark")
        .args(["-n", "--enable-protocol", "communityid", "-T", "fields"])
        .args(["-e", "communityid", "-r"])
        .arg(&path)
        .output();
    let output = output.expect("tshark is there: `make setup` installs it");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn they_are_those_of_tshark() {
    let mut flows = Vec::new();
    for (client, server) in [
        ("10.0.0.1", "10.0.0.2"),
        ("10.0.0.9", "10.0.0.2"),
        ("2001:db8::1", "2001:db8::2"),
        ("2001:db8::9", "2001:db8::2"),
    ] {
        let [source, destination] = [client, server].map(|address| address.parse().unwrap());
        let is_v4 = IpAddr::is_ipv4(&source);
        let echo = if is_v4 {
            Protocol::ICMP
        } else {
            Protocol::ICMPV6
        };
        for protocol in [
            Protocol::TCP,
            Protocol::UDP,
            Protocol::SCTP,
            echo,
            ESP,
            OSPF,
        ] {
            let (source_port, destination_port) = match protocol {
                Protocol::TCP | Protocol::UDP | Protocol::SCTP => PORTS,
                _ if protocol == echo => (7, 7),
                _ => (0, 0),
            };
            flows.push(FlowKey {
                protocol,
                source,
                source_port,
                destination,
                destination_port,
            });
        }
    }
    let both = flows.iter().flat_map(|flow| [(flow, false), (flow, true)]);
    let frames: Vec<_> = both
        .map(|(flow, is_answer)| frame(flow, is_answer))
        .collect();
    let told = by_tshark(&frames);
    assert_eq!(told.len(), 2 * flows.len());
    for (flow, told) in flows.iter().zip(told.chunks(2)) {
        let own = flow.community_id().to_string();
        // tshark 4.0 says nothing of protocols without ports over IPv6.
        if told == ["", ""] && flow.source.is_ipv6() && !flow.has_ports() {
            continue;
        }
        assert_eq!(told, [own.as_str(), own.as_str()], "{flow}");
    }
}
