//! The hash of a flow that other tools print, too.

use std::fmt;
use std::net::IpAddr;
use std::str;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

use crate::{FlowKey, Protocol};

/// The [Community ID](https://github.com/corelight/community-id-spec) of a flow, version 1 with
/// seed 0, which Zeek, Suricata and Wireshark print: both directions of a flow have the same one.
/// Shown as `1:LQU9qZlK+B5F3KDmev6m5PMibrg=`.
///
/// Of an echo, the flow has to be that of the requests: an ICMP identifier is no part of the hash,
/// but types are. Tunnels and VLAN tags are no part of it either, so that flows that differ in
/// nothing else share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommunityId([u8; 20]);

/// In base64.
const DIGEST_CHARACTERS: usize = 28;

impl CommunityId {
    pub(crate) fn of(flow: &FlowKey) -> Self {
        let ports = ports(flow);
        let (from, to) = (
            (flow.source, ports.map_or(0, |ports| ports.0)),
            (flow.destination, ports.map_or(0, |ports| ports.1)),
        );
        let (low, high) = if from <= to { (from, to) } else { (to, from) };
        let mut hash = Sha1::new();
        let seed = 0_u16;
        hash.update(seed.to_be_bytes());
        update_address(&mut hash, low.0);
        update_address(&mut hash, high.0);
        hash.update([flow.protocol.0, 0]);
        if ports.is_some() {
            hash.update(low.1.to_be_bytes());
            hash.update(high.1.to_be_bytes());
        }
        Self(hash.finalize().into())
    }

    /// Hands its text to `put`.
    pub(crate) fn with_text<T>(self, put: impl FnOnce(&str) -> T) -> T {
        let mut text = [0; 2 + DIGEST_CHARACTERS];
        text[..2].copy_from_slice(b"1:");
        // There is as much room as the digest needs, and base64 is ASCII.
        let _ = STANDARD.encode_slice(self.0, &mut text[2..]);
        put(str::from_utf8(&text).unwrap_or_default())
    }
}

fn update_address(hash: &mut Sha1, address: IpAddr) {
    match address {
        IpAddr::V4(address) => hash.update(address.octets()),
        IpAddr::V6(address) => hash.update(address.octets()),
    }
}

/// What stands for ports: of an echo the types of request and reply; `None` for protocols that have
/// none.
fn ports(flow: &FlowKey) -> Option<(u16, u16)> {
    match flow.protocol {
        Protocol::TCP | Protocol::UDP | Protocol::SCTP => {
            Some((flow.source_port, flow.destination_port))
        }
        Protocol::ICMP => Some((8, 0)),
        Protocol::ICMPV6 => Some((128, 129)),
        _ => None,
    }
}

impl fmt::Display for CommunityId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| formatter.pad(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(protocol: Protocol, source: (&str, u16), destination: (&str, u16)) -> String {
        let flow = FlowKey {
            protocol,
            source: source.0.parse().unwrap(),
            source_port: source.1,
            destination: destination.0.parse().unwrap(),
            destination_port: destination.1,
        };
        if flow.has_ports() && protocol != Protocol::ICMP && protocol != Protocol::ICMPV6 {
            assert_eq!(flow.community_id(), flow.reversed().community_id());
        }
        flow.community_id().to_string()
    }

    /// Those that the specification has as its baseline.
    #[test]
    fn flows_hash_as_published() {
        assert_eq!(
            id(
                Protocol::TCP,
                ("128.232.110.120", 34855),
                ("66.35.250.204", 80)
            ),
            "1:LQU9qZlK+B5F3KDmev6m5PMibrg="
        );
        assert_eq!(
            id(Protocol::UDP, ("192.168.1.52", 54585), ("8.8.8.8", 53)),
            "1:d/FP5EW3wiY1vCndhwleRRKHowQ="
        );
        assert_eq!(
            id(Protocol::ICMP, ("192.168.0.89", 7), ("192.168.0.1", 7)),
            "1:X0snYXpgwiv9TZtqg64sgzUn6Dk="
        );
        assert_eq!(
            id(Protocol::SCTP, ("192.168.170.8", 7), ("192.168.170.56", 80)),
            "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ="
        );
    }

    #[test]
    fn of_an_echo_to_oneself_the_types_are_put_in_order() {
        let own = id(Protocol::ICMP, ("127.0.0.1", 7), ("127.0.0.1", 7));
        assert_eq!(own.len(), 30);
        assert_eq!(own, id(Protocol::ICMP, ("127.0.0.1", 9), ("127.0.0.1", 9)));
    }
}
