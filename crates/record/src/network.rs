//! Networks: addresses that share a prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::Error;

/// An address prefix such as `10.0.0.0/8`; the bits after the prefix are always zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    address: IpAddr,
    prefix_length: u8,
}

impl Network {
    /// The network of `address` with the given prefix length in bits.
    ///
    /// # Errors
    /// [`Error::PrefixLength`] when it exceeds 32 for IPv4 or 128 for IPv6.
    pub const fn new(address: IpAddr, prefix_length: u8) -> Result<Self, Error> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if prefix_length > longest {
            return Err(Error::PrefixLength {
                address,
                length: prefix_length,
                longest,
            });
        }
        // A shift by the whole width is an overflow, which is just what a prefix of no bits needs
        // to be zero.
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = match u32::MAX.checked_shl(32 - prefix_length as u32) {
                    Some(mask) => mask,
                    None => 0,
                };
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = match u128::MAX.checked_shl(128 - prefix_length as u32) {
                    Some(mask) => mask,
                    None => 0,
                };
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Ok(Self {
            address,
            prefix_length,
        })
    }

    /// The first address of the network.
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many leading bits its addresses share: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub const fn prefix_length(self) -> u8 {
        self.prefix_length
    }

    /// Whether `address` is of the same family and shares the prefix.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self::new(address, self.prefix_length) == Ok(self)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix_length)
    }
}

impl From<IpAddr> for Network {
    /// That of one address alone.
    fn from(address: IpAddr) -> Self {
        let prefix_length = if address.is_ipv4() { 32 } else { 128 };
        Self {
            address,
            prefix_length,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    /// Reads `ADDRESS/LENGTH`, or a lone address as the network of just that address. Bits after
    /// the prefix are dropped.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::Network {
            text: text.to_owned(),
        };
        let (address, prefix_length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| unreadable())?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let prefix_length =
            prefix_length.map_or(Ok(whole), |length| length.parse().map_err(|_| unreadable()))?;
        Self::new(address, prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_network_reads_and_prints() {
        let read = |text: &str| text.parse::<Network>().map(|network| network.to_string());
        assert_eq!(read("10.1.2.3/8").as_deref(), Ok("10.0.0.0/8"));
        assert_eq!(
            read("2001:db8:ffff::1/33").as_deref(),
            Ok("2001:db8:8000::/33")
        );
        assert_eq!(read("10.1.2.3").as_deref(), Ok("10.1.2.3/32"));
        assert_eq!(read("10.1.2.3/0").as_deref(), Ok("0.0.0.0/0"));
        assert!(matches!(
            read("10.1.2.3/33"),
            Err(Error::PrefixLength { longest: 32, .. })
        ));
        assert!(matches!(read("10.1.2/24"), Err(Error::Network { .. })));
    }

    #[test]
    fn the_widest_network_holds_its_own_family_only() {
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn a_network_holds_the_address_it_was_made_of(address: IpAddr, length in 0_u8..=128) {
            if let Ok(network) = Network::new(address, length) {
                prop_assert!(network.contains(address));
                prop_assert_eq!(network.to_string().parse(), Ok(network));
            }
        }
    }
}
