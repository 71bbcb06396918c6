//! The fields of an IP packet that a router looks at and changes, checksums kept right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol numbers (IANA).
pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMPV6: u8 = 58;

/// Which end of a packet an address or port belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

/// Whether the version field says IPv6.
pub(super) fn is_v6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|byte| byte >> 4 == 6)
}

/// An IP packet, possibly cut off behind its header, as in the quote of an ICMP error.
#[derive(Debug)]
pub(super) struct Packet<'bytes> {
    bytes: &'bytes mut [u8],
    header_bytes: usize,
}

impl<'bytes> Packet<'bytes> {
    /// The packet in `bytes`; `None` when its header is not whole. IPv6 extension headers count as
    /// payload.
    pub(super) fn new(bytes: &'bytes mut [u8]) -> Option<Self> {
        let header_bytes = match bytes.first()? >> 4 {
            4 => usize::from(bytes[0] & 15) * 4,
            6 => 40,
            _ => return None,
        };
        let is_whole = header_bytes >= 20 && bytes.len() >= header_bytes;
        is_whole.then_some(Self {
            bytes,
            header_bytes,
        })
    }

    pub(super) fn is_v6(&self) -> bool {
        is_v6(self.bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    pub(super) fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.header_bytes..]
    }

    pub(super) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.header_bytes..]
    }

    pub(super) fn protocol(&self) -> u8 {
        self.bytes[if self.is_v6() { 6 } else { 9 }]
    }

    /// Whether it begins with a transport header: it is no fragment but the first.
    pub(super) fn has_transport(&self) -> bool {
        // The fragment offset of IPv4 (RFC 791 §3.1).
        self.is_v6() || (self.bytes[6] & 0x1f, self.bytes[7]) == (0, 0)
    }

    pub(super) fn hop_limit(&self) -> u8 {
        self.bytes[if self.is_v6() { 7 } else { 8 }]
    }

    pub(super) fn set_hop_limit(&mut self, hops: u8) {
        let place = if self.is_v6() { 7 } else { 8 };
        self.bytes[place] = hops;
        self.mend_header();
    }

    /// DSCP and ECN as one byte (RFC 3168 §5).
    pub(super) fn traffic_class(&self) -> u8 {
        if self.is_v6() {
            self.bytes[0] << 4 | self.bytes[1] >> 4
        } else {
            self.bytes[1]
        }
    }

    pub(super) fn set_traffic_class(&mut self, class: u8) {
        if self.is_v6() {
            self.bytes[0] = 0x60 | class >> 4;
            self.bytes[1] = class << 4 | self.bytes[1] & 15;
        } else {
            self.bytes[1] = class;
        }
        self.mend_header();
    }

    pub(super) fn address(&self, end: End) -> IpAddr {
        let bytes = &self.bytes[self.address_place(end)];
        match <[u8; 16]>::try_from(bytes) {
            Ok(octets) => Ipv6Addr::from(octets).into(),
            Err(_) => Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into(),
        }
    }

    /// Replaces an address by another of the same family, and corrects the transport checksum by
    /// what changed.
    pub(super) fn set_address(&mut self, end: End, address: IpAddr) {
        let (old, new) = self.replace_address(end, address);
        // The checksum of ICMP, unlike that of ICMPv6, does not cover addresses.
        if self.protocol() != ICMP {
            self.correct_transport(old, new);
        }
    }

    /// Adds `offset` to a port, if there is one, modulo 65,536, and corrects the checksum.
    pub(super) fn shift_port(&mut self, end: End, offset: u16) {
        if let Some((old, new)) = self.replace_port(end, offset) {
            self.correct_transport(old, new);
        }
    }

    /// Does both to the source without correcting the transport checksum.
    pub(super) fn restore_source(&mut self, address: IpAddr, offset: u16) {
        self.replace_address(End::Source, address);
        self.replace_port(End::Source, offset);
    }

    /// Returns the sums of the words before and after.
    fn replace_address(&mut self, end: End, address: IpAddr) -> (u32, u32) {
        let place = self.address_place(end);
        let old = sum(&self.bytes[place.clone()]);
        match address {
            IpAddr::V4(address) => self.bytes[place.clone()].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => self.bytes[place.clone()].copy_from_slice(&address.octets()),
        }
        self.mend_header();
        (old, sum(&self.bytes[place]))
    }

    /// Returns the ports before and after, if there was one.
    fn replace_port(&mut self, end: End, offset: u16) -> Option<(u32, u32)> {
        if !matches!(self.protocol(), TCP | UDP) || !self.has_transport() {
            return None;
        }
        let start = match end {
            End::Source => 0,
            End::Destination => 2,
        };
        let field = self.payload_mut().get_mut(start..start + 2)?;
        let old = u16::from_be_bytes([field[0], field[1]]);
        let new = old.wrapping_add(offset);
        field.copy_from_slice(&new.to_be_bytes());
        Some((old.into(), new.into()))
    }

    fn address_place(&self, end: End) -> std::ops::Range<usize> {
        match (self.is_v6(), end) {
            (false, End::Source) => 12..16,
            (false, End::Destination) => 16..20,
            (true, End::Source) => 8..24,
            (true, End::Destination) => 24..40,
        }
    }

    /// Recomputes the header checksum of IPv4.
    fn mend_header(&mut self) {
        if !self.is_v6() {
            self.bytes[10..12].fill(0);
            let checksum = !fold(sum(&self.bytes[..self.header_bytes]));
            self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Corrects the transport checksum, where it is there, for words that summed up to `old` and
    /// now to `new` (RFC 1624).
    fn correct_transport(&mut self, old: u32, new: u32) {
        let place = match self.protocol() {
            TCP => 16,
            UDP => 6,
            ICMPV6 => 2,
            _ => return,
        };
        let (is_udp, has_transport) = (self.protocol() == UDP, self.has_transport());
        let Some(field) = self.payload_mut().get_mut(place..place + 2) else {
            return;
        };
        let checksum = u16::from_be_bytes([field[0], field[1]]);
        // A datagram without a checksum has none afterwards either.
        if !has_transport || (is_udp && checksum == 0) {
            return;
        }
        let removed = u32::from(!fold(old));
        let corrected = !fold(u32::from(!checksum) + removed + u32::from(fold(new)));
        field.copy_from_slice(&corrected.to_be_bytes());
    }
}

/// The sum of 16-bit words, an odd last byte being a high one.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or_default();
        u32::from(u16::from_be_bytes([word[0], low]))
    });
    words.sum()
}

/// The one's complement sum (RFC 1071).
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
