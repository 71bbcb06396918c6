//! Options of `fathom ipfix`.

use std::net::SocketAddr;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

/// What to do with IPFIX.
#[derive(Debug, Subcommand)]
pub(crate) enum IpfixCommand {
    /// Print the records that exporters send here, of any kind, until Ctrl-C.
    ///
    /// Elements have the names of IANA's registry, or those that the exporter tells (RFC 5610); the others are called by their numbers,
    /// as in e32473id7. Records that got lost are counted by the numbers of the messages.
    Dump(DumpArguments),
}

/// Options of `fathom ipfix dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    /// Where to listen, as in udp:127.0.0.1:4739 or tcp:0.0.0.0:4739; give it several times for several.
    #[arg(
        long,
        value_name = "TRANSPORT:ADDRESS:PORT",
        value_delimiter = ',',
        default_value = "udp:127.0.0.1:4739"
    )]
    pub(crate) listen: Vec<ListenAddress>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) format: DumpFormat,
    /// Print also what exporters tell about themselves and their elements.
    #[arg(long)]
    pub(crate) options: bool,
}

/// How records are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// An address to listen at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// For datagrams.
    Udp(SocketAddr),
    /// For connections.
    Tcp(SocketAddr),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it as in udp:127.0.0.1:4739 or tcp:[::1]:4739";
        let (transport, address) = text.split_once(':').ok_or(example)?;
        let address = address
            .parse()
            .map_err(|error| format!("{error}; {example}"))?;
        match transport {
            "udp" => Ok(Self::Udp(address)),
            "tcp" => Ok(Self::Tcp(address)),
            _ => Err(format!("`{transport}` is neither udp nor tcp; {example}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_transport() {
        let address = "[::1]:4739".parse().unwrap();
        assert_eq!("tcp:[::1]:4739".parse(), Ok(ListenAddress::Tcp(address)));
        for wrong in [
            "",
            "127.0.0.1:4739",
            "udp:localhost:4739",
            "udp:127.0.0.1",
            "sctp:127.0.0.1:1",
        ] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
