//! Options of `fathom ipfix`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use fathom_ipfix::Limits;
use fathom_record::format::Format;

use crate::arguments::{duration, one_of, typed};
use crate::output::LINE_FORMATS;

/// What to do with IPFIX.
#[derive(Debug, Subcommand)]
pub(crate) enum IpfixCommand {
    /// Print the records that exporters send here, of any kind, until Ctrl-C.
    ///
    /// Elements have the names of IANA's registry, or those that the exporter sends (RFC 5610).
    /// Others are named by their numbers, such as e32473id7. Lost records are counted by the
    /// sequence numbers of the messages.
    Dump(DumpArguments),
}

/// Options of `fathom ipfix dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// Where to listen, such as udp:127.0.0.1:4739, tcp:0.0.0.0:4739 or
    /// `tls:[::]:4740?cert=FILE&key=FILE`; can be repeated.
    ///
    /// For TLS, `cert` is a PEM file with the certificate and its signers, and `key` one with the
    /// private key.
    #[arg(
        long,
        value_name = "TRANSPORT:ADDRESS:PORT",
        value_delimiter = ',',
        default_value = "udp:127.0.0.1:4739"
    )]
    pub(crate) listen: Vec<ListenAddress>,
    /// The output format.
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
    pub(crate) format: Format,
    /// Forget a template that came over UDP and was not repeated for this time (RFC 7011, section
    /// 8.4); 0 for never. Exporters repeat templates three times in that time; fathom repeats its
    /// own every ten minutes.
    #[arg(long, value_name = "TIME", default_value = typed(Limits::default().template_lifetime), value_parser = duration)]
    pub(crate) template_lifetime: Duration,
    /// Also print what exporters send about themselves and their elements.
    #[arg(long)]
    pub(crate) options: bool,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// For datagrams.
    Udp(SocketAddr),
    /// For connections.
    Tcp(SocketAddr),
    /// For connections over TLS.
    Tls {
        address: SocketAddr,
        /// PEM files.
        certificate: PathBuf,
        key: PathBuf,
    },
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it as in udp:127.0.0.1:4739 or tcp:[::1]:4739";
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (transport, address) = text.split_once(':').ok_or(example)?;
        let address = address
            .parse()
            .map_err(|error| format!("{error}; {example}"))?;
        match transport {
            "udp" | "tcp" if !query.is_empty() => {
                Err("what follows `?` is for tls only".to_owned())
            }
            "udp" => Ok(Self::Udp(address)),
            "tcp" => Ok(Self::Tcp(address)),
            "tls" => {
                let [certificate, key] = certificate_and_key(query)?;
                Ok(Self::Tls {
                    address,
                    certificate,
                    key,
                })
            }
            _ => Err(format!("`{transport}` is none of udp, tcp, tls; {example}")),
        }
    }
}

/// Reads `cert=FILE&key=FILE`.
fn certificate_and_key(query: &str) -> Result<[PathBuf; 2], String> {
    const EXAMPLE: &str = "TLS needs its files, as in tls:[::]:4740?cert=FILE&key=FILE";
    let (mut certificate, mut key) = (None, None);
    for option in query.split('&') {
        let (name, value) = option.split_once('=').ok_or(EXAMPLE)?;
        let file = match name {
            "cert" => &mut certificate,
            "key" => &mut key,
            _ => return Err(format!("`{name}` is neither `cert` nor `key`; {EXAMPLE}")),
        };
        if value.is_empty() || file.replace(PathBuf::from(value)).is_some() {
            return Err(EXAMPLE.to_owned());
        }
    }
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok([certificate, key]),
        _ => Err(EXAMPLE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_transport() {
        let address = "[::1]:4739".parse().unwrap();
        assert_eq!("tcp:[::1]:4739".parse(), Ok(ListenAddress::Tcp(address)));
        let tls = "tls:[::1]:4739?key=k.pem&cert=c.pem".parse();
        let [certificate, key] = ["c.pem", "k.pem"].map(PathBuf::from);
        assert_eq!(
            tls,
            Ok(ListenAddress::Tls {
                address,
                certificate,
                key
            })
        );
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
