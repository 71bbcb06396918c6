//! Options of those who send records to collectors.

use std::time::Duration;

use clap::{Args, ValueEnum};
use fathom_ipfix::Destination;

use super::{duration, positive_duration};

/// Which collectors records are sent to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Export over IPFIX")]
pub(crate) struct ExportArguments {
    /// Send records to this collector, as in `ipfix+udp://192.0.2.1:4739`, `ipfix+tcp://HOST` or
    /// `ipfix+tls://HOST?ca=FILE`; once for each.
    ///
    /// What passes faster than a collector takes it is lost over UDP. Nothing is printed then
    /// unless --format or --output ask for it. `?mtu=BYTES` is the longest packet over UDP, that of
    /// the path by default, but no more than 1500.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) export: Vec<Destination>,
    /// Templates: made from the fields of the records, or those of Flowcorder 0.8 (47561 to 47567),
    /// which have elements for profiles only.
    #[arg(long, value_enum, default_value = "fathom", value_name = "SET")]
    pub(crate) templates: TemplateName,
    /// The private enterprise number that fathom's own elements are under; 32473 is for examples
    /// (RFC 5612): use that of your organisation.
    #[arg(long, value_name = "NUMBER", default_value_t = 32_473)]
    pub(crate) enterprise_number: u32,
    /// The observation domain; by default 1, and 56423 with Flowcorder's templates.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) observation_domain: Option<u32>,
    /// Send texts in so many bytes, filled up with zeros and cut where they are longer; 0 for each
    /// as long as it is.
    ///
    /// For collectors that cannot read enterprise-specific elements of variable length: nfacctd
    /// shows such texts empty, netgauze refuses the message.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) text_bytes: u16,
    /// How long a record may wait for others to fill its message.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(crate) flush: Duration,
    /// Time between the repetitions of templates over UDP.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = positive_duration)]
    pub(crate) template_refresh: Duration,
}

/// Templates by their name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TemplateName {
    /// Made from the fields of the records.
    Fathom,
    /// Those of Flowcorder.
    Flowcorder,
}

impl ExportArguments {
    /// Is there a collector?
    #[cfg(feature = "live")]
    pub(crate) fn is_asked_for(&self) -> bool {
        !self.export.is_empty()
    }
}
