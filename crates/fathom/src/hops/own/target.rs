//! Whom a connection is opened to, as it is written on the command line.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};

/// Of HTTPS: who serves anything to everybody serves this.
const USUAL_PORT: u16 = 443;
/// Addresses that are tried, at most: as many as can be selected.
const ADDRESSES_MAX: usize = 16;

/// A host and a port of TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    name: String,
    port: u16,
}

/// One kind of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    V4,
    V6,
}

impl Target {
    /// Reads `HOST`, `HOST:PORT`, or an address of IPv6 with brackets around it, or none if no port
    /// follows.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let of = |name: &str, port| Self {
            name: name.to_owned(),
            port,
        };
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(of(&address.to_string(), USUAL_PORT));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(of(&address.ip().to_string(), address.port()));
        }
        let (name, port) = match text.split_once(':') {
            None => (text, USUAL_PORT),
            Some((name, port)) => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (name, port.ok_or("the port is a number from 1 to 65535")?)
            }
        };
        if name.is_empty() {
            return Err("write a host, such as example.org or example.org:443".to_owned());
        }
        Ok(of(name, port))
    }

    /// Its addresses of this family, or of both, in the order in which they are to be tried.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn resolve(&self, family: Option<AddressFamily>) -> anyhow::Result<Vec<SocketAddr>> {
        let Self { name, port } = self;
        let found = (name.as_str(), *port)
            .to_socket_addrs()
            .with_context(|| format!("cannot find the address of {name}"))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            let is_wanted = family.is_none_or(|family| family.has(address.ip()));
            if is_wanted && !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            let family = family.map_or("IP", AddressFamily::name);
            bail!("{name} has no address of {family}");
        }
        Ok(addresses)
    }
}

impl AddressFamily {
    fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_and_without_a_port() {
        for (text, name, port) in [
            ("example.org", "example.org", 443),
            ("example.org:80", "example.org", 80),
            ("192.0.2.1", "192.0.2.1", 443),
            ("192.0.2.1:22", "192.0.2.1", 22),
            ("2001:db8::1", "2001:db8::1", 443),
            ("[2001:db8::1]", "2001:db8::1", 443),
            ("[2001:db8::1]:22", "2001:db8::1", 22),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.name.as_str(), target.port), (name, port), "{text}");
        }
        for wrong in ["", ":80", "example.org:", "example.org:0", "a:65536", "a:b"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_family_selects_addresses() {
        let target = Target::parse("192.0.2.1").unwrap();
        let expected: SocketAddr = ([192, 0, 2, 1], 443).into();
        assert_eq!(target.resolve(Some(AddressFamily::V4)).unwrap(), [expected]);
        let told = target.resolve(Some(AddressFamily::V6)).unwrap_err();
        assert_eq!(told.to_string(), "192.0.2.1 has no address of IPv6");
    }
}
