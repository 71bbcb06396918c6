//! What an ICMP error quotes of a probe, and how it differs from what was sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Marks;

/// Bytes of an ICMP header, before the quote.
pub(super) const ICMP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The fields of a packet that may be changed on its way; the checksums and what identifies a probe
/// are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// Where it came from.
    pub source: IpAddr,
    /// Where it was going.
    pub destination: IpAddr,
    /// TCP's or UDP's; of an echo the identifier.
    pub source_port: u16,
    /// TCP's or UDP's; of an echo the identifier.
    pub destination_port: u16,
    /// Type of service, or traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub service: u8,
    /// What was left of its TTL or hop limit.
    pub ttl: u8,
}

impl Quoted {
    /// Reads the quote of an ICMP or ICMPv6 error, which starts with the ICMP header. `None` where
    /// it is no IP packet of TCP, UDP or an echo with 8 bytes after its IP header, which is what
    /// routers must quote (RFC 792).
    pub fn read(message: &[u8]) -> Option<Self> {
        let packet = message.get(ICMP_BYTES..)?;
        match packet.first()? >> 4 {
            4 => {
                let (ip, behind) = packet.split_first_chunk::<IPV4_BYTES>()?;
                let options = usize::from(ip[0] & 15).checked_sub(5)? * 4;
                let transport = behind.get(options..)?.first_chunk::<8>()?;
                let ports = ports(ip[9], *transport);
                Some(Self {
                    source: address_v4(&ip[12..16]),
                    destination: address_v4(&ip[16..20]),
                    source_port: ports.0,
                    destination_port: ports.1,
                    service: ip[1],
                    ttl: ip[8],
                })
            }
            6 => {
                let (ip, behind) = packet.split_first_chunk::<IPV6_BYTES>()?;
                let ports = ports(ip[6], *behind.first_chunk::<8>()?);
                Some(Self {
                    source: address_v6(&ip[8..24])?,
                    destination: address_v6(&ip[24..40])?,
                    source_port: ports.0,
                    destination_port: ports.1,
                    service: ip[0] << 4 | ip[1] >> 4,
                    ttl: ip[7],
                })
            }
            _ => None,
        }
    }

    /// How it differs from what was sent. `is_expired`: the router gave up for the TTL, so that
    /// there is something to expect of it: 1, as it arrived, or 0, as it would have left.
    pub fn changes(&self, sent: &Self, is_expired: bool) -> Marks {
        let service = self.service ^ sent.service;
        let are_ports_same =
            (self.source_port, self.destination_port) == (sent.source_port, sent.destination_port);
        Marks::default()
            .with_if(Marks::SOURCE, self.source != sent.source)
            .with_if(Marks::DESTINATION, self.destination != sent.destination)
            .with_if(Marks::PORTS, !are_ports_same)
            .with_if(Marks::DSCP, service >> 2 != 0)
            .with_if(Marks::ECN, service & 3 != 0)
            .with_if(Marks::TTL, is_expired && self.ttl > 1)
    }
}

fn ports(protocol: u8, transport: [u8; 8]) -> (u16, u16) {
    let number = |offset: usize| u16::from_be_bytes([transport[offset], transport[offset + 1]]);
    match protocol {
        ICMP | ICMPV6 => (number(4), number(4)),
        _ => (number(0), number(2)),
    }
}

fn address_v4(bytes: &[u8]) -> IpAddr {
    Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
}

fn address_v6(bytes: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = bytes.try_into().ok()?;
    Some(Ipv6Addr::from(octets).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Time exceeded, quoting 10.0.0.1:5000 > 10.0.9.9:443 of TCP with DSCP 46 and ECT(0), TTL 1.
    const V4: [u8; 36] = [
        11, 0, 0, 0, 0, 0, 0, 0, // ICMP
        0x45, 0xba, 0, 40, 0x12, 0x34, 0x40, 0, 1, 6, 0, 0, 10, 0, 0, 1, 10, 0, 9, 9, // IPv4
        0x13, 0x88, 0x01, 0xbb, 1, 2, 3, 4, // TCP
    ];

    fn sent() -> Quoted {
        Quoted {
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.9.9".parse().unwrap(),
            source_port: 5000,
            destination_port: 443,
            service: 0xba,
            ttl: 64,
        }
    }

    fn changes(edit: impl Fn(&mut [u8; 36]), is_expired: bool) -> Option<String> {
        let mut message = V4;
        edit(&mut message);
        let marks = Quoted::read(&message).unwrap().changes(&sent(), is_expired);
        marks.text().map(|text| text.to_string())
    }

    #[test]
    fn a_quote_as_sent_has_no_marks() {
        assert_eq!(changes(|_| (), true), None);
        assert_eq!(changes(|message| message[16] = 0, true), None);
    }

    #[test]
    fn every_change_is_named() {
        let named = |edit: fn(&mut [u8; 36]), name: &str| {
            assert_eq!(changes(edit, true).as_deref(), Some(name));
        };
        named(|message| message[20] = 192, "source");
        named(|message| message[27] = 8, "destination");
        named(|message| message[31] = 0xbc, "ports");
        named(|message| message[9] = 0x02, "dscp");
        named(|message| message[9] = 0xbb, "ecn");
        named(|message| message[9] = 0, "dscp ecn");
        named(|message| message[16] = 2, "ttl");
        assert_eq!(changes(|message| message[16] = 60, false), None);
    }

    #[test]
    fn options_before_the_ports_are_passed_over() {
        let mut message = V4[..28].to_vec();
        message[8] = 0x46;
        message.extend([0x94, 4, 0, 0]);
        message.extend(&V4[28..]);
        assert_eq!(Quoted::read(&message).unwrap().destination_port, 443);
    }

    #[test]
    fn an_ipv6_echo_is_read() {
        let mut message = vec![3, 0, 0, 0, 0, 0, 0, 0];
        message.extend([0x6b, 0xa1, 0x23, 0x45, 0, 8, 58, 1]);
        message.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        message.extend("2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
        message.extend([128, 0, 0xab, 0xcd, 0x77, 0x01, 0, 9]);
        let quoted = Quoted::read(&message).unwrap();
        assert_eq!(quoted.service, 0xba);
        assert_eq!(
            (quoted.source_port, quoted.destination_port),
            (0x7701, 0x7701)
        );
        assert_eq!(quoted.destination.to_string(), "2001:db8::2");
        assert_eq!(Quoted::read(&message[..55]), None, "seven bytes");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(message in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(quoted) = Quoted::read(&message) {
                prop_assert_eq!(quoted.changes(&quoted, false), Marks::default());
            }
        }
    }
}
