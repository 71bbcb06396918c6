//! Options of `fathom agent`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use fathom_record::format::Format;

use super::capture::End;
use super::measured;
use super::record::Label;
use crate::arguments::{
    ExportArguments, MetricsPlace, OutputTarget, interval, one_of, positive_duration,
};
use crate::output::LINE_FORMATS;

/// Options of `fathom agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArguments {
    /// What to do with the agent that runs; by default, run one.
    #[command(subcommand)]
    pub(crate) action: Option<AgentAction>,
    /// Measure on this interface: a name, a pattern such as 'veth*', or `any`; can be repeated; by
    /// default that of the default route.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// What to measure; can be repeated. `hops` is the only one that sends packets.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = passive(), value_parser = names())]
    pub(crate) measure: Vec<String>,
    /// Each flow has a record of each measurement at the end of every such interval in which there
    /// was something to measure; at least 10ms. Intervals are up to six times longer while more
    /// than 5000 records come a second.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// What this host is called besides, such as `site=ber1`; can be repeated. Queries have it in
    /// the view `labels`, metrics in `target_info`.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    pub(crate) label: Vec<Label>,
    /// Stop after this time, such as 15s or 2m; by default at SIGTERM or Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Where `status`, `reload` and `capture` reach the agent; only its owner may use it.
    #[arg(long, value_name = "FILE", default_value = SOCKET)]
    pub(crate) socket: PathBuf,
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

/// What to do with an agent that runs.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentAction {
    /// Print what is measured, what was counted, and what became of records.
    Status {
        /// The output format.
        #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
        format: Format,
    },
    /// Read the configuration file again, as at SIGHUP. Measuring goes on meanwhile; a file that is
    /// wrong changes nothing.
    Reload,
    /// Print each round-trip time and each epoch of flows for a time; the agent also keeps them.
    Capture {
        /// An end of the flows, or both: `ADDRESS:PORT`, an address, or a network such as
        /// 10.1.0.0/16.
        #[arg(value_name = "END", required = true, num_args = 1..=2)]
        end: Vec<End>,
        /// Stop after this time, at most an hour, or at Ctrl-C.
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = capture_duration)]
        duration: Duration,
        /// The output format.
        #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
        format: Format,
    },
}

fn capture_duration(text: &str) -> Result<Duration, String> {
    match positive_duration(text)? {
        time if time > MOST_CAPTURED => Err("it must be at most 1h".to_owned()),
        time => Ok(time),
    }
}

/// Where records go.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct AgentOutput {
    /// The output format; by default text, or no output with --export or --store.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

/// Where packages and systemd put the sockets of services.
pub(super) const SOCKET: &str = "/run/fathom/agent.sock";
const MOST_CAPTURED: Duration = Duration::from_secs(3600);
/// Where packages and systemd put what services keep.
const STORE: &str = "/var/lib/fathom";
const SPOOL: &str = "/var/lib/fathom-spool";
/// An agent runs for months: what it keeps is bounded.
const STORE_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
const STORE_MIB: u64 = 10_240;
/// And after a few days nobody asks what happened in which 10 s.
const STORE_MINUTES: Duration = Duration::from_secs(2 * 24 * 3600);
const STORE_HOURS: Duration = Duration::from_secs(14 * 24 * 3600);

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
        export.spool.get_or_insert(SPOOL.into());
        export.metrics.metrics.get_or_insert(MetricsPlace::LOOPBACK);
        let store = &mut export.store;
        store.store_age.get_or_insert(STORE_AGE);
        store.store_size.get_or_insert(STORE_MIB);
        store.store_minutes.get_or_insert(STORE_MINUTES);
        store.store_hours.get_or_insert(STORE_HOURS);
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
