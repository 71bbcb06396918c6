//! Options of `fathom traffic`.

use std::time::Duration;

use clap::Args;
use fathom_measure::Scope;
use fathom_measure::traffic::{Settings, TrafficRecord};
use fathom_record::Protocol;
use fathom_record::format::Format;

use crate::arguments::{
    Ends, ExportArguments, IsTyped, Measures, OutputTarget, Source, interval, one_of,
};
use crate::output::{FORMATS, LineOptions};

/// Options of `fathom traffic`.
#[derive(Debug, Args)]
pub(crate) struct TrafficArguments {
    #[command(flatten)]
    pub(crate) source: Source,
    /// There is a record of each flow at the end of every such interval in which it had packets; at
    /// least 10ms.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print a configuration file that holds the defaults, and end.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error how the interfaces are measured and what is read.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) selection: TrafficSelection,
    #[command(flatten)]
    pub(crate) output: TrafficOutput,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
    /// Flows with state at the same time; those that were not used again go first; by default 65536
    /// live, 1048576 in files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=67_108_864), help_heading = "Bounds")]
    pub(crate) flows: Option<u32>,
}

/// Which flows are measured at all.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection, done before any state is touched")]
pub(crate) struct TrafficSelection {
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// Only these protocols: tcp, udp, icmp, icmpv6 or a number; at most 8; by default all.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',')]
    pub(crate) protocol: Vec<Protocol>,
    /// Do not look into tunnels (GRE, ERSPAN, VXLAN, Geneve, GTP-U, IP in IP): the flow is then the
    /// outermost, not the innermost.
    #[arg(long)]
    pub(crate) no_tunnels: bool,
}

/// What is printed, how and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct TrafficOutput {
    /// How to print; by default text, live on a terminal a table that refreshes, and nothing with
    /// --export.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

impl TrafficArguments {
    /// What the measurement takes.
    pub(super) fn settings(&self, defaults: &Settings) -> Settings {
        Settings {
            scope: Scope {
                selection: self.selection.ends.selection(&self.selection.protocol),
                has_tunnels: !self.selection.no_tunnels,
                flows: self.flows.unwrap_or(defaults.scope.flows),
            },
        }
    }

    /// Where records go.
    pub(super) fn line_options(&self) -> LineOptions<'_> {
        LineOptions {
            target: &self.output.target,
            export: &self.export,
            format: self.output.format,
            formatter: None,
            main: TrafficRecord::SCHEMA,
        }
    }
}

impl Measures for TrafficArguments {
    fn name(&self) -> &'static str {
        super::MEASUREMENT.name
    }

    fn prints_config(&self) -> bool {
        self.print_config
    }

    fn settle(&mut self, is_typed: &IsTyped<'_>) -> Result<(), String> {
        self.source.settle(&["xdp", "duration"], &[], is_typed)
    }

    fn run(&self) -> anyhow::Result<()> {
        super::run(self)
    }
}
