//! What routers append to ICMP errors: the extensions of RFC 4884, of which MPLS label stacks
//! (RFC 4950) and interfaces (RFC 5837) are read.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::quote::ICMP_BYTES;

/// Where extensions start when nothing says so, and the least where something does (RFC 4884,
/// sections 5.1 and 5.5).
const QUOTE_BYTES: usize = 128;
/// Bytes of the structure's and of an object's header.
const HEADER_BYTES: usize = 4;
/// Class and type of objects.
const LABEL_STACK: (u8, u8) = (1, 1);
const INTERFACE_CLASS: u8 = 2;
/// Bits of an interface object's type (RFC 5837, section 4.1); the upper two are its role, 0 for
/// the interface that the packet came in by.
const HAS_INDEX: u8 = 8;
const HAS_ADDRESS: u8 = 4;
const HAS_NAME: u8 = 2;

/// What a router appended to its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extensions {
    /// The MPLS labels that the packet carried, outermost first, as label/class/ttl with spaces
    /// between.
    pub mpls: Option<Arc<str>>,
    /// The interface that the packet came in by: name, address and `#index`, what there is of them.
    pub router_interface: Option<Arc<str>>,
}

impl Extensions {
    /// Reads an ICMP or ICMPv6 error from its ICMP header on. Whatever is not as the RFCs say is
    /// left out: a structure of another version or with a wrong checksum altogether, of which a
    /// structure that was cut off is one; an object that does not fit, and all behind it.
    ///
    /// A router that states no length (as all did before RFC 4884) has its extensions 128 bytes
    /// behind the ICMP header; since those bytes may as well be part of a long quote, a checksum is
    /// insisted on there.
    pub fn read(message: &[u8], is_ipv6: bool) -> Self {
        Self::structure(message, is_ipv6)
            .map(Self::objects)
            .unwrap_or_default()
    }

    /// The objects of the structure, which has been verified.
    fn structure(message: &[u8], is_ipv6: bool) -> Option<&[u8]> {
        // Words of 8 bytes in ICMPv6, of 4 in ICMP; each has its own offset for the number (RFC
        // 4884, section 4).
        let words = |offset: usize| message.get(offset).copied().map(usize::from);
        let stated = if is_ipv6 {
            words(4)? * 8
        } else {
            words(5)? * 4
        };
        if stated != 0 && stated < QUOTE_BYTES {
            return None;
        }
        let structure = message.get(ICMP_BYTES + stated.max(QUOTE_BYTES)..)?;
        let (header, objects) = structure.split_first_chunk::<HEADER_BYTES>()?;
        let has_checksum = header[2..] != [0, 0];
        let is_right = match (has_checksum, stated) {
            (true, _) => sum(structure) == 0xffff,
            (false, stated) => stated != 0,
        };
        (header[0] >> 4 == 2 && is_right).then_some(objects)
    }

    fn objects(mut bytes: &[u8]) -> Self {
        let mut extensions = Self::default();
        while let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() {
            let length = usize::from(u16::from_be_bytes([header[0], header[1]]));
            let Some(payload) = bytes.get(HEADER_BYTES..length) else {
                break;
            };
            match (header[2], header[3]) {
                LABEL_STACK => extensions.mpls = labels(payload),
                (INTERFACE_CLASS, kind) if kind >> 6 == 0 => {
                    extensions.router_interface = interface(payload, kind);
                }
                _ => {}
            }
            bytes = &bytes[length..];
        }
        extensions
    }
}

/// RFC 4950, section 3.
fn labels(payload: &[u8]) -> Option<Arc<str>> {
    let mut text = String::new();
    for entry in payload.as_chunks::<4>().0 {
        let word = u32::from_be_bytes(*entry);
        if !text.is_empty() {
            text.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{}/{}/{}", word >> 12, word >> 9 & 7, word & 0xff);
    }
    (!text.is_empty()).then(|| text.into())
}

/// RFC 5837, section 4: index, address and name in this order, each if its bit is set.
fn interface(payload: &[u8], kind: u8) -> Option<Arc<str>> {
    let mut rest = payload;
    let mut index = None;
    let mut address = None;
    let mut name = None;
    if kind & HAS_INDEX != 0 {
        let (word, behind) = rest.split_first_chunk::<4>()?;
        index = Some(format!("#{}", u32::from_be_bytes(*word)));
        rest = behind;
    }
    if kind & HAS_ADDRESS != 0 {
        let (family, behind) = rest.split_first_chunk::<4>()?;
        let (found, behind) = match u16::from_be_bytes([family[0], family[1]]) {
            1 => {
                let (octets, behind) = behind.split_first_chunk::<4>()?;
                (IpAddr::from(Ipv4Addr::from(*octets)), behind)
            }
            2 => {
                let (octets, behind) = behind.split_first_chunk::<16>()?;
                (IpAddr::from(Ipv6Addr::from(*octets)), behind)
            }
            _ => return None,
        };
        address = Some(found.to_string());
        rest = behind;
    }
    if kind & HAS_NAME != 0 {
        let length = usize::from(*rest.first()?);
        let bytes = rest.get(1..length)?;
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        name = Some(String::from_utf8_lossy(bytes).into_owned()).filter(|name| !name.is_empty());
    }
    let words: Vec<String> = [name, address, index].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" ").into())
}

/// The one's complement sum (RFC 1071): all ones over a structure whose checksum is right.
fn sum(bytes: &[u8]) -> u16 {
    let (words, odd) = bytes.as_chunks::<2>();
    let whole: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    let last = odd.first().map_or(0, |byte| u32::from(*byte) << 8);
    let mut sum = whole + last;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Labels 16 (class 5, TTL 1) and 1048575 (class 5, bottom, TTL 255): RFC 4950's layout by
    /// hand.
    const LABELS: [u8; 12] = [0, 12, 1, 1, 0, 1, 0x0a, 1, 0xff, 0xff, 0xfb, 255];
    /// Index 7, 10.78.2.2, "ge-0/0", MTU 1500.
    const INTERFACE: [u8; 28] = [
        0, 28, 2, 15, 0, 0, 0, 7, 0, 1, 0, 0, 10, 78, 2, 2, 8, b'g', b'e', b'-', b'0', b'/', b'0',
        0, 0, 0, 5, 0xdc,
    ];

    fn message(is_ipv6: bool, is_stated: bool, objects: &[u8], flip: u16) -> Vec<u8> {
        let mut message = vec![0; ICMP_BYTES + QUOTE_BYTES];
        if is_stated {
            message[if is_ipv6 { 4 } else { 5 }] = if is_ipv6 { 16 } else { 32 };
        }
        let mut structure = [&[0x20, 0, 0, 0], objects].concat();
        let checksum = !sum(&structure) ^ flip;
        structure[2..4].copy_from_slice(&checksum.to_be_bytes());
        message.extend(structure);
        message
    }

    #[test]
    fn labels_and_interfaces_are_read() {
        let objects = [&LABELS[..], &INTERFACE].concat();
        for (is_ipv6, is_stated) in [(false, false), (false, true), (true, false), (true, true)] {
            let read = Extensions::read(&message(is_ipv6, is_stated, &objects, 0), is_ipv6);
            assert_eq!(read.mpls.as_deref(), Some("16/5/1 1048575/5/255"));
            assert_eq!(
                read.router_interface.as_deref(),
                Some("ge-0/0 10.78.2.2 #7")
            );
        }
    }

    #[test]
    fn a_checksum_is_verified_and_may_be_absent_where_a_length_is_stated() {
        let read = |message: &[u8]| Extensions::read(message, false).mpls.is_some();
        assert!(!read(&message(false, true, &LABELS, 0x100)));
        assert!(!read(&message(false, false, &LABELS, 0x100)));
        let mut unsummed = message(false, true, &LABELS, 0);
        unsummed[138..140].fill(0);
        assert!(read(&unsummed));
        unsummed[5] = 0;
        assert!(!read(&unsummed), "it may be any quote");
        let mut cut = message(false, true, &LABELS, 0);
        cut.truncate(cut.len() - 2);
        assert!(!read(&cut));
    }

    #[test]
    fn other_interfaces_and_lengths_are_left_out() {
        let mut outgoing = INTERFACE;
        outgoing[3] |= 2 << 6;
        let objects = [&outgoing[..], &LABELS].concat();
        let read = Extensions::read(&message(false, true, &objects, 0), false);
        assert_eq!(read.router_interface, None);
        assert!(read.mpls.is_some());
        let mut short = LABELS;
        short[1] = 3;
        let read = Extensions::read(&message(false, true, &short, 0), false);
        assert_eq!(read, Extensions::default());
        let mut long_name = INTERFACE;
        long_name[16] = 200;
        let read = Extensions::read(&message(false, true, &long_name, 0), false);
        assert_eq!(read.router_interface, None);
    }

    #[test]
    fn a_quote_that_is_longer_is_passed_over() {
        let mut longer = message(false, true, &LABELS, 0);
        longer[5] = 40;
        longer.splice(100..100, [0; 32]);
        assert!(Extensions::read(&longer, false).mpls.is_some());
        longer[5] = 31;
        assert!(Extensions::read(&longer, false).mpls.is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(mut bytes in prop::collection::vec(any::<u8>(), 0..300), is_ipv6: bool, is_stated: bool) {
            Extensions::read(&bytes, is_ipv6);
            bytes.truncate(200);
            Extensions::read(&message(is_ipv6, is_stated, &bytes, 0), is_ipv6);
        }
    }
}
