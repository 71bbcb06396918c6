//! Options of `fathom ipfix`.

use std::time::Duration;

use clap::{Args, Subcommand};
use fathom_ipfix::{Limits, ListenAddress};
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
    /// private key. With `&client-ca=FILE` exporters must show a certificate that is signed by one
    /// in this file.
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
