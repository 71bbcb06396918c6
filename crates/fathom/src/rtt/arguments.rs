//! Options of `fathom rtt`.

use std::time::Duration;

use clap::Args;
use fathom_measure::rtt::{GroupBy, Method};
use fathom_record::Protocol;
use fathom_record::format::Format;

use crate::arguments::{
    Choice, Ends, ExportArguments, IsTyped, Measures, OutputTarget, Prefixes, Source, duration,
    interval, one_of,
};
use crate::output::FORMATS;

/// Options of `fathom rtt`.
#[derive(Debug, Args)]
pub(crate) struct RttArguments {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Threads for a capture file, 1 or 2. With 2, one reads ahead while the other measures; the
    /// samples are the same.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) threads: u8,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error how the interfaces are measured and what is read.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) sampling: Sampling,
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) aggregation: AggregationArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
}

/// Which packets are measured of a flow.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// The methods to use: timestamp, sequence, handshake, echo, spin, dns; by default all.
    ///
    /// A TCP connection with timestamps is measured by them if `timestamp` is among the methods,
    /// and otherwise by `sequence`.
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    pub(crate) method: Vec<Method>,
    /// Time between measured packets of one direction of a flow; 0 measures every packet; by
    /// default 100ms live, 0 in files.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) sample_interval: Option<Duration>,
    /// The most samples per smoothed round trip and direction; 0 is no limit; by default 4 live, 0
    /// in files and with `--sample-interval 0`.
    #[arg(long, value_name = "COUNT")]
    pub(crate) per_rtt: Option<u32>,
    /// Also measure towards this machine's own addresses, which includes the delay of its own
    /// stack; live only.
    #[arg(long)]
    pub(crate) near_side: bool,
    /// Do not look into tunnels (GRE, ERSPAN, VXLAN, Geneve, GTP-U, IP in IP): measure the
    /// outermost flow, not the innermost.
    #[arg(long)]
    pub(crate) no_tunnels: bool,
}

/// Which flows are measured at all.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection, done before any state is touched")]
pub(crate) struct SelectionArguments {
    #[command(flatten)]
    pub(crate) ends: Ends,
    /// Only these protocols: tcp, udp, icmp, icmpv6 or a number; at most 8; by default all.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',')]
    pub(crate) protocol: Vec<Protocol>,
}

/// Figures of intervals in place of single samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "Aggregation")]
pub(crate) struct AggregationArguments {
    /// Print counts and percentiles at the end of every such interval instead of samples; at least
    /// 10ms; by default off.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// What to aggregate by with --interval.
    #[arg(long, default_value = "flow", value_name = "WHAT", value_parser = one_of(&GROUPS))]
    pub(crate) by: GroupBy,
    #[command(flatten)]
    pub(crate) prefixes: Prefixes,
}

/// What is put together.
const GROUPS: [Choice<GroupBy>; 4] = [
    (GroupBy::Flow, "flow", "The flow, each direction by itself"),
    (GroupBy::Network, "network", "The destination's network"),
    (GroupBy::Vlan, "vlan", "The VLAN"),
    (
        GroupBy::Interface,
        "interface",
        "The interface or capture file",
    ),
];

/// What is printed, how and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Also print when flows open and close, why, and their totals.
    #[arg(long)]
    pub(crate) events: bool,
    /// The output format; by default text, live on a terminal a table that refreshes, and no output
    /// with --export.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&RTT_FORMATS))]
    pub(crate) format: Option<RttFormat>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

/// Bounds of memory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct Bounds {
    /// The most flows with state at the same time; those that were not used again are evicted
    /// first; by default 65536 live, 16384 live with --sample-interval 0, 1048576 in files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=67_108_864))]
    pub(crate) flows: Option<u32>,
    /// Memory for the state of flows, such as 64M, which lowers --flows to what fits; at least 64K;
    /// by default only --flows limits it.
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) max_memory: Option<u64>,
}

/// Reads bytes with an optional unit of 1024 to some power, as in `65536`, `64K`, `64M`, `2G`.
fn memory_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 10;
    let unit_at = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err("write it as in 65536, 512K, 64M or 2G".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "write it as in 65536, 512K, 64M or 2G".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes >= LEAST => Ok(bytes),
        Some(_) => Err("it must be at least 64K".to_owned()),
        None => Err("it is more than any machine has".to_owned()),
    }
}

/// How samples are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RttFormat {
    /// As all measurements print.
    Common(Format),
    /// The machine-readable output of pping.
    Ppviz,
}

const RTT_FORMATS: [Choice<RttFormat>; 4] = {
    let [text, json, csv] = FORMATS;
    [
        (RttFormat::Common(text.0), text.1, text.2),
        (RttFormat::Common(json.0), json.1, json.2),
        (RttFormat::Common(csv.0), csv.1, csv.2),
        (
            RttFormat::Ppviz,
            "ppviz",
            "The machine-readable output of pping, for ppviz; samples only",
        ),
    ]
};

impl Measures for RttArguments {
    fn name(&self) -> &'static str {
        super::MEASUREMENT.name
    }

    fn prints_config(&self) -> bool {
        self.print_config
    }

    fn settle(&mut self, is_typed: &IsTyped<'_>) -> Result<(), String> {
        let live_only = ["xdp", "duration", "near_side"];
        self.source.settle(&live_only, &[], is_typed)?;
        let format = self.output.format;
        if format == Some(RttFormat::Ppviz) && self.aggregation.interval.is_some() {
            return Err(
                "ppviz shows single samples: leave --interval or --format ppviz out".to_owned(),
            );
        }
        let beside = self.output.events.then_some("events");
        let target = &self.output.target;
        target.settle_table(format == Some(RttFormat::Common(Format::Csv)), beside)
    }

    fn run(&self) -> anyhow::Result<()> {
        super::run(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(memory_size("65536"), Ok(65_536));
        assert_eq!(memory_size("64M"), Ok(64 << 20));
        assert_eq!(memory_size("2gib"), Ok(2 << 30));
        for absurd in ["", "M", "64X", "-1M", "1K", "99999999999999G", "1.5G"] {
            assert!(memory_size(absurd).is_err(), "{absurd}");
        }
    }
}
