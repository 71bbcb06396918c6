//! Packets of a flow, as frames.

use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type, PacketBuilder, TcpOptionElement};

/// Where the IP header is.
pub(crate) const ETHERNET_BYTES: usize = 14;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const PORTS: [u16; 2] = [40_000, 443];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body {
    /// With timestamps; flags besides ACK.
    Tcp {
        seq: u32,
        ack: u32,
        flags: &'static str,
        payload: usize,
    },
    Udp {
        payload: usize,
    },
    Echo {
        sequence: u16,
    },
}

/// A packet of the flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) body: Body,
    pub(crate) ttl: u8,
}

impl Packet {
    /// Its frame: from this host to the other, or as a reply.
    pub(crate) fn frame(&self, family: Family, is_reply: bool) -> Vec<u8> {
        let (near, far) = if is_reply { (1, 0) } else { (0, 1) };
        let link = PacketBuilder::ethernet2(MACS[near], MACS[far]);
        let host = |place: usize| place as u8 + 1;
        let ip = match family {
            Family::V4 => link.ipv4([198, 18, 0, host(near)], [198, 18, 0, host(far)], self.ttl),
            Family::V6 => link.ipv6(address6(host(near)), address6(host(far)), self.ttl),
        };
        let mut frame = Vec::new();
        match self.body {
            Body::Tcp {
                seq,
                ack,
                flags,
                payload,
            } => {
                let timestamp = TcpOptionElement::Timestamp(500, 700);
                let options = [TcpOptionElement::Noop, TcpOptionElement::Noop, timestamp];
                let mut tcp = ip.tcp(PORTS[near], PORTS[far], seq, 512).ack(ack);
                tcp = tcp.options(&options).unwrap();
                for flag in flags.chars() {
                    tcp = match flag {
                        'S' => tcp.syn(),
                        'F' => tcp.fin(),
                        'R' => tcp.rst(),
                        _ => tcp.psh(),
                    };
                }
                tcp.write(&mut frame, &vec![7; payload]).unwrap();
            }
            Body::Udp { payload } => {
                let udp = ip.udp(PORTS[near], PORTS[far]);
                udp.write(&mut frame, &vec![7; payload]).unwrap();
            }
            Body::Echo { sequence } => {
                let echo = IcmpEchoHeader {
                    id: 77,
                    seq: sequence,
                };
                let v4 = [Icmpv4Type::EchoRequest(echo), Icmpv4Type::EchoReply(echo)];
                let v6 = [Icmpv6Type::EchoRequest(echo), Icmpv6Type::EchoReply(echo)];
                let kind = usize::from(is_reply);
                match family {
                    Family::V4 => ip.icmpv4(v4[kind].clone()).write(&mut frame, &[7; 40]),
                    Family::V6 => ip.icmpv6(v6[kind]).write(&mut frame, &[7; 40]),
                }
                .unwrap();
            }
        }
        frame
    }
}

fn address6(host: u8) -> [u8; 16] {
    [0xfd, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]
}

/// Time exceeded, from a router: it quotes what follows the Ethernet header of `probe`.
pub(crate) fn time_exceeded(family: Family, probe: &[u8]) -> Vec<u8> {
    let quoted = &probe[ETHERNET_BYTES..];
    let link = PacketBuilder::ethernet2(MACS[1], MACS[0]);
    let mut frame = Vec::new();
    match family {
        Family::V4 => {
            let ip = link.ipv4([198, 18, 9, 1], [198, 18, 0, 1], 64);
            ip.icmpv4_raw(11, 0, [0; 4]).write(&mut frame, quoted)
        }
        Family::V6 => {
            let ip = link.ipv6(address6(99), address6(1), 64);
            ip.icmpv6_raw(3, 0, [0; 4]).write(&mut frame, quoted)
        }
    }
    .unwrap();
    frame
}

/// What a probe is, in words; `number` is the one that it should have.
pub(crate) fn describe(frame: &[u8], number: u32) -> String {
    let packet = &frame[ETHERNET_BYTES..];
    let is_ipv6 = packet[0] >> 4 == 6;
    let ip_bytes = if is_ipv6 { 40 } else { 20 };
    let (ttl, protocol, said) = if is_ipv6 {
        (packet[7], packet[6], usize::from(word(packet, 4)) + 40)
    } else {
        (packet[8], packet[9], usize::from(word(packet, 2)))
    };
    assert_eq!(said, packet.len(), "the length in the IP header");
    assert!(is_ipv6 || sum(&packet[..20]) == 0xffff, "IP's checksum");
    let transport = &packet[ip_bytes..];
    let mut whole = packet[if is_ipv6 { 8 } else { 12 }..].to_vec();
    whole.extend([0, protocol]);
    whole.extend((transport.len() as u16).to_be_bytes());
    let is_right = match protocol {
        1 => sum(transport) == 0xffff,
        _ => sum(&whole) == 0xffff,
    };
    let numbered = match (is_ipv6, protocol) {
        (false, _) => u32::from(word(packet, 4)),
        (true, 6) => u32::from(word(transport, 18)),
        (true, 17) => u32::from(word(transport, 4)) & 0x3fff,
        (true, _) => u32::from(word(transport, 2)),
    };
    assert_eq!(numbered, number, "the number");
    let checksum = if is_right { "right" } else { "wrong" };
    match protocol {
        6 => format!(
            "probe ttl {ttl}: tcp seq {} ack {} flags {:#x} window {} in {} bytes, checksum {checksum}",
            double(transport, 4),
            double(transport, 8),
            transport[13],
            word(transport, 14),
            transport.len(),
        ),
        17 => format!(
            "probe ttl {ttl}: udp {} in {} bytes",
            if usize::from(word(transport, 4)) > transport.len() {
                "longer than its packet"
            } else {
                "as long as it says"
            },
            transport.len(),
        ),
        _ => format!(
            "probe ttl {ttl}: echo {} in {} bytes, checksum {checksum}",
            word(transport, 6),
            transport.len(),
        ),
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn double(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// Of RFC 1071; 0xffff where a checksum is right.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
