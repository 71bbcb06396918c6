//! Where to listen.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen at: `udp:ADDRESS:PORT`, `tcp:…` or `tls:…?cert=FILE&key=FILE`, which may
/// also be written `ipfix+udp://ADDRESS:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// For datagrams.
    Udp(SocketAddr),
    /// For connections.
    Tcp(SocketAddr),
    /// For connections over TLS.
    Tls {
        /// Where.
        address: SocketAddr,
        /// With what.
        files: TlsFiles,
    },
}

/// The PEM files that one who listens with TLS needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that it is signed by.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificates that those of clients must be signed by; clients need none without it.
    pub clients: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads `cert=FILE&key=FILE`, and maybe `&client-ca=FILE`.
    ///
    /// # Errors
    /// A sentence that says how to write it.
    pub fn parse(query: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "TLS needs its files, as in tls:[::]:4740?cert=FILE&key=FILE";
        let (mut certificate, mut key, mut clients) = (None, None, None);
        for option in query.split('&') {
            let (name, value) = option.split_once('=').ok_or(EXAMPLE)?;
            let file = match name {
                "cert" => &mut certificate,
                "key" => &mut key,
                "client-ca" => &mut clients,
                _ => {
                    return Err(format!(
                        "`{name}` is none of `cert`, `key`, `client-ca`; {EXAMPLE}"
                    ));
                }
            };
            if value.is_empty() || file.replace(PathBuf::from(value)).is_some() {
                return Err(EXAMPLE.to_owned());
            }
        }
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Self {
                certificate,
                key,
                clients,
            }),
            _ => Err(EXAMPLE.to_owned()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it as in udp:127.0.0.1:4739 or tcp:[::1]:4739";
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (transport, address) = text.split_once(':').ok_or(example)?;
        let address = address.strip_prefix("//").unwrap_or(address);
        let address = address
            .parse()
            .map_err(|error| format!("{error}; {example}"))?;
        let transport = transport.strip_prefix("ipfix+").unwrap_or(transport);
        match transport {
            "udp" | "tcp" if !query.is_empty() => {
                Err("what follows `?` is for tls only".to_owned())
            }
            "udp" => Ok(Self::Udp(address)),
            "tcp" => Ok(Self::Tcp(address)),
            "tls" => Ok(Self::Tls {
                address,
                files: TlsFiles::parse(query)?,
            }),
            _ => Err(format!("`{transport}` is none of udp, tcp, tls; {example}")),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(formatter, "udp:{address}"),
            Self::Tcp(address) => write!(formatter, "tcp:{address}"),
            Self::Tls { address, .. } => write!(formatter, "tls:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_transport() {
        let address = "[::1]:4739".parse().unwrap();
        for tcp in ["tcp:[::1]:4739", "ipfix+tcp://[::1]:4739"] {
            assert_eq!(tcp.parse(), Ok(ListenAddress::Tcp(address)));
        }
        let tls = "tls:[::1]:4739?key=k.pem&cert=c.pem&client-ca=a.pem".parse();
        let files = TlsFiles {
            certificate: "c.pem".into(),
            key: "k.pem".into(),
            clients: Some("a.pem".into()),
        };
        assert_eq!(tls, Ok(ListenAddress::Tls { address, files }));
        for wrong in [
            "",
            "tls:[::1]:4739",
            "tls:[::1]:4739?cert=c.pem",
            "tls:[::1]:4739?cert=c.pem&cert=d.pem&key=k.pem",
            "tls:[::1]:4739?cert=c.pem&key=",
            "tls:[::1]:4739?ca=c.pem&key=k.pem",
            "tcp:[::1]:4739?cert=c.pem&key=k.pem",
            "127.0.0.1:4739",
            "udp:localhost:4739",
            "udp:127.0.0.1",
            "sctp:127.0.0.1:1",
        ] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
