//! Where messages go, as a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// The port of IPFIX over UDP and TCP (RFC 7011, section 10).
const PORT: u16 = 4739;
/// The port of IPFIX over TLS.
const TLS_PORT: u16 = 4740;
/// What IPv6 guarantees to pass (RFC 8200, section 5).
const LEAST_PATH_MTU_BYTES: u16 = 1_280;
/// Some collectors cut what is longer than an Ethernet frame holds.
const MOST_MTU_BYTES: u16 = 1_500;
/// Below this a template would not fit.
const LEAST_MTU_BYTES: u16 = 576;
/// Headers of IPv6 and UDP.
const UDP_HEADER_BYTES: u16 = 48;
/// A message on a stream, unless `mtu` says otherwise: long enough that headers do not matter.
const STREAM_MESSAGE_BYTES: usize = 16_384;

/// How messages travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Each message a datagram.
    Udp,
    /// A stream.
    Tcp,
    /// TLS over TCP.
    Tls {
        /// The PEM file of the certificates of authority that the collector's must be signed by.
        authority: PathBuf,
    },
}

/// A collector and the way to it: `ipfix+udp://HOST:PORT`, `ipfix+tcp://HOST:PORT`,
/// `ipfix+tls://HOST:PORT?ca=FILE`; without port 4739, with TLS 4740. `mtu=BYTES` is the longest IP
/// packet of a message; unless it is said, for UDP that of the path, 1500 at most.
///
/// ```
/// use fathom_ipfix::{Destination, Transport};
///
/// let destination: Destination = "ipfix+udp://[fd00::1]:2055?mtu=1500".parse().unwrap();
/// assert_eq!((destination.host.as_str(), destination.port), ("fd00::1", 2055));
/// assert_eq!(destination.transport, Transport::Udp);
/// assert_eq!(destination.message_bytes(None), 1452);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// How messages travel.
    pub transport: Transport,
    /// The name or address of the collector; with TLS its certificate is for this.
    pub host: String,
    /// The port of the collector.
    pub port: u16,
    /// The longest IP packet of a message, if it was said.
    pub mtu_bytes: Option<u16>,
}

impl Destination {
    /// The longest message that should be sent there, where so long packets pass the path whole, if
    /// that is known.
    pub fn message_bytes(&self, path_mtu: Option<u16>) -> usize {
        match (&self.transport, self.mtu_bytes) {
            (Transport::Udp, mtu) => {
                let path_mtu = path_mtu.unwrap_or(LEAST_PATH_MTU_BYTES);
                let usual = path_mtu.clamp(LEAST_MTU_BYTES, MOST_MTU_BYTES);
                usize::from(mtu.unwrap_or(usual) - UDP_HEADER_BYTES)
            }
            (_, Some(mtu)) => usize::from(mtu),
            (_, None) => STREAM_MESSAGE_BYTES,
        }
    }

    fn scheme(&self) -> &'static str {
        match self.transport {
            Transport::Udp => "ipfix+udp",
            Transport::Tcp => "ipfix+tcp",
            Transport::Tls { .. } => "ipfix+tls",
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("write it as in ipfix+udp://HOST:PORT")?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = Options::parse(query)?;
        let transport = match (scheme, options.authority) {
            ("ipfix+udp", None) => Transport::Udp,
            ("ipfix+tcp", None) => Transport::Tcp,
            ("ipfix+udp" | "ipfix+tcp", Some(_)) => {
                return Err("`ca` is for ipfix+tls only".to_owned());
            }
            ("ipfix+tls", Some(authority)) => Transport::Tls { authority },
            ("ipfix+tls", None) => {
                return Err("TLS needs `?ca=FILE`, the certificates to trust".to_owned());
            }
            _ => {
                return Err(format!(
                    "`{scheme}` is not one of ipfix+udp, ipfix+tcp, ipfix+tls"
                ));
            }
        };
        let default_port = match transport {
            Transport::Tls { .. } => TLS_PORT,
            Transport::Udp | Transport::Tcp => PORT,
        };
        let (host, port) = host_and_port(authority.trim_end_matches('/'), default_port)?;
        Ok(Self {
            transport,
            host,
            port,
            mtu_bytes: options.mtu_bytes,
        })
    }
}

impl FromStr for Destination {
    type Err = Error;

    /// Reads a URL; [`Error::Destination`] for what is none.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text).map_err(|reason| Error::Destination {
            text: text.to_owned(),
            reason,
        })
    }
}

impl fmt::Display for Destination {
    /// The URL without its options.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, port) = (self.scheme(), self.port);
        if self.host.contains(':') {
            write!(formatter, "{scheme}://[{}]:{port}", self.host)
        } else {
            write!(formatter, "{scheme}://{}:{port}", self.host)
        }
    }
}

#[derive(Default)]
struct Options {
    authority: Option<PathBuf>,
    mtu_bytes: Option<u16>,
}

impl Options {
    fn parse(query: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "ca" if !value.is_empty() => options.authority = Some(value.into()),
                "ca" => return Err("`ca` names no file".to_owned()),
                "mtu" => {
                    let mtu = value.parse().ok().filter(|mtu| *mtu >= LEAST_MTU_BYTES);
                    let range = format!("`mtu` must be {LEAST_MTU_BYTES} to 65535 bytes");
                    options.mtu_bytes = Some(mtu.ok_or(range)?);
                }
                _ => return Err(format!("`{name}` is no option: there are `ca` and `mtu`")),
            }
        }
        Ok(options)
    }
}

fn host_and_port(authority: &str, default_port: u16) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("`[` is not closed by `]`")?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("`{host}` is no IPv6 address"));
            }
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').unwrap_or(after))),
            }
        }
        None => match authority.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("an IPv6 address stands in brackets, as in [::1]:4739".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("there is no host".to_owned());
    }
    let port = match port {
        None => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(format!("`{port}` is no port")),
        },
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Destination {
        text.parse().unwrap()
    }

    #[test]
    fn urls_are_read_and_shown() {
        let udp = parse("ipfix+udp://collector.example");
        assert_eq!((udp.port, udp.message_bytes(None)), (4739, 1232));
        assert_eq!(udp.to_string(), "ipfix+udp://collector.example:4739");
        let tcp = parse("ipfix+tcp://10.0.0.1:9000/?mtu=9000");
        assert_eq!((tcp.port, tcp.message_bytes(None)), (9000, 9000));
        let of_path = [64, 1_400, 65_535].map(|path_mtu| udp.message_bytes(Some(path_mtu)));
        assert_eq!(of_path, [576 - 48, 1_400 - 48, 1_500 - 48]);
        let tls = parse("ipfix+tls://[::1]?ca=/etc/ca.pem");
        assert_eq!(tls.to_string(), "ipfix+tls://[::1]:4740");
        let authority = "/etc/ca.pem".into();
        assert_eq!(tls.transport, Transport::Tls { authority });
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("127.0.0.1:4739", "ipfix+udp://HOST:PORT"),
            ("http://x", "`http` is not one of"),
            ("ipfix+udp://", "no host"),
            ("ipfix+udp://:1", "no host"),
            ("ipfix+udp://x:0", "`0` is no port"),
            ("ipfix+udp://x:99999", "no port"),
            ("ipfix+udp://::1:4739", "brackets"),
            ("ipfix+udp://[::1", "not closed"),
            ("ipfix+udp://[x]:1", "no IPv6 address"),
            ("ipfix+udp://x?mtu=100", "576"),
            ("ipfix+udp://x?ca=y", "ipfix+tls only"),
            ("ipfix+tls://x", "?ca=FILE"),
            ("ipfix+tls://x?ca", "no file"),
            ("ipfix+tcp://x?speed=1", "`speed` is no option"),
        ] {
            let error = text.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
