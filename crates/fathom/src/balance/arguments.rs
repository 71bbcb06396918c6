//! Options of `fathom balance`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::arguments::{ExportArguments, OutputTarget, interval, positive_duration};
use crate::ipfix::DumpFormat;
use crate::output::OutputFormat;

/// Options of `fathom balance`.
#[derive(Debug, Args)]
pub(crate) struct BalanceArguments {
    /// What to do with a balancer that runs; by default one is run.
    #[command(subcommand)]
    pub(crate) action: Option<BalanceAction>,
    /// End the process after this time, as in 15s or 2m; by default at Ctrl-C. Forwarding goes on.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Serve figures for Prometheus at this address, as in 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Print how each server stands so often, and what was measured of it; what changes is printed
    /// at once.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Check the configuration file, and end.
    #[arg(long)]
    pub(crate) check: bool,
    /// Print a configuration file that holds the defaults, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// How to print; by default text, or not at all with --export.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<OutputFormat>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

/// What to do with a balancer that runs. Its socket, and its pins, are those of the file named with
/// --config, or the defaults.
#[derive(Debug, Subcommand)]
pub(crate) enum BalanceAction {
    /// Say how services and servers stand: weights, latencies, health, connections, counts.
    Status {
        /// How to print.
        #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
        format: DumpFormat,
    },
    /// Give a server no new connections; those that it has, it keeps.
    Drain {
        /// The server, by its name.
        server: String,
        /// Give it new connections again.
        #[arg(long)]
        undo: bool,
        /// How to print what was done: a sentence, or how the server stands.
        #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
        format: DumpFormat,
    },
    /// Give a server another weight than the configured one.
    Weight {
        /// The server, by its name.
        server: String,
        /// The weight, from 0.001 to 1000, or `default` for that which is configured.
        weight: String,
        /// How to print what was done: a sentence, or how the server stands.
        #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
        format: DumpFormat,
    },
    /// End forwarding, and take away programs, tables and what they hold; connections break.
    Stop,
}
