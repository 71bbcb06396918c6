//! TCP segments as values: built, read and printed.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpHeaders, PacketBuilder, PacketBuilderStep, SlicedPacket, TcpHeader, TransportSlice,
};

use super::options::{TcpOptions, Timestamps};
use crate::link::{Layer, PacketHeader, TcpFlags, Transport};
use crate::{Error, Result};

/// Time to live of the packets sent.
const HOP_LIMIT: u8 = 64;
/// Where the checksum is in a TCP header (RFC 9293 §3.1).
const CHECKSUM_OFFSET_BYTES: usize = 16;

/// A TCP segment in an IPv4 or IPv6 packet. All parts can be anything, so change what a helper
/// made: `Segment { window: 0, ..connection.ack() }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it goes, an address of the same family.
    pub destination: SocketAddr,
    /// Sequence number of the SYN, else of the first payload byte or the FIN.
    pub sequence: u32,
    /// Next sequence number that the sender expects; counts with the ACK flag.
    pub acknowledgement: u32,
    /// Its flags.
    pub flags: TcpFlags,
    /// The window field: bytes in a SYN, else bytes shifted right by the sender's window scale.
    pub window: u16,
    /// Its options, of at most 40 bytes.
    pub options: TcpOptions,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Whether the TCP checksum is right (false sends a wrong one).
    pub has_right_checksum: bool,
}

impl Segment {
    /// Whether all `flags` are set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether it does nothing but acknowledge.
    pub fn is_bare_ack(&self) -> bool {
        self.flags == TcpFlags::ACK && self.payload.is_empty()
    }

    /// The sequence number after its payload, SYN and FIN.
    pub fn sequence_end(&self) -> u32 {
        let flags = [TcpFlags::SYN, TcpFlags::FIN].map(|flag| u32::from(self.has(flag)));
        self.sequence
            .wrapping_add(self.payload.len() as u32)
            .wrapping_add(flags.iter().sum())
    }

    /// The whole IP packet.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the address families differ, the options need more than 40 bytes or
    /// the packet more than 65,535.
    pub fn packet(&self) -> Result<Vec<u8>> {
        let (source, destination) = (self.source.ip(), self.destination.ip());
        let refused = |why: &dyn fmt::Display| unbuildable(source, destination, why);
        let header = self.header().map_err(|why| refused(&why))?;
        let checksum_from_end =
            self.payload.len() + header.header_len() - CHECKSUM_OFFSET_BYTES - 1;
        let mut packet = Vec::new();
        ip_builder(source, destination)?
            .tcp_header(header)
            .write(&mut packet, &self.payload)
            .map_err(|why| refused(&why))?;
        if !self.has_right_checksum {
            // One bit changes the sum by a power of two, which is never zero in one's complement.
            let low_byte = packet.len() - checksum_from_end;
            packet[low_byte] ^= 1;
        }
        Ok(packet)
    }

    fn header(&self) -> std::result::Result<TcpHeader, etherparse::TcpOptionWriteError> {
        let is_set = |bit: u8| self.flags.0 & (1 << bit) != 0;
        let mut header = TcpHeader {
            acknowledgment_number: self.acknowledgement,
            fin: is_set(0),
            syn: is_set(1),
            rst: is_set(2),
            psh: is_set(3),
            ack: is_set(4),
            urg: is_set(5),
            ece: is_set(6),
            cwr: is_set(7),
            ..TcpHeader::new(
                self.source.port(),
                self.destination.port(),
                self.sequence,
                self.window,
            )
        };
        header.set_options_raw(&self.options.encode())?;
        Ok(header)
    }

    /// Reads an IP packet; `None` when it holds anything else than a well-formed segment.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let PacketHeader {
            source,
            source_port,
            destination,
            destination_port,
            transport:
                Transport::Tcp {
                    sequence,
                    acknowledgement,
                    flags,
                    ..
                },
            ..
        } = PacketHeader::parse(Layer::Ip, packet)?
        else {
            return None;
        };
        let Some(TransportSlice::Tcp(tcp)) = SlicedPacket::from_ip(packet).ok()?.transport else {
            return None;
        };
        let checksum = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                tcp.calc_checksum_ipv4(source.octets(), destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                tcp.calc_checksum_ipv6(source.octets(), destination.octets())
            }
            _ => return None,
        };
        Some(Self {
            source: (source, source_port).into(),
            destination: (destination, destination_port).into(),
            sequence,
            acknowledgement,
            flags,
            window: tcp.window_size(),
            options: TcpOptions::decode(tcp.options())?,
            payload: tcp.payload().to_owned(),
            has_right_checksum: checksum == Ok(tcp.checksum()),
        })
    }
}

/// Starts a packet from and to addresses of one family.
pub(super) fn ip_builder(
    source: IpAddr,
    destination: IpAddr,
) -> Result<PacketBuilderStep<IpHeaders>> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(PacketBuilder::ipv4(
            source.octets(),
            destination.octets(),
            HOP_LIMIT,
        )),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(PacketBuilder::ipv6(
            source.octets(),
            destination.octets(),
            HOP_LIMIT,
        )),
        _ => Err(unbuildable(source, destination, &"of different families")),
    }
}

/// The error of a packet that cannot be.
pub(super) fn unbuildable(source: IpAddr, destination: IpAddr, why: &dyn fmt::Display) -> Error {
    Error::runtime(
        format!("build a packet from {source} to {destination}"),
        io::Error::new(io::ErrorKind::InvalidInput, why.to_string()),
    )
}

/// As tcpdump prints segments, with absolute numbers.
impl fmt::Display for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} > {} ", self.source, self.destination)?;
        for (bit, letter) in "FSRP.UEW".chars().enumerate() {
            if self.flags.0 & (1 << bit) != 0 {
                write!(formatter, "{letter}")?;
            }
        }
        let (length, sequence) = (self.payload.len(), self.sequence);
        write!(formatter, " seq {sequence} ({length})")?;
        if self.has(TcpFlags::ACK) {
            write!(formatter, " ack {}", self.acknowledgement)?;
        }
        write!(formatter, " win {}", self.window)?;
        let options = &self.options;
        if let Some(size) = options.maximum_segment_size {
            write!(formatter, " mss {size}")?;
        }
        if let Some(scale) = options.window_scale {
            write!(formatter, " wscale {scale}")?;
        }
        if options.is_sack_permitted {
            write!(formatter, " sackOK")?;
        }
        if let Some(Timestamps { value, echo }) = options.timestamps {
            write!(formatter, " TS {value} {echo}")?;
        }
        for (from, to) in &options.sack_blocks {
            write!(formatter, " sack {from}:{to}")?;
        }
        for (kind, body) in &options.others {
            write!(formatter, " option {kind} {body:02x?}")?;
        }
        if !self.has_right_checksum {
            write!(formatter, " (wrong checksum)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::options::tests::any_options;
    use proptest::prelude::*;

    prop_compose! {
        fn any_segment()(
            is_v4: bool,
            (source_port, destination_port) in any::<(u16, u16)>(),
            (sequence, acknowledgement, flags, window) in any::<(u32, u32, u8, u16)>(),
            options in any_options(),
            payload in prop::collection::vec(any::<u8>(), 0..50),
            has_right_checksum: bool,
        ) -> Segment {
            let (source, destination) = if is_v4 { ("10.78.0.2", "10.78.0.1") } else { ("fd78::2", "fd78::1") };
            Segment {
                source: (source.parse::<IpAddr>().unwrap(), source_port).into(),
                destination: (destination.parse::<IpAddr>().unwrap(), destination_port).into(),
                sequence, acknowledgement, flags: TcpFlags(flags), window, options, payload, has_right_checksum,
            }
        }
    }

    fn segment() -> Segment {
        Segment {
            source: "10.78.0.2:4000".parse().unwrap(),
            destination: "10.78.0.1:80".parse().unwrap(),
            sequence: u32::MAX - 1,
            acknowledgement: 7,
            flags: TcpFlags::FIN | TcpFlags::ACK,
            window: 1000,
            options: TcpOptions::default(),
            payload: b"abc".to_vec(),
            has_right_checksum: true,
        }
    }

    #[test]
    fn sequence_end_wraps() {
        assert_eq!(segment().sequence_end(), 2);
    }

    #[test]
    fn printed_like_tcpdump() {
        let text = "10.78.0.2:4000 > 10.78.0.1:80 F. seq 4294967294 (3) ack 7 win 1000";
        assert_eq!(segment().to_string(), text);
    }

    #[test]
    fn impossible_segments_are_refused() {
        let families = Segment {
            source: "[fd78::2]:4000".parse().unwrap(),
            ..segment()
        };
        let mut options = segment();
        options.options.sack_blocks = vec![(1, 2); 5];
        let payload = Segment {
            payload: vec![0; 65_536],
            ..segment()
        };
        for impossible in [families, options, payload] {
            let answer = impossible.packet();
            assert!(matches!(answer, Err(Error::Runtime { .. })), "{answer:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_after_packet_is_identity(segment in any_segment()) {
            prop_assert_eq!(Segment::parse(&segment.packet().unwrap()), Some(segment));
        }

        #[test]
        fn garbage_never_panics(packet in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = Segment::parse(&packet);
        }
    }
}
