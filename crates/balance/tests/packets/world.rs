//! What the balancer of the fixtures is told: services, rings, servers; and what their packets must
//! look like.

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header};
use fathom_balance::native::{
    BALANCE_ANSWERS_ECHO, BALANCE_BY_GUE, BALANCE_BY_IPIP, BALANCE_BY_LAYER2, BALANCE_HAS_QUIC_IDS,
    BALANCE_IS_BY_CLIENT, BALANCE_IS_MEASURED, BALANCE_NETWORK_PREFIX, balance_network_key,
    balance_server, balance_service, balance_service_key,
};

use crate::frame::framed;

/// Services' addresses, the last with one service for all ports.
pub(crate) const SERVICE: [&str; 2] = ["203.0.113.1", "2001:db8:1::1"];
pub(crate) const ALL_PORTS: [&str; 2] = ["203.0.113.2", "2001:db8:1::2"];
/// Addresses of services that are networks, and what else is in these networks.
pub(crate) const NETWORKS: [(&str, u32); 2] = [("198.51.100.0", 24), ("2001:db8:2::", 48)];
pub(crate) const CLIENT: [&str; 2] = ["192.0.2.7", "2001:db8:f::7"];
pub(crate) const OUTER: [&str; 2] = ["10.0.0.254", "fd00::254"];
pub(crate) const GUE_PORT: u16 = 6080;
pub(crate) const MTU: u16 = 1500;

/// How server N is reached; its number is the place in the list and 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) encapsulation: u32,
    pub(crate) is_ipv6: bool,
    pub(crate) interface: u32,
    pub(crate) vlan: u16,
    pub(crate) spread_bits: u8,
}

const fn way(encapsulation: u32, is_ipv6: bool) -> Way {
    Way {
        encapsulation,
        is_ipv6,
        interface: 0,
        vlan: 0,
        spread_bits: 0,
    }
}

// The others are reached by port alone.
pub(crate) const LAYER2: u16 = 1;
pub(crate) const IPIP4: u16 = 4;
pub(crate) const IPIP6: u16 = 5;
pub(crate) const GUE4: u16 = 6;
pub(crate) const GUE6: u16 = 7;
pub(crate) const TAGGED_IPIP: u16 = 9;
/// Of which the balancer knows nothing.
pub(crate) const UNKNOWN: u16 = 99;

pub(crate) const WAYS: [Way; 9] = [
    way(BALANCE_BY_LAYER2, false),
    Way {
        interface: 1,
        ..way(BALANCE_BY_LAYER2, false)
    },
    Way {
        vlan: 0x2064,
        ..way(BALANCE_BY_LAYER2, false)
    },
    way(BALANCE_BY_IPIP, false),
    way(BALANCE_BY_IPIP, true),
    way(BALANCE_BY_GUE, false),
    way(BALANCE_BY_GUE, true),
    Way {
        spread_bits: 16,
        ..way(BALANCE_BY_IPIP, false)
    },
    Way {
        vlan: 100,
        ..way(BALANCE_BY_IPIP, true)
    },
];

/// The port of a service, in both families, TCP and UDP, that has one server: 8000 and the server's
/// number.
pub(crate) fn port_of(server: u16) -> u16 {
    8000 + server
}
/// A service without a ring.
pub(crate) const NO_RING: u16 = 8100;
/// One with two servers, IPIP4 and IPIP6, in alternate places.
pub(crate) const PAIR: u16 = 8200;
/// The same, whose clients stay together.
pub(crate) const BY_CLIENT: u16 = 8201;
/// The same, measured.
pub(crate) const MEASURED: u16 = 8202;
/// The same, with QUIC ids; measured.
pub(crate) const QUIC: u16 = 8443;
/// QUIC, not measured.
pub(crate) const QUIC_UNMEASURED: u16 = 8444;

pub(crate) const RING_SIZE: u32 = 1021;
/// Rings lie behind each other, this many elements apart; the first are those of servers.
pub(crate) const RING_STRIDE: u32 = 256;
pub(crate) const PAIR_RING: u32 = 120;

/// Link-layer addresses for a server.
pub(crate) fn next_hop(server: u16) -> [u8; 6] {
    [2, 0, 0, 0, 1, server as u8]
}
pub(crate) fn own(server: u16) -> [u8; 6] {
    [2, 0, 0, 0, 2, server as u8]
}
fn outer_destination(server: u16, is_ipv6: bool) -> IpAddr {
    let text = if is_ipv6 {
        format!("fd00::{server}")
    } else {
        format!("10.0.0.{server}")
    };
    text.parse().unwrap()
}

pub(crate) fn server(number: u16) -> balance_server {
    let way = WAYS[usize::from(number) - 1];
    let source: IpAddr = OUTER[usize::from(way.is_ipv6)].parse().unwrap();
    balance_server {
        source: source.into(),
        destination: outer_destination(number, way.is_ipv6).into(),
        next_hop: next_hop(number),
        own: own(number),
        vlan: way.vlan,
        mtu: MTU,
        interface: way.interface,
        gue_port: GUE_PORT,
        encapsulation: way.encapsulation as u8,
        ttl: 63,
        spread_bits: way.spread_bits,
        ..balance_server::default()
    }
}

/// All services.
pub(crate) fn services() -> Vec<(balance_service_key, balance_service)> {
    let mut services = Vec::new();
    let ports = (1..=WAYS.len() as u16).chain([UNKNOWN]).map(|server| {
        let ring = u32::from(server);
        (port_of(server), ring, 0, server)
    });
    let special = [
        (PAIR, PAIR_RING, 0, 200),
        (BY_CLIENT, PAIR_RING, BALANCE_IS_BY_CLIENT, 201),
        (MEASURED, PAIR_RING, BALANCE_IS_MEASURED, 202),
        (
            QUIC,
            PAIR_RING,
            BALANCE_IS_MEASURED | BALANCE_HAS_QUIC_IDS,
            203,
        ),
        (QUIC_UNMEASURED, PAIR_RING, BALANCE_HAS_QUIC_IDS, 204),
    ];
    for (port, ring, flags, index) in ports.chain(special) {
        let service = balance_service {
            ring_begin: ring * RING_STRIDE,
            ring_size: RING_SIZE,
            index,
            flags: flags as u8,
            ..balance_service::default()
        };
        for address in SERVICE {
            services.push((key(address, port, 6), service));
            services.push((key(address, port, 17), service));
        }
    }
    for address in SERVICE {
        services.push((key(address, NO_RING, 6), balance_service::default()));
    }
    let all = balance_service {
        ring_begin: u32::from(IPIP4) * RING_STRIDE,
        ring_size: RING_SIZE,
        index: 210,
        ..balance_service::default()
    };
    let echo = balance_service {
        flags: BALANCE_ANSWERS_ECHO as u8,
        ..balance_service::default()
    };
    for (number, address) in ALL_PORTS.into_iter().enumerate() {
        services.push((key(address, 0, 6), all));
        services.push((key(address, 0, icmp(number)), balance_service::default()));
        services.push((key(SERVICE[number], 0, icmp(number)), echo));
    }
    services
}

fn icmp(family: usize) -> u8 {
    [1, 58][family]
}

fn key(address: &str, port: u16, protocol: u8) -> balance_service_key {
    balance_service_key {
        address: address.parse::<IpAddr>().unwrap().into(),
        port,
        protocol,
        ..balance_service_key::default()
    }
}

/// Services of networks: port 80 at GUE4, all other ports of UDP at LAYER2.
pub(crate) fn networks() -> Vec<(balance_network_key, balance_service)> {
    let service = |server: u16, index| balance_service {
        ring_begin: u32::from(server) * RING_STRIDE,
        ring_size: RING_SIZE,
        index,
        ..balance_service::default()
    };
    let all = NETWORKS.into_iter().flat_map(|(address, bits)| {
        let bits = bits + if address.contains(':') { 0 } else { 96 };
        [(80, 6, service(GUE4, 211)), (0, 17, service(LAYER2, 212))].map(
            |(port, protocol, service)| {
                let network = balance_network_key {
                    prefix_length: BALANCE_NETWORK_PREFIX + bits,
                    port,
                    protocol,
                    address: address.parse::<IpAddr>().unwrap().into(),
                    ..balance_network_key::default()
                };
                (network, service)
            },
        )
    });
    all.collect()
}

/// The frame with an IP packet that a server must get. What depends on the flow's hash is 0 here:
/// see `without_entropy`.
pub(crate) fn sent(number: u16, ip: &[u8]) -> Vec<u8> {
    let way = WAYS[usize::from(number) - 1];
    let tags: Vec<u16> = (way.vlan != 0).then_some(way.vlan).into_iter().collect();
    framed(
        own(number),
        next_hop(number),
        &tags,
        &[outer(number, ip), ip.to_vec()].concat(),
    )
}

fn outer(number: u16, ip: &[u8]) -> Vec<u8> {
    let way = WAYS[usize::from(number) - 1];
    if way.encapsulation == BALANCE_BY_LAYER2 {
        return Vec::new();
    }
    let inner = if ip[0] >> 4 == 4 { 4 } else { 41 };
    // What follows the packet is padding of the frame.
    let ip = &ip[..length_of(ip).min(ip.len())];
    let gue = if way.encapsulation == BALANCE_BY_GUE {
        let length = (ip.len() + 12) as u16;
        let ports = [[0, 0], GUE_PORT.to_be_bytes(), length.to_be_bytes(), [0, 0]];
        [ports.concat(), vec![0, inner, 0, 0]].concat()
    } else {
        Vec::new()
    };
    let protocol = IpNumber(if gue.is_empty() { inner } else { 17 });
    let header = match outer_destination(number, way.is_ipv6) {
        IpAddr::V4(destination) => {
            let IpAddr::V4(source) = OUTER[0].parse().unwrap() else {
                unreachable!()
            };
            let length = (gue.len() + ip.len()) as u16;
            let mut header =
                Ipv4Header::new(length, 63, protocol, source.octets(), destination.octets())
                    .unwrap();
            let (class, is_whole, identification) = inner_fields(ip);
            header.dscp = (class >> 2).try_into().unwrap();
            header.ecn = (class & 3).try_into().unwrap();
            header.dont_fragment = is_whole;
            header.identification = if is_whole { 0 } else { identification };
            header.header_checksum = header.calc_header_checksum();
            header.to_bytes().to_vec()
        }
        IpAddr::V6(destination) => Ipv6Header {
            traffic_class: inner_fields(ip).0,
            flow_label: Ipv6FlowLabel::ZERO,
            payload_length: (gue.len() + ip.len()) as u16,
            next_header: protocol,
            hop_limit: 63,
            source: OUTER[1].parse::<std::net::Ipv6Addr>().unwrap().octets(),
            destination: destination.octets(),
        }
        .to_bytes()
        .to_vec(),
    };
    [header, gue].concat()
}

fn length_of(ip: &[u8]) -> usize {
    let field = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    if ip[0] >> 4 == 4 {
        field(2)
    } else {
        40 + field(4)
    }
}

/// Traffic class, DF, identification.
fn inner_fields(ip: &[u8]) -> (u8, bool, u16) {
    if ip[0] >> 4 == 4 {
        let identification = u16::from_be_bytes([ip[4], ip[5]]);
        (ip[1], ip[6] & 0x40 != 0, identification)
    } else {
        (ip[0] << 4 | ip[1] >> 4, true, 0)
    }
}

/// Takes out of a frame what depends on the flow's hash: flow label, source port of GUE, spread
/// source with its checksum. Returns it.
pub(crate) fn take_entropy(number: u16, frame: &mut [u8]) -> Vec<u8> {
    let Some(way) = WAYS.get(usize::from(number).wrapping_sub(1)) else {
        return Vec::new();
    };
    let at = if way.vlan == 0 { 14 } else { 18 };
    let is_encapsulated = way.encapsulation != BALANCE_BY_LAYER2;
    let mut wild = Vec::new();
    if is_encapsulated && way.is_ipv6 {
        wild.extend([(at + 1, 0x0f), (at + 2, 0xff), (at + 3, 0xff)]);
    }
    if way.encapsulation == BALANCE_BY_GUE {
        let udp = at + if way.is_ipv6 { 40 } else { 20 };
        wild.extend([(udp, 0xff), (udp + 1, 0xff)]);
    }
    if way.spread_bits != 0 {
        wild.extend([10, 11, 14, 15].map(|offset| (at + offset, 0xff)));
    }
    let mut entropy = Vec::new();
    for (offset, mask) in wild {
        if let Some(byte) = frame.get_mut(offset) {
            entropy.push(*byte & mask);
            *byte &= !mask;
        }
    }
    entropy
}
