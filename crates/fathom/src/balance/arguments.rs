//! Options of `fathom balance`.

use std::time::Duration;

use clap::{Args, Subcommand};
use fathom_record::format::Format;

use crate::arguments::{ExportArguments, OutputTarget, interval, one_of, positive_duration};
use crate::output::{FORMATS, LINE_FORMATS};

/// Options of `fathom balance`.
#[derive(Debug, Args)]
pub(crate) struct BalanceArguments {
    /// What to do with a running balancer; by default, run one.
    #[command(subcommand)]
    pub(crate) action: Option<BalanceAction>,
    /// End the process after this time, such as 15s or 2m; by default at Ctrl-C. Forwarding goes
    /// on.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Time between reports of each server's state and latency; changes are printed at once.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Check the configuration file, then exit.
    #[arg(long)]
    pub(crate) check: bool,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// The output format; by default text, or no output with --export.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

/// What to do with a running balancer. Its socket and its pins are those of the file given with
/// --config, or the defaults.
#[derive(Debug, Subcommand)]
pub(crate) enum BalanceAction {
    /// Print the state of services and servers: weights, latencies, health, connections, counts.
    Status {
        /// The output format.
        #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
        format: Format,
    },
    /// Give a server no new connections; it keeps those that it has.
    Drain {
        /// The name of the server.
        server: String,
        /// Give it new connections again.
        #[arg(long)]
        undo: bool,
        /// The output format: a sentence, or the state of the server as JSON.
        #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
        format: Format,
    },
    /// Give a server another weight than the configured one.
    Weight {
        /// The name of the server.
        server: String,
        /// The weight, from 0.001 to 1000, or `default` for the configured one.
        weight: String,
        /// The output format: a sentence, or the state of the server as JSON.
        #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&LINE_FORMATS))]
        format: Format,
    },
    /// Stop forwarding, and remove programs and tables with their contents; connections break.
    Stop,
}
