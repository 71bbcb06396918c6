//! Frames, written by a library that knows nothing of the balancer.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    Ethernet2Header, IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions,
    Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader, VlanId,
};

/// Link-layer addresses: of who sends to the balancer, and of the balancer.
pub(crate) const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
pub(crate) const BALANCER: [u8; 6] = [2, 0, 0, 0, 0, 0xbb];

/// What an IP packet carries.
#[derive(Debug, Clone)]
pub(crate) enum Transport {
    Tcp(TcpHeader),
    Udp,
    /// ICMP or ICMPv6, whole.
    Icmp(Vec<u8>),
}

/// A packet on its way to the balancer, or back.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) payload: Vec<u8>,
    pub(crate) tags: Vec<u16>,
    pub(crate) traffic_class: u8,
    pub(crate) ttl: u8,
    /// IPv4: DF.
    pub(crate) is_whole: bool,
    pub(crate) identification: u16,
    pub(crate) options: Vec<u8>,
}

impl Packet {
    pub(crate) fn udp(source: &str, destination: &str) -> Self {
        Self {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            transport: Transport::Udp,
            payload: vec![0x5a; 20],
            tags: Vec::new(),
            traffic_class: 0,
            ttl: 61,
            is_whole: true,
            identification: 7,
            options: Vec::new(),
        }
    }

    /// A segment with 20 bytes of data.
    pub(crate) fn tcp(source: &str, destination: &str) -> Self {
        let mut header = TcpHeader::new(0, 0, 1000, 65_535);
        header.ack = true;
        header.acknowledgment_number = 5000;
        Self {
            transport: Transport::Tcp(header),
            ..Self::udp(source, destination)
        }
    }

    /// The first segment of a connection.
    pub(crate) fn syn(source: &str, destination: &str) -> Self {
        Self::tcp(source, destination)
            .flags(|header| (header.syn, header.ack) = (true, false))
            .sized(0)
    }

    pub(crate) fn icmp(source: &str, destination: &str, message: Vec<u8>) -> Self {
        let address = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 0);
        Self {
            source: address(source),
            destination: address(destination),
            transport: Transport::Icmp(message),
            payload: Vec::new(),
            ..Self::udp("192.0.2.1:1", "192.0.2.1:1")
        }
    }

    pub(crate) fn flags(mut self, set: impl FnOnce(&mut TcpHeader)) -> Self {
        if let Transport::Tcp(header) = &mut self.transport {
            set(header);
        }
        self
    }

    pub(crate) fn sized(mut self, bytes: usize) -> Self {
        self.payload = vec![0x5a; bytes];
        self
    }

    pub(crate) fn with(mut self, set: impl FnOnce(&mut Self)) -> Self {
        set(&mut self);
        self
    }

    /// The IP packet.
    pub(crate) fn ip(&self) -> Vec<u8> {
        let ip = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = Ipv4Header::new(
                    0,
                    self.ttl,
                    IpNumber(0),
                    source.octets(),
                    destination.octets(),
                )
                .unwrap();
                header.dont_fragment = self.is_whole;
                header.identification = self.identification;
                header.dscp = (self.traffic_class >> 2).try_into().unwrap();
                header.ecn = (self.traffic_class & 3).try_into().unwrap();
                header.options = self.options.as_slice().try_into().unwrap();
                IpHeaders::Ipv4(header, Ipv4Extensions::default())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: self.traffic_class,
                    flow_label: Ipv6FlowLabel::ZERO,
                    hop_limit: self.ttl,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(header, Ipv6Extensions::default())
            }
            _ => panic!("two families"),
        };
        let builder = PacketBuilder::ip(ip);
        let mut bytes = Vec::new();
        let ports = (self.source.port(), self.destination.port());
        match &self.transport {
            Transport::Tcp(header) => {
                let mut header = header.clone();
                (header.source_port, header.destination_port) = ports;
                let builder = builder.tcp_header(header);
                builder.write(&mut bytes, &self.payload).unwrap();
            }
            Transport::Udp => {
                let builder = builder.udp(ports.0, ports.1);
                builder.write(&mut bytes, &self.payload).unwrap();
            }
            Transport::Icmp(message) => {
                let protocol = IpNumber(if self.source.is_ipv4() { 1 } else { 58 });
                builder.write(&mut bytes, protocol, message).unwrap();
            }
        }
        bytes
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        framed(ROUTER, BALANCER, &self.tags, &self.ip())
    }
}

/// An IP packet in a frame, with tags.
pub(crate) fn framed(source: [u8; 6], destination: [u8; 6], tags: &[u16], ip: &[u8]) -> Vec<u8> {
    let family = if ip[0] >> 4 == 4 { 0x0800_u16 } else { 0x86dd };
    let types = tags.iter().map(|_| 0x8100_u16).chain([family]);
    let mut types = types.collect::<Vec<_>>().into_iter();
    let ethernet = Ethernet2Header {
        source,
        destination,
        ether_type: types.next().unwrap().into(),
    };
    let mut bytes = ethernet.to_bytes().to_vec();
    for (tag, behind) in tags.iter().zip(types) {
        assert!(VlanId::try_new(tag & 0xfff).is_ok());
        bytes.extend(tag.to_be_bytes());
        bytes.extend(behind.to_be_bytes());
    }
    [bytes, ip.to_vec()].concat()
}

/// Both fragments of an IPv4 datagram, cut after so many bytes behind the header.
pub(crate) fn fragments(packet: &Packet, at: usize) -> [Vec<u8>; 2] {
    let bytes = packet.ip();
    let (mut header, rest) = Ipv4Header::from_slice(&bytes).unwrap();
    [(0, &rest[..at]), (at, &rest[at..])].map(|(offset, part)| {
        header.more_fragments = offset == 0;
        header.fragment_offset = IpFragOffset::try_new((offset / 8) as u16).unwrap();
        header.set_payload_len(part.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let ip = [&header.to_bytes()[..], part].concat();
        framed(ROUTER, BALANCER, &[], &ip)
    })
}

/// The same of IPv6.
pub(crate) fn fragments_v6(packet: &Packet, at: usize) -> [Vec<u8>; 2] {
    let bytes = packet.ip();
    let (header, rest) = Ipv6Header::from_slice(&bytes).unwrap();
    [(0, &rest[..at]), (at, &rest[at..])].map(|(offset, part)| {
        let extension = [
            &[header.next_header.0, 0][..],
            &((offset as u16) | u16::from(offset == 0)).to_be_bytes(),
            &[0, 0, 0, 9],
        ];
        let mut header = header.clone();
        header.next_header = IpNumber(44);
        header.payload_length = (part.len() + 8) as u16;
        let ip = [&header.to_bytes()[..], &extension.concat(), part].concat();
        framed(ROUTER, BALANCER, &[], &ip)
    })
}

/// An echo request, or with another type something else.
pub(crate) fn echo(source: &str, destination: &str, kind: u8, payload: &[u8]) -> Packet {
    let message = [&[kind, 0, 0, 0, 0x12, 0x34, 0, 1], payload].concat();
    Packet::icmp(source, destination, message).checked()
}

impl Packet {
    /// With the checksum of an ICMP message, by the book: RFC 1071.
    pub(crate) fn checked(mut self) -> Self {
        let (source, destination) = (self.source.ip(), self.destination.ip());
        if let Transport::Icmp(message) = &mut self.transport {
            message[2..4].fill(0);
            let sum = checksum(message, pseudo(source, destination, message.len()));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self
    }
}

fn pseudo(source: IpAddr, destination: IpAddr, length: usize) -> Vec<u8> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (source, destination) else {
        return Vec::new();
    };
    let length = (length as u32).to_be_bytes();
    let parts = [
        &source.octets()[..],
        &destination.octets(),
        &length,
        &[0, 0, 0, 58],
    ];
    parts.concat()
}

fn checksum(message: &[u8], pseudo: Vec<u8>) -> u16 {
    let bytes = [pseudo, message.to_vec()].concat();
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
