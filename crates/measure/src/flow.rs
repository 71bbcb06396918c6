//! From the key of the C side to the flow of records, and back.

use std::net::{IpAddr, Ipv6Addr};

use fathom_record::{FlowKey, Protocol};

use crate::native::{flow_address, flow_key};

/// The flow of packets in `direction`.
pub(crate) fn flow_of(key: &flow_key, direction: u8) -> FlowKey {
    let flow = FlowKey {
        protocol: Protocol(key.protocol() as u8),
        source: address(&key.low),
        source_port: key.low_port,
        destination: address(&key.high),
        destination_port: key.high_port,
    };
    if direction == 0 {
        flow
    } else {
        flow.reversed()
    }
}

/// Outer and inner tag.
pub(crate) fn tags(vlan: u32) -> (Option<u16>, Option<u16>) {
    match (vlan >> 12, vlan & 0xfff) {
        (0, 0) => (None, None),
        (0, only) => (Some(only as u16), None),
        (outer, inner) => (Some(outer as u16), Some(inner as u16)),
    }
}

/// An address as outputs show it: IPv4 in its own form.
pub fn address(address: &flow_address) -> IpAddr {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&address.words[0].to_ne_bytes());
    octets[8..].copy_from_slice(&address.words[1].to_ne_bytes());
    Ipv6Addr::from(octets).to_canonical()
}

/// The reverse of [`address`].
pub(crate) fn flow_address_of(address: IpAddr) -> flow_address {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    flow_address {
        words: words_of(octets),
    }
}

impl From<IpAddr> for flow_address {
    fn from(address: IpAddr) -> Self {
        flow_address_of(address)
    }
}

/// 16 bytes as they lie in memory, in two words.
pub(crate) fn words_of(octets: [u8; 16]) -> [u64; 2] {
    let (halves, _) = octets.as_chunks::<8>();
    [u64::from_ne_bytes(halves[0]), u64::from_ne_bytes(halves[1])]
}
