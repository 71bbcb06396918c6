//! Options of `fathom response`.

use std::time::Duration;

use clap::Args;
use fathom_measure::response::{Estimator, GroupBy, Settings};
use fathom_record::format::Format;
use fathom_record::{Network, Protocol};

use crate::arguments::{
    Choice, ExportArguments, IsTyped, Measures, OutputTarget, Prefixes, Source, duration, interval,
    one_of, positive_duration, typed,
};
use crate::output::FORMATS;

/// Options of `fathom response`.
#[derive(Debug, Args)]
pub(crate) struct ResponseArguments {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error how the interfaces are measured and what is read.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) estimation: Estimation,
    #[command(flatten)]
    pub(crate) servers: Servers,
    #[command(flatten)]
    pub(crate) groups: Groups,
    #[command(flatten)]
    pub(crate) output: ResponseOutput,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
    /// The most flows with state at the same time; those that were not used again are evicted
    /// first; by default 65536 live, 1048576 in files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=67_108_864), help_heading = "Bounds")]
    pub(crate) flows: Option<u32>,
}

/// How gaps become a latency.
#[derive(Debug, Args)]
#[command(next_help_heading = "Estimation")]
pub(crate) struct Estimation {
    /// How gaps become a latency: timestamps, acknowledged, split, modes or fixed.
    ///
    /// `timestamps` is `acknowledged` without the clients' think time, which the timestamps that
    /// they echo tell; where they tell nothing, it gives bounds. `acknowledged` takes TCP's
    /// acknowledgements as the sign that a response came, and uses `split` for all else. `split`
    /// separates the modes of a histogram. `modes` and `fixed` are the algorithms 2 and 1 of the
    /// paper.
    #[arg(long, value_name = "ESTIMATOR", default_value_t = Settings::live().estimator)]
    pub(crate) estimator: Estimator,
    /// The length of an epoch, 100ms to 10s. Each flow has one estimate an epoch.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::live().epoch), value_parser = epoch)]
    pub(crate) epoch: Duration,
    /// With `--estimator fixed`: a longer gap begins a batch.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::live().threshold), value_parser = positive_duration)]
    pub(crate) threshold: Duration,
    /// A longer gap is a retransmission timeout or silence; it is counted and left out.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::live().timeout), value_parser = positive_duration)]
    pub(crate) timeout: Duration,
    /// Also report TCP flows at once whose last request has been unanswered for this time, and
    /// again whenever that time has doubled; live only.
    #[arg(long, value_name = "TIME", value_parser = wait)]
    pub(crate) waiting: Option<Duration>,
    /// Print beside each latency what the server's packets say, if the capture has them; files
    /// only.
    #[arg(long)]
    pub(crate) compare: bool,
}

/// Which flows are measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection, done before any state is touched")]
pub(crate) struct Servers {
    /// Only requests to servers in these networks, such as 10.0.0.0/8; at most 16; by default all.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) net: Vec<Network>,
    /// Only requests to these ports; at most 16; by default all. A SYN tells which end is the
    /// server, else the end with the lower port is.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
    /// No traffic with an end in any of these networks; at most 16; by default none.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) not_net: Vec<Network>,
    /// Only these protocols: tcp, udp, esp or a number; at most 8; by default all.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',')]
    pub(crate) protocol: Vec<Protocol>,
    /// Only a part of the flows, chosen by a hash of their ends, such as 1/8; by default all.
    #[arg(long, value_name = "1/COUNT", default_value = "1/1", value_parser = part)]
    pub(crate) flows_sampled: u32,
    /// Do not look into tunnels (GRE, ERSPAN, VXLAN, Geneve, GTP-U, IP in IP): measure the
    /// outermost flow, not the innermost.
    #[arg(long)]
    pub(crate) no_tunnels: bool,
}

/// Figures of many flows in place of single ones.
#[derive(Debug, Args)]
#[command(next_help_heading = "Aggregation")]
pub(crate) struct Groups {
    /// What to aggregate by; with `flow`, each epoch of each flow is printed.
    #[arg(long, default_value = "flow", value_name = "WHAT", value_parser = one_of(&GROUPS))]
    pub(crate) by: By,
    /// With --by, the time between the counts and percentiles of each group; at least 10ms.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) prefixes: Prefixes,
}

/// What is put together, if anything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By(pub(crate) Option<GroupBy>);

const GROUPS: [Choice<By>; 4] = [
    (By(None), "flow", "No aggregation: each epoch of each flow"),
    (
        By(Some(GroupBy::Server)),
        "server",
        "The address of the server",
    ),
    (
        By(Some(GroupBy::Service)),
        "service",
        "The address and port of the server",
    ),
    (
        By(Some(GroupBy::Network)),
        "network",
        "The network of the clients",
    ),
];

/// What is printed, how and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResponseOutput {
    /// The output format; by default text, and live on a terminal a table that refreshes.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

fn epoch(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(100) || time > Duration::from_secs(10) => {
            Err("it must be from 100ms to 10s".to_owned())
        }
        time => Ok(time),
    }
}

/// Looked for four times in so long.
fn wait(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time < Duration::from_millis(10) => Err("it must be 10ms at least".to_owned()),
        time => Ok(time),
    }
}

/// Reads `1/8`.
fn part(text: &str) -> Result<u32, String> {
    let count = text.strip_prefix("1/").and_then(|count| count.parse().ok());
    count
        .filter(|&count| (1..=1_000_000).contains(&count))
        .ok_or_else(|| "write it as in 1/8; the least part is 1/1000000".to_owned())
}

impl Measures for ResponseArguments {
    fn name(&self) -> &'static str {
        super::MEASUREMENT.name
    }

    fn prints_config(&self) -> bool {
        self.print_config
    }

    fn settle(&mut self, is_typed: &IsTyped<'_>) -> Result<(), String> {
        let live_only = ["xdp", "duration", "waiting"];
        let is_csv = self.output.format == Some(Format::Csv);
        let beside = self.estimation.waiting.is_some().then_some("waiting");
        self.output.target.settle_table(is_csv, beside)?;
        self.source.settle(&live_only, &["compare"], is_typed)
    }

    fn run(&self) -> anyhow::Result<()> {
        super::run(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_epochs_have_bounds() {
        assert_eq!(part("1/8"), Ok(8));
        for absurd in ["8", "1/0", "2/8", "1/x", "1/10000000"] {
            assert!(part(absurd).is_err(), "{absurd}");
        }
        assert_eq!(epoch("100ms"), Ok(Duration::from_millis(100)));
        assert!(epoch("50ms").is_err());
        assert!(epoch("11s").is_err());
    }
}
