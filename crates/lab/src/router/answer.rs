//! Time-exceeded messages with the extensions of RFC 4884, RFC 4950 and RFC 5837.

use std::net::IpAddr;

use etherparse::PacketBuilder;

use super::packet::{End, Packet, fold, sum};
use super::{InterfaceInformation, MplsLabel, ScriptedRouter};

/// Time to live of the answers.
const HOP_LIMIT: u8 = 255;
/// Time exceeded in transit (RFC 792; RFC 4443 §3.3).
const ICMP_TIME_EXCEEDED: u8 = 11;
const ICMPV6_TIME_EXCEEDED: u8 = 3;
/// Most bytes of a quote in an answer of at most 576 bytes (RFC 1812 §4.3.2.3), and of 1280 (RFC
/// 4443 §3.3).
const QUOTE_MAXIMUM_V4: usize = 576 - 20 - 8;
const QUOTE_MAXIMUM_V6: usize = 1280 - 40 - 8;
/// Bytes of a quote before extensions (RFC 4884 §5.1, §5.2).
const QUOTE_BEFORE_EXTENSIONS: usize = 128;
/// Class and type of the label stack (RFC 4950 §3), and class of interface information (RFC 5837
/// §4).
const LABEL_STACK: [u8; 2] = [1, 1];
const INTERFACE_CLASS: u8 = 2;
/// The type of interface information: of the incoming interface, with index, address, name and MTU
/// (RFC 5837 §4.1).
const INCOMING_WITH_ALL: u8 = 0b0000_1111;
/// Address family numbers (IANA).
const FAMILY_V4: u16 = 1;
const FAMILY_V6: u16 = 2;
/// Most bytes of a name (RFC 5837 §4.3).
const NAME_MAXIMUM: usize = 63;

/// The answer of a router at `own` that `expired` had no time to live left; `None` if the addresses
/// are not of one family.
pub(super) fn time_exceeded(
    script: &ScriptedRouter,
    own: IpAddr,
    expired: &Packet,
) -> Option<Vec<u8>> {
    let extensions = extensions(script, own);
    let maximum = match (extensions.is_empty(), expired.is_v6()) {
        (false, _) => QUOTE_BEFORE_EXTENSIONS,
        (true, false) => QUOTE_MAXIMUM_V4,
        (true, true) => QUOTE_MAXIMUM_V6,
    };
    let wanted = expired
        .header_bytes()
        .saturating_add(script.quoted_payload_bytes);
    let length = expired.bytes().len().min(wanted).min(maximum);
    let mut body = expired.bytes()[..length].to_vec();
    let mut word_count = 0;
    if !extensions.is_empty() {
        body.resize(QUOTE_BEFORE_EXTENSIONS, 0);
        // Words of 4 bytes in ICMP and of 8 in ICMPv6 (RFC 4884 §4).
        let word_bytes = if expired.is_v6() { 8 } else { 4 };
        word_count = (QUOTE_BEFORE_EXTENSIONS / word_bytes) as u8;
        body.extend_from_slice(&extensions);
    }
    if !script.is_length_stated {
        word_count = 0;
    }
    let mut answer = Vec::new();
    let written = match (own, expired.address(End::Source)) {
        (IpAddr::V4(own), IpAddr::V4(to)) => {
            PacketBuilder::ipv4(own.octets(), to.octets(), HOP_LIMIT)
                .icmpv4_raw(ICMP_TIME_EXCEEDED, 0, [0, word_count, 0, 0])
                .write(&mut answer, &body)
        }
        (IpAddr::V6(own), IpAddr::V6(to)) => {
            PacketBuilder::ipv6(own.octets(), to.octets(), HOP_LIMIT)
                .icmpv6_raw(ICMPV6_TIME_EXCEEDED, 0, [word_count, 0, 0, 0])
                .write(&mut answer, &body)
        }
        _ => return None,
    };
    written.ok().map(|()| answer)
}

/// The extension structure (RFC 4884 §7), empty without objects.
fn extensions(script: &ScriptedRouter, own: IpAddr) -> Vec<u8> {
    let mut objects = Vec::new();
    if !script.labels.is_empty() {
        objects.extend(object(LABEL_STACK, &label_stack(&script.labels)));
    }
    if let Some(interface) = &script.interface {
        let kind = [INTERFACE_CLASS, INCOMING_WITH_ALL];
        objects.extend(object(kind, &interface_information(interface, own)));
    }
    if objects.is_empty() {
        return objects;
    }
    let version_2 = [0x20, 0];
    let checksum = !fold(sum(&version_2) + sum(&objects));
    [&version_2[..], &checksum.to_be_bytes(), &objects].concat()
}

fn object(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let length = (4 + payload.len()) as u16;
    [&length.to_be_bytes()[..], &kind, payload].concat()
}

fn label_stack(labels: &[MplsLabel]) -> Vec<u8> {
    let last = labels.len() - 1;
    let entries = labels.iter().enumerate().map(|(place, entry)| {
        let label = (entry.label & 0xf_ffff) << 12;
        let class = u32::from(entry.traffic_class & 7) << 9;
        let bottom = u32::from(place == last) << 8;
        (label | class | bottom | u32::from(entry.ttl)).to_be_bytes()
    });
    entries.flatten().collect()
}

fn interface_information(interface: &InterfaceInformation, own: IpAddr) -> Vec<u8> {
    let mut information = interface.index.to_be_bytes().to_vec();
    let (family, octets) = match own {
        IpAddr::V4(own) => (FAMILY_V4, own.octets().to_vec()),
        IpAddr::V6(own) => (FAMILY_V6, own.octets().to_vec()),
    };
    information.extend(family.to_be_bytes());
    information.extend([0, 0]);
    information.extend(octets);
    let name = interface.name.as_bytes();
    let name = &name[..name.len().min(NAME_MAXIMUM)];
    // The length counts itself and the zeroes up to a whole word.
    let name_bytes = (1 + name.len()).next_multiple_of(4);
    let end = information.len() + name_bytes;
    information.push(name_bytes as u8);
    information.extend(name);
    information.resize(end, 0);
    information.extend(interface.mtu_bytes.to_be_bytes());
    information
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_laid_out_as_in_the_rfcs() {
        let label = |label, ttl| MplsLabel {
            label,
            traffic_class: 5,
            ttl,
        };
        let script = ScriptedRouter {
            labels: vec![label(16, 1), label(0xf_ffff, 255)],
            interface: Some(InterfaceInformation {
                index: 7,
                name: "ge-0/0".into(),
                mtu_bytes: 1500,
            }),
            ..ScriptedRouter::default()
        };
        let bytes = extensions(&script, "10.78.2.2".parse().unwrap());
        let expected = [
            &[0x20, 0][..],
            &bytes[2..4],
            &[0, 12, 1, 1, 0, 1, 0x0a, 1, 0xff, 0xff, 0xfb, 255],
            &[0, 28, 2, 15, 0, 0, 0, 7, 0, 1, 0, 0, 10, 78, 2, 2],
            &[8],
            b"ge-0/0",
            &[0, 0, 0, 5, 0xdc],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(fold(sum(&bytes)), 0xffff);
    }

    #[test]
    fn quotes_are_as_long_as_told() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 1)
            .udp(1, 2)
            .write(&mut bytes, &[7; 1400])
            .unwrap();
        let expired = Packet::new(&mut bytes).unwrap();
        let own = "10.78.2.2".parse().unwrap();
        let length = |script| time_exceeded(&script, own, &expired).unwrap().len();
        let whole = ScriptedRouter::default();
        assert_eq!(length(whole.clone()), 576);
        let least = ScriptedRouter {
            quoted_payload_bytes: 8,
            ..whole
        };
        assert_eq!(length(least), 20 + 8 + 28);
    }
}
