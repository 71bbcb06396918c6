//! Link types: what the first byte of a packet belongs to.

use std::fmt;

/// The link layer that a packet begins with, numbered as in the [registry of
/// tcpdump.org](https://www.tcpdump.org/linktypes.html). Any number is representable; the constants
/// are those that this tool meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a 4-byte address family in the byte order of the capturing machine.
    pub const NULL: Self = Self(0);
    /// Ethernet, without the frame check sequence.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without the HDLC address and control bytes.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like framing (RFC 1662).
    pub const PPP_HDLC: Self = Self(50);
    /// PPP over Ethernet, from the PPPoE header on (RFC 2516).
    pub const PPP_ETHERNET: Self = Self(51);
    /// IPv4 or IPv6 by the version nibble, without a link header.
    pub const RAW: Self = Self(101);
    /// Cisco HDLC.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11, without radio information.
    pub const IEEE802_11: Self = Self(105);
    /// OpenBSD loopback: a 4-byte address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// IEEE 802.11 behind a radiotap header.
    pub const IEEE802_11_RADIOTAP: Self = Self(127);
    /// PPP with a leading direction byte, as Linux's pppd captures it.
    pub const PPP_WITH_DIRECTION: Self = Self(166);
    /// IPv4 without a link header.
    pub const IPV4: Self = Self(228);
    /// IPv6 without a link header.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// The registry's name without its `LINKTYPE_` prefix, where this crate has a constant for it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL => "NULL",
            Self::ETHERNET => "ETHERNET",
            Self::PPP => "PPP",
            Self::PPP_HDLC => "PPP_HDLC",
            Self::PPP_ETHERNET => "PPP_ETHER",
            Self::RAW => "RAW",
            Self::C_HDLC => "C_HDLC",
            Self::IEEE802_11 => "IEEE802_11",
            Self::LOOP => "LOOP",
            Self::LINUX_SLL => "LINUX_SLL",
            Self::IEEE802_11_RADIOTAP => "IEEE802_11_RADIOTAP",
            Self::PPP_WITH_DIRECTION => "PPP_WITH_DIR",
            Self::IPV4 => "IPV4",
            Self::IPV6 => "IPV6",
            Self::LINUX_SLL2 => "LINUX_SLL2",
            Self(_) => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "link type {}", self.0),
        }
    }
}
