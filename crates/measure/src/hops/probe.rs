//! `probe.h` held against RFC 9293, RFC 768 and RFC 792: what is valid and what is not, byte by
//! byte.

use proptest::prelude::*;

use crate::hops::native::{self, hops_header};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The sum of RFC 1071 over a packet's transport and its pseudo-header: 0xffff where the checksum
/// is right.
fn sum(packet: &[u8], ip_bytes: usize, has_pseudo_header: bool) -> u16 {
    let transport = &packet[ip_bytes..];
    let (protocol, addresses) = match ip_bytes {
        20 => (packet[9], &packet[12..20]),
        _ => (packet[6], &packet[8..40]),
    };
    let words = |bytes: &[u8]| -> u32 {
        let word =
            |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        bytes.chunks(2).map(word).sum()
    };
    let mut sum = words(transport);
    if has_pseudo_header {
        sum += words(addresses) + u32::from(protocol) + transport.len() as u32;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A packet of an application: IP header, transport header, options if TCP, payload, the checksum
/// right.
fn packet(is_ipv6: bool, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize) {
    let mut transport = match protocol {
        TCP => [
            &[
                0x13, 0x88, 1, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 1, 0, 0, 0, 0, 0,
            ][..],
            &[1; 12],
        ]
        .concat(),
        UDP => vec![0x13, 0x88, 1, 0xbb, 0, 0, 0, 0],
        _ => vec![if is_ipv6 { 128 } else { 8 }, 0, 0, 0, 0x77, 1, 0, 9],
    };
    transport.extend(payload);
    let length = (transport.len() as u16).to_be_bytes();
    if protocol == UDP {
        transport[4..6].copy_from_slice(&length);
    }
    let mut packet = if is_ipv6 {
        let mut ip = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
        ip.extend([0xfd; 32]);
        ip
    } else {
        let total = (transport.len() as u16 + 20).to_be_bytes();
        vec![
            0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 9,
            9,
        ]
    };
    let ip_bytes = packet.len();
    packet.extend(transport);
    let offset = ip_bytes
        + match protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
    let checksum = !sum(&packet, ip_bytes, protocol != 1);
    packet[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
    (packet, ip_bytes)
}

#[expect(unsafe_code, reason = "calls the shared C")]
fn read(packet: &[u8], ip_bytes: usize) -> hops_header {
    let ether_type = if ip_bytes == 20 { 0x0800 } else { 0x86dd };
    let mut header = hops_header::default();
    // SAFETY: the packet is as long as said, the header there to be written.
    let reading = unsafe {
        native::fathom_hops_read(
            packet.as_ptr(),
            packet.len() as u32,
            ether_type,
            &raw mut header,
        )
    };
    assert_eq!(reading, native::HOPS_READ);
    header
}

/// The probe that is made of a packet, with all behind its headers.
#[expect(unsafe_code, reason = "calls the shared C")]
fn long_probe(packet: &[u8], ip_bytes: usize, number: u16) -> Vec<u8> {
    let mut header = read(packet, ip_bytes);
    let own = if header.protocol == TCP { 20 } else { 8 };
    header.tail = (packet.len() - ip_bytes - own) as u16;
    let mut bytes = [0; native::HOPS_BYTES_MAX as usize];
    // SAFETY: there is room for the longest headers.
    let length =
        unsafe { native::fathom_hops_build(&raw const header, 3, number, bytes.as_mut_ptr()) }
            as usize;
    assert_eq!(length, ip_bytes + own);
    [&bytes[..length], &packet[length..]].concat()
}

proptest! {
    #[test]
    fn a_long_probe_of_tcp_is_the_segment_but_for_ttl_and_number(
        is_ipv6: bool, payload in prop::collection::vec(any::<u8>(), 0..1400), number: u16,
    ) {
        let (packet, ip_bytes) = packet(is_ipv6, TCP, &payload);
        let mut probe = long_probe(&packet, ip_bytes, number);
        prop_assert_eq!(sum(&probe, ip_bytes, true), 0xffff);
        let (ttl, numbered) = if is_ipv6 { (7, 58) } else { (8, 4) };
        prop_assert_eq!(probe[ttl], 3);
        prop_assert_eq!(&probe[numbered..numbered + 2], &number.to_be_bytes());
        // Without these and the checksums they are the same.
        probe[ttl] = packet[ttl];
        probe[numbered..numbered + 2].copy_from_slice(&[0, 0]);
        let checksums = if is_ipv6 { vec![56] } else { vec![10, 36] };
        for offset in checksums {
            probe[offset..offset + 2].copy_from_slice(&packet[offset..offset + 2]);
        }
        prop_assert_eq!(probe, packet);
    }

    #[test]
    fn a_long_probe_of_another_protocol_is_dropped_by_whoever_gets_it(
        is_ipv6: bool, payload in prop::collection::vec(any::<u8>(), 1..1400), number: u16,
    ) {
        let (datagram, ip_bytes) = packet(is_ipv6, UDP, &payload);
        let probe = long_probe(&datagram, ip_bytes, number);
        let said = u16::from_be_bytes([probe[ip_bytes + 4], probe[ip_bytes + 5]]);
        prop_assert!(usize::from(said) > probe.len() - ip_bytes);
        let protocol = if is_ipv6 { 58 } else { 1 };
        let (echo, ip_bytes) = packet(is_ipv6, protocol, &payload);
        let probe = long_probe(&echo, ip_bytes, number);
        prop_assert_ne!(sum(&probe, ip_bytes, is_ipv6), 0xffff);
        prop_assert_eq!(&probe[ip_bytes + 4..], &echo[ip_bytes + 4..]);
    }
}
