//! The identity of a flow.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::{CommunityId, Error};

/// An IP protocol number (IANA "Assigned Internet Protocol Numbers"), shown by its name where
/// fathom measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Self = Self(1);
    /// TCP (RFC 9293).
    pub const TCP: Self = Self(6);
    /// UDP (RFC 768).
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: Self = Self(58);
    /// SCTP (RFC 9260).
    pub const SCTP: Self = Self(132);

    /// The lower-case name, or `None` for a protocol that is known by its number only.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::ICMP => Some("icmp"),
            Self::TCP => Some("tcp"),
            Self::UDP => Some("udp"),
            Self::ICMPV6 => Some("icmpv6"),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.pad(name),
            None => fmt::Display::fmt(&self.0, formatter),
        }
    }
}

impl FromStr for Protocol {
    type Err = Error;

    /// Reads a name in any case, or a number; [`Error::Protocol`] for anything else.
    fn from_str(text: &str) -> Result<Self, Error> {
        [Self::ICMP, Self::TCP, Self::UDP, Self::ICMPV6]
            .into_iter()
            .find(|protocol| {
                protocol
                    .name()
                    .is_some_and(|name| name.eq_ignore_ascii_case(text))
            })
            .or_else(|| text.parse().ok().map(Self))
            .ok_or_else(|| Error::Protocol {
                text: text.to_owned(),
            })
    }
}

/// Whose packets: protocol, addresses and ports of packets that went from `source` to
/// `destination`.
///
/// It has a direction: the answers belong to [`FlowKey::reversed`]. ICMP echo carries its
/// identifier in both ports; protocols without ports have 0 in both, and then neither is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// The IP protocol.
    pub protocol: Protocol,
    /// Where the packets come from.
    pub source: IpAddr,
    /// Port they come from, in host byte order.
    pub source_port: u16,
    /// Where the packets go to.
    pub destination: IpAddr,
    /// Port they go to, in host byte order.
    pub destination_port: u16,
}

impl FlowKey {
    /// The same conversation seen the other way round.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self {
            protocol: self.protocol,
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }

    /// The hash that names the flow to other tools, too; both directions have the same.
    pub fn community_id(&self) -> CommunityId {
        CommunityId::of(self)
    }

    /// Whether either port says something; if not, neither is shown.
    pub const fn has_ports(&self) -> bool {
        self.source_port != 0 || self.destination_port != 0
    }
}

/// `tcp 10.0.0.1:5000 > 10.0.1.1:443`, `udp [2001:db8::1]:53 > [2001:db8::2]:4000`,
/// `47 10.0.0.1 > 10.0.1.1`.
impl fmt::Display for FlowKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_ports() {
            let source = std::net::SocketAddr::new(self.source, self.source_port);
            let destination = std::net::SocketAddr::new(self.destination, self.destination_port);
            write!(formatter, "{} {source} > {destination}", self.protocol)
        } else {
            write!(
                formatter,
                "{} {} > {}",
                self.protocol, self.source, self.destination
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(
        protocol: Protocol,
        source: &str,
        source_port: u16,
        destination: &str,
        destination_port: u16,
    ) -> FlowKey {
        FlowKey {
            protocol,
            source: source.parse().unwrap(),
            source_port,
            destination: destination.parse().unwrap(),
            destination_port,
        }
    }

    #[test]
    fn a_flow_reads_as_one_line() {
        let shown = |protocol, source, source_port, destination, destination_port| {
            key(protocol, source, source_port, destination, destination_port).to_string()
        };
        assert_eq!(
            shown(Protocol::TCP, "10.0.0.1", 5000, "10.0.1.1", 443),
            "tcp 10.0.0.1:5000 > 10.0.1.1:443"
        );
        assert_eq!(
            shown(Protocol::UDP, "2001:db8::1", 53, "::1", 9),
            "udp [2001:db8::1]:53 > [::1]:9"
        );
        assert_eq!(
            shown(Protocol(47), "10.0.0.1", 0, "2001:db8::1", 0),
            "47 10.0.0.1 > 2001:db8::1"
        );
    }

    #[test]
    fn reversing_twice_is_the_same_flow() {
        let flow = key(Protocol::TCP, "10.0.0.1", 5000, "10.0.1.1", 443);
        assert_eq!(
            flow.reversed(),
            key(Protocol::TCP, "10.0.1.1", 443, "10.0.0.1", 5000)
        );
        assert_eq!(flow.reversed().reversed(), flow);
    }

    #[test]
    fn every_protocol_reads_back() {
        for number in 0..=u8::MAX {
            assert_eq!(Protocol(number).to_string().parse(), Ok(Protocol(number)));
        }
        assert_eq!("TCP".parse(), Ok(Protocol::TCP));
        assert!("256".parse::<Protocol>().is_err());
    }
}
