//! Options of those who send records to collectors, or keep them in a store.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_ipfix::{ExporterSettings, Refresh, TemplateSet};

use super::collector::{CollectorUrl, ExportTarget};
use super::store::StoreArguments;
use super::{Choice, MetricsArguments, duration, one_of, positive_duration, typed};
#[cfg(feature = "live")]
use crate::clickhouse::ServerUrl;

const SPOOL_MIB: u64 = 1024;

/// Which collectors records are sent to, which store keeps them, and who gets metrics of them.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = "Export")]
pub(crate) struct ExportArguments {
    /// Send records to this collector, such as `https://HOST?ca=FILE&cert=FILE&key=FILE`,
    /// `ipfix+udp://192.0.2.1:4739`, `ipfix+tcp://HOST` or `ipfix+tls://HOST?ca=FILE`; can be
    /// repeated.
    ///
    /// With `https`, or `http` in a network that is trusted, the collector is `fathom collect`,
    /// which acknowledges what it has kept: what is not acknowledged waits, and is sent again. With
    /// `ipfix` it is any collector. Over UDP, records that a slow collector does not take are lost.
    /// With a collector or a store, nothing is printed unless --format or --output is given.
    /// `?mtu=BYTES` is the longest packet over UDP; by default that of the path, but at most 1500.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) export: Vec<ExportTarget>,
    /// Keep records that wait for `https`, `http` or ClickHouse in this directory, also when fathom
    /// ends; `fathom agent` by default in /var/lib/fathom-spool, others in memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) spool: Option<PathBuf>,
    /// What waits takes so many MiB on the disk for each of these; what comes then is lost, and
    /// counted.
    #[arg(long, value_name = "MIB", default_value_t = SPOOL_MIB, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) spool_size: u64,
    /// The templates of IPFIX: made from the fields of the records, or those of Flowcorder 0.8
    /// (47561 to 47567), which are for profiles only.
    #[arg(long, default_value = "fathom", value_name = "SET", value_parser = one_of(&TEMPLATES))]
    pub(crate) templates: TemplateSet,
    /// The private enterprise number of fathom's own elements. 32473 is for examples (RFC 5612):
    /// use that of your organisation.
    #[arg(long, value_name = "NUMBER", default_value_t = ExporterSettings::default().enterprise)]
    pub(crate) enterprise_number: u32,
    /// The observation domain; by default the number of the process, so that collectors tell those
    /// of a host apart, and 56423 with Flowcorder's templates.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) observation_domain: Option<u32>,
    /// Send texts with this fixed length in bytes: shorter ones are padded with zeros, longer ones
    /// cut; 0 sends each with its own length.
    ///
    /// This is for collectors that cannot read enterprise-specific elements of variable length:
    /// nfacctd shows such texts empty, and netgauze refuses the message.
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) text_bytes: u16,
    /// How long a record may wait for others to fill its message.
    #[arg(long, value_name = "TIME", default_value = typed(ExporterSettings::default().flush), value_parser = duration)]
    pub(crate) flush: Duration,
    /// Time between the repetitions of templates over UDP.
    #[arg(long, value_name = "TIME", default_value = typed(Refresh::default().interval), value_parser = positive_duration)]
    pub(crate) template_refresh: Duration,
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// Keep records in this server of ClickHouse, such as `http://HOST:8123` or
    /// `https://USER:PASSWORD@HOST:8443/DATABASE?ca=FILE`, where `fathom store init` has made the
    /// tables.
    ///
    /// What it does not take waits, and is sent again, as for a collector with `https`.
    #[cfg(feature = "live")]
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) clickhouse: Option<ServerUrl>,
    #[command(flatten)]
    pub(crate) metrics: MetricsArguments,
    /// In metrics, call networks as this file does, instead of by prefix: a CSV file with a prefix
    /// and a name a line.
    #[arg(long, value_name = "FILE", help_heading = "Metrics")]
    pub(crate) networks: Option<PathBuf>,
}

const TEMPLATES: [Choice<TemplateSet>; 2] = [
    (
        TemplateSet::Derived,
        "fathom",
        "Made from the fields of the records",
    ),
    (TemplateSet::Flowcorder, "flowcorder", "Those of Flowcorder"),
];

impl ExportArguments {
    /// The collectors that acknowledge.
    pub(crate) fn collectors(&self) -> impl Iterator<Item = &CollectorUrl> {
        self.export.iter().filter_map(|target| match target {
            ExportTarget::Collector(url) => Some(url),
            ExportTarget::Ipfix(_) => None,
        })
    }

    /// To a store, and nowhere else.
    pub(crate) fn to_store(store: &StoreArguments) -> Self {
        let defaults = ExporterSettings::default();
        Self {
            export: Vec::new(),
            spool: None,
            spool_size: SPOOL_MIB,
            templates: TemplateSet::Derived,
            enterprise_number: defaults.enterprise,
            observation_domain: None,
            text_bytes: 0,
            flush: defaults.flush,
            template_refresh: Refresh::default().interval,
            store: store.clone(),
            metrics: MetricsArguments::NONE,
            networks: None,
            #[cfg(feature = "live")]
            clickhouse: None,
        }
    }

    /// Does anything get records, or figures of them?
    #[cfg(feature = "live")]
    pub(crate) fn is_asked_for(&self) -> bool {
        self.has_records() || self.metrics.is_asked_for()
    }

    /// Is there a collector, a store, or a server that keeps records?
    #[cfg(feature = "live")]
    pub(crate) fn has_records(&self) -> bool {
        !self.export.is_empty() || self.store.store.is_some() || self.clickhouse.is_some()
    }
}
