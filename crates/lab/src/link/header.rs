//! The parts of a packet that the truth record keeps and that rules look at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::BitOr;

use etherparse::{
    Icmpv4Type, Icmpv6Type, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice,
    TransportSlice,
};

use super::device::Layer;
use super::quote::Quote;

/// Protocol, source, source port, destination, destination port.
pub(crate) type FlowId = (u8, IpAddr, u16, IpAddr, u16);

/// Where hosts report which multicast groups they listen to, `ff02::16`.
const ALL_MLDV2_ROUTERS: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16));

/// Bytes of a UDP payload that its hash covers.
const HASHED_BYTES: usize = 32;

/// Types of ICMP errors: unreachable, source quench, redirect, time exceeded, parameter problem
/// (RFC 792).
pub(crate) const ICMP_ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// Types of `ICMPv6` errors are below (RFC 4443 §2.1).
pub(crate) const ICMPV6_ERRORS_END: u8 = 128;

/// TCP flags as in the header's 14th byte (RFC 9293 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender will send no more.
    pub const FIN: Self = Self(1);
    /// Opens a connection.
    pub const SYN: Self = Self(2);
    /// Aborts a connection.
    pub const RST: Self = Self(4);
    /// Deliver without waiting for more.
    pub const PSH: Self = Self(8);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(16);

    /// Whether all flags of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What tells packets of a protocol apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp {
        /// Sequence number.
        sequence: u32,
        /// Acknowledgement number.
        acknowledgement: u32,
        /// Its flags.
        flags: TcpFlags,
        /// TSval and TSecr of the timestamp option (RFC 7323), if it has one.
        timestamps: Option<(u32, u32)>,
    },
    /// A UDP datagram.
    Udp {
        /// First byte of the payload (QUIC: header form and spin bit), zero when there is none.
        first_byte: u8,
        /// First two bytes of the payload, big endian: the DNS identifier.
        dns_id: u16,
        /// FNV-1a of at most the first 32 bytes of the payload.
        payload_hash: u64,
    },
    /// An ICMP or ICMPv6 echo message.
    Echo {
        /// Request (true) or reply (false).
        is_request: bool,
        /// Identifier.
        identifier: u16,
        /// Sequence number.
        sequence: u16,
    },
    /// An ICMP or ICMPv6 error message.
    IcmpError {
        /// Its type: 11 in IPv4 and 3 in IPv6 is time exceeded.
        kind: u8,
        /// Its code.
        code: u8,
        /// The packet it is about, unless it quotes less than it must.
        quote: Option<Quote>,
    },
    /// Anything else, also fragments after the first.
    Other,
}

/// The parsed outermost IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    /// IANA protocol number of what follows the IP header and its extensions.
    pub protocol: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Identification of IPv4; zero in IPv6.
    pub identification: u16,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port, zero where the protocol has none.
    pub source_port: u16,
    /// Destination port, zero where the protocol has none.
    pub destination_port: u16,
    /// Bytes after the transport header.
    pub payload_length: u32,
    /// Fields of the transport header.
    pub transport: Transport,
}

impl PacketHeader {
    /// Parses a whole packet of `layer`; `None` when it is neither IPv4 nor IPv6 or is malformed. A
    /// UDP datagram may say that it is longer than its packet; it counts as no longer.
    pub(crate) fn parse(layer: Layer, packet: &[u8]) -> Option<Self> {
        let sliced = match layer {
            Layer::Ip => LaxSlicedPacket::from_ip(packet).ok()?,
            Layer::Ethernet => LaxSlicedPacket::from_ethernet(packet).ok()?,
        };
        let net = sliced.net?;
        let (source, destination, hop_limit, identification) = match &net {
            LaxNetSlice::Ipv4(ip) => {
                let ip = ip.header();
                let addresses: [IpAddr; 2] =
                    [ip.source_addr().into(), ip.destination_addr().into()];
                (addresses[0], addresses[1], ip.ttl(), ip.identification())
            }
            LaxNetSlice::Ipv6(ip) => {
                let ip = ip.header();
                let addresses: [IpAddr; 2] =
                    [ip.source_addr().into(), ip.destination_addr().into()];
                (addresses[0], addresses[1], ip.hop_limit(), 0)
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let payload = net.ip_payload_ref()?;
        let is_whole = sliced.stop_err.is_none() && !payload.incomplete;
        if !is_whole && !matches!(sliced.transport, Some(TransportSlice::Udp(_))) {
            return None;
        }
        let header = Self {
            protocol: payload.ip_number.0,
            hop_limit,
            identification,
            source,
            destination,
            source_port: 0,
            destination_port: 0,
            payload_length: payload.payload.len() as u32,
            transport: Transport::Other,
        };
        Some(match sliced.transport {
            Some(TransportSlice::Tcp(tcp)) => header.with_tcp(&tcp),
            Some(TransportSlice::Udp(udp)) => Self {
                source_port: udp.source_port(),
                destination_port: udp.destination_port(),
                payload_length: udp.payload().len() as u32,
                transport: udp_transport(udp.payload()),
                ..header
            },
            Some(TransportSlice::Icmpv4(icmp)) => match icmp.icmp_type() {
                Icmpv4Type::EchoRequest(echo) => header.with_echo(true, echo.id, echo.seq),
                Icmpv4Type::EchoReply(echo) => header.with_echo(false, echo.id, echo.seq),
                _ if ICMP_ERRORS.contains(&icmp.type_u8()) => {
                    header.with_error(icmp.type_u8(), icmp.code_u8(), icmp.payload())
                }
                _ => header,
            },
            Some(TransportSlice::Icmpv6(icmp)) => match icmp.icmp_type() {
                Icmpv6Type::EchoRequest(echo) => header.with_echo(true, echo.id, echo.seq),
                Icmpv6Type::EchoReply(echo) => header.with_echo(false, echo.id, echo.seq),
                _ if icmp.type_u8() < ICMPV6_ERRORS_END => {
                    header.with_error(icmp.type_u8(), icmp.code_u8(), icmp.payload())
                }
                _ => header,
            },
            Some(TransportSlice::Igmp(_)) | None => header,
        })
    }

    /// Whether it is an `MLDv2` report (RFC 3810 §5.2.14).
    pub(crate) fn is_listener_report(&self) -> bool {
        self.destination == ALL_MLDV2_ROUTERS
    }

    /// What identifies its flow in this direction.
    pub(crate) fn flow(&self) -> FlowId {
        (
            self.protocol,
            self.source,
            self.source_port,
            self.destination,
            self.destination_port,
        )
    }

    fn with_tcp(self, tcp: &TcpSlice) -> Self {
        let timestamps = tcp.options_iterator().find_map(|option| match option {
            Ok(TcpOptionElement::Timestamp(value, echo)) => Some((value, echo)),
            _ => None,
        });
        Self {
            source_port: tcp.source_port(),
            destination_port: tcp.destination_port(),
            payload_length: tcp.payload().len() as u32,
            transport: Transport::Tcp {
                sequence: tcp.sequence_number(),
                acknowledgement: tcp.acknowledgment_number(),
                flags: TcpFlags(tcp.slice().get(13).copied().unwrap_or_default()),
                timestamps,
            },
            ..self
        }
    }

    fn with_error(self, kind: u8, code: u8, quoted: &[u8]) -> Self {
        let quote = Quote::parse(quoted);
        Self {
            transport: Transport::IcmpError { kind, code, quote },
            ..self
        }
    }

    fn with_echo(self, is_request: bool, identifier: u16, sequence: u16) -> Self {
        Self {
            // The echo header is 8 bytes, RFC 792 and RFC 4443 §4.1.
            payload_length: self.payload_length.saturating_sub(8),
            transport: Transport::Echo {
                is_request,
                identifier,
                sequence,
            },
            ..self
        }
    }
}

impl Default for PacketHeader {
    fn default() -> Self {
        Self {
            protocol: 0,
            hop_limit: 0,
            identification: 0,
            source: Ipv4Addr::UNSPECIFIED.into(),
            destination: Ipv4Addr::UNSPECIFIED.into(),
            source_port: 0,
            destination_port: 0,
            payload_length: 0,
            transport: Transport::Other,
        }
    }
}

fn udp_transport(payload: &[u8]) -> Transport {
    let hash = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Transport::Udp {
        first_byte: payload.first().copied().unwrap_or_default(),
        dns_id: payload
            .first_chunk()
            .map_or(0, |bytes| u16::from_be_bytes(*bytes)),
        payload_hash: payload
            .iter()
            .take(HASHED_BYTES)
            .fold(0xcbf2_9ce4_8422_2325, hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    #[test]
    fn tcp_with_timestamps() {
        let builder = PacketBuilder::ipv4([10, 77, 1, 1], [10, 77, 2, 1], 64)
            .tcp(4000, 80, 17, 1000)
            .ack(23)
            .options(&[TcpOptionElement::Noop, TcpOptionElement::Timestamp(5, 6)])
            .unwrap();
        let mut packet = Vec::new();
        builder.write(&mut packet, b"hello").unwrap();
        let header = PacketHeader::parse(Layer::Ip, &packet).unwrap();
        assert_eq!(header.payload_length, 5);
        assert_eq!(
            header.transport,
            Transport::Tcp {
                sequence: 17,
                acknowledgement: 23,
                flags: TcpFlags::ACK,
                timestamps: Some((5, 6))
            }
        );
    }

    #[test]
    fn a_datagram_that_is_cut_short() {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4([10, 77, 1, 1], [10, 77, 2, 1], 3).udp(4000, 53);
        builder.write(&mut packet, b"hello").unwrap();
        let length = 20 + 4;
        packet[length..length + 2].copy_from_slice(&0x4001_u16.to_be_bytes());
        let header = PacketHeader::parse(Layer::Ip, &packet).unwrap();
        assert_eq!((header.source_port, header.destination_port), (4000, 53));
        assert_eq!((header.hop_limit, header.payload_length), (3, 5));
    }

    #[test]
    fn udp_in_vlan_over_ethernet() {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .single_vlan(etherparse::VlanId::try_new(7).unwrap())
            .ipv6([1; 16], [2; 16], 64)
            .udp(1234, 53);
        let mut packet = Vec::new();
        builder.write(&mut packet, &[0xab, 0xcd, 1]).unwrap();
        let header = PacketHeader::parse(Layer::Ethernet, &packet).unwrap();
        assert_eq!((header.source_port, header.destination_port), (1234, 53));
        assert!(matches!(
            header.transport,
            Transport::Udp {
                first_byte: 0xab,
                dns_id: 0xabcd,
                ..
            }
        ));
    }

    #[test]
    fn echo_request() {
        let builder =
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).icmpv4_echo_request(9, 3);
        let mut packet = Vec::new();
        builder.write(&mut packet, &[0; 56]).unwrap();
        let header = PacketHeader::parse(Layer::Ip, &packet).unwrap();
        assert_eq!(header.payload_length, 56);
        assert_eq!(
            header.transport,
            Transport::Echo {
                is_request: true,
                identifier: 9,
                sequence: 3
            }
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(packet in prop::collection::vec(any::<u8>(), 0..200), is_ethernet: bool) {
            let layer = if is_ethernet { Layer::Ethernet } else { Layer::Ip };
            let _ = PacketHeader::parse(layer, &packet);
        }
    }
}
