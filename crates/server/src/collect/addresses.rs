//! Where to listen, as a URL.

use std::net::SocketAddr;
use std::str::FromStr;

use fathom_ipfix::{ListenAddress, TlsFiles};

/// An address, and who may send there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listen {
    /// Agents.
    Http {
        address: SocketAddr,
        tls: Option<TlsFiles>,
    },
    /// Any exporter.
    Ipfix(ListenAddress),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example =
            "write it as in https://0.0.0.0:4741?cert=FILE&key=FILE or ipfix+udp://[::]:4739";
        let (scheme, rest) = text.split_once("://").ok_or(example)?;
        if scheme.starts_with("ipfix+") {
            return text.parse().map(Self::Ipfix);
        }
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = address.trim_end_matches('/').parse();
        let address = address.map_err(|error| format!("{error}; {example}"))?;
        let tls = match scheme {
            "http" if query.is_empty() => None,
            "http" => return Err("what follows `?` is for https only".to_owned()),
            "https" => Some(TlsFiles::parse(query)?),
            _ => {
                return Err(format!(
                    "`{scheme}` is none of https, http, ipfix+udp, ipfix+tcp, ipfix+tls; {example}"
                ));
            }
        };
        Ok(Self::Http { address, tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_who_may_send() {
        let address = "127.0.0.1:4741".parse().unwrap();
        let plain = "http://127.0.0.1:4741/".parse();
        assert_eq!(plain, Ok(Listen::Http { address, tls: None }));
        let udp = "ipfix+udp://127.0.0.1:4741".parse();
        assert_eq!(udp, Ok(Listen::Ipfix(ListenAddress::Udp(address))));
        for wrong in [
            "127.0.0.1:4741",
            "https://127.0.0.1:4741",
            "https://127.0.0.1:4741?cert=c.pem",
            "http://127.0.0.1:4741?cert=c.pem&key=k.pem",
            "http://localhost:4741",
            "ftp://127.0.0.1:4741",
            "ipfix+udp://127.0.0.1",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
