//! Options of `fathom agent`.

use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use fathom_record::format::Format;

use super::measured;
use crate::arguments::{
    ExportArguments, MetricsPlace, OutputTarget, interval, one_of, positive_duration,
};
use crate::output::LINE_FORMATS;

/// Options of `fathom agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// Measure on this interface: a name, a pattern such as 'veth*', or `any`; can be repeated; by
    /// default that of the default route.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// What to measure; can be repeated. `hops` is the only one that sends packets.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = passive(), value_parser = names())]
    pub(crate) measure: Vec<String>,
    /// Each flow has a record of each measurement at the end of every such interval in which there
    /// was something to measure; at least 10ms.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Stop after this time, such as 15s or 2m; by default at SIGTERM or Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error how the interfaces are measured.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: AgentOutput,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

/// Where records go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct AgentOutput {
    /// The output format; by default text, or no output with --export or --store.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

/// Where packages and systemd put what services keep.
const STORE: &str = "/var/lib/fathom";
/// An agent runs for months: what it keeps is bounded.
const STORE_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
const STORE_MIB: u64 = 10_240;

impl AgentArguments {
    /// Which collectors and which store get records, by default the store of this host; and how
    /// much that keeps. Metrics are by default for those on this host.
    pub(super) fn export(&self) -> ExportArguments {
        let mut export = self.export.clone();
        let Self { output, .. } = self;
        let is_printed = output.format.is_some() || output.target.output.is_some();
        if !is_printed && !export.has_records() {
            export.store.store = Some(STORE.into());
        }
        export.metrics.metrics.get_or_insert(MetricsPlace::LOOPBACK);
        let store = &mut export.store;
        store.store_age.get_or_insert(STORE_AGE);
        store.store_size.get_or_insert(STORE_MIB);
        export
    }
}

fn names() -> PossibleValuesParser {
    measured().map(|one| one.name).collect::<Vec<_>>().into()
}

/// Those that send nothing.
fn passive() -> Vec<&'static str> {
    let passive = measured().filter(|one| !one.is_active);
    passive.map(|one| one.name).collect()
}
