//! Options of `fathom hops`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use fathom_measure::hops::{Options, Settings};
use fathom_record::format::Format;
use fathom_record::{Network, Protocol};

use super::own::{AddressFamily, Target};
use crate::arguments::{
    Choice, ExportArguments, IsTyped, Measures, OutputTarget, interval, one_of, positive_duration,
    typed,
};
use crate::output::LINE_FORMATS;

/// Probes to each router that a report is made of, as mtr's.
const REPORT_COUNT: u64 = 10;

/// Options of `fathom hops`.
#[derive(Debug, Args)]
pub(crate) struct HopsArguments {
    /// Probe flows that leave by this interface: a name, a pattern such as 'ppp*', or `any`; can be
    /// repeated.
    ///
    /// An interface that disappears is probed again when it is back, and a pattern also takes
    /// interfaces that come later. `any` takes all that carry Ethernet or IP, except the loopback
    /// interface. It leaves out those whose packets others show anyway: a bridge (its ports are
    /// taken), ports of a bond, VLANs, MACVLANs and IFBs.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    /// Run this command, probe its flows, and stop when it ends. Its output goes to standard error.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    /// Stop after this time, such as 15s or 2m; by default at Ctrl-C.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Stop when a flow has had so many probes to each router that answers; with a destination,
    /// when that has had as many packets, too. With --report 10 by default.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Print a configuration file with the defaults, then exit.
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Say on standard error how the interfaces are probed.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) selection: HopsSelection,
    #[command(flatten)]
    pub(crate) probing: ProbingArguments,
    #[command(flatten)]
    pub(crate) output: HopsOutput,
    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

/// Whom a connection is opened to.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    /// Open a connection to this host, to port 443 by default, and probe it alone.
    ///
    /// The connection carries no data, but a keep-alive each second, by which the destination is
    /// measured. If no address of the host takes it, echo requests are sent instead, one each
    /// second. Each hop has one probe a second, if --rate does not say otherwise. The interface is
    /// that of the route.
    #[arg(value_name = "HOST[:PORT]", value_parser = Target::parse, conflicts_with = "command")]
    pub(crate) destination: Option<Target>,
    /// Take an address of IPv4.
    #[arg(short = '4', long, requires = "destination", conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Take an address of IPv6.
    #[arg(short = '6', long, requires = "destination")]
    pub(crate) ipv6: bool,
}

/// Which flows are probed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct HopsSelection {
    /// Only flows whose far end is in one of these networks, such as 203.0.113.0/24; at most 16; by
    /// default all.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) net: Vec<Network>,
    /// No flows whose far end is in any of these networks; at most 16; by default none.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) not_net: Vec<Network>,
    /// Only flows with one of these ports at an end; at most 16; by default all.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
    /// Only these protocols: tcp, udp, icmp or icmpv6; by default all.
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',', value_parser = protocol)]
    pub(crate) protocol: Vec<Protocol>,
    /// Only flows of processes with this name (its first 15 bytes, as `ps -o comm` shows it); with
    /// a command, only of processes that it runs.
    #[arg(long, value_name = "NAME")]
    pub(crate) process: Option<String>,
    /// Only flows of sockets in this control group or below it: a folder of the version 2
    /// hierarchy.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cgroup: Option<PathBuf>,
}

impl HopsSelection {
    fn is_empty(&self) -> bool {
        self.net.is_empty()
            && self.not_net.is_empty()
            && self.port.is_empty()
            && self.protocol.is_empty()
            && self.process.is_none()
            && self.cgroup.is_none()
    }
}

/// How flows are probed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Probing")]
pub(crate) struct ProbingArguments {
    /// Probes a second to each router, by all flows through it together, from 0.1 to 100; by
    /// default fewer than one for a hundred packets.
    ///
    /// By default one flow to each destination is probed for all, and flows that live for 5 s are
    /// probed themselves. Each hop gets one probe a second at first, and up to 10 while answers
    /// keep coming. All probes together are fewer than one for a hundred packets, or two a second
    /// where that is more.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// What --rate counts.
    #[arg(long, value_enum, default_value = "per-hop", value_name = "MODE")]
    pub(crate) rate_mode: RateMode,
    /// The most routers to look for on a path.
    #[arg(long, value_name = "COUNT", default_value_t = Settings::default().highest_ttl, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) max_hops: u8,
    /// A probe without an answer for this time is lost; at most 9s.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::default().timeout), value_parser = timeout)]
    pub(crate) timeout: Duration,
    /// How long to go on probing a flow whose application is silent; 0 stops at once.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::default().idle), value_parser = crate::arguments::duration)]
    pub(crate) idle: Duration,
    /// The most probes a second in all.
    #[arg(long, value_name = "RATE", default_value_t = Options::default().budget, value_parser = clap::value_parser!(u32).range(1..=3000))]
    pub(crate) budget: u32,
    /// The most probes a second to one destination.
    #[arg(long, value_name = "RATE", default_value_t = Options::default().destination_budget, value_parser = clap::value_parser!(u32).range(1..=3000))]
    pub(crate) budget_per_destination: u32,
    /// Send probes as long as the application's packets where a router is known to stop them;
    /// elsewhere send headers alone.
    #[arg(long)]
    pub(crate) full_size: bool,
    /// Let the function `fathom_edit` in this BPF object edit each probe that a router is known to
    /// stop.
    #[arg(long, value_name = "FILE")]
    pub(crate) probe_program: Option<PathBuf>,
    /// Let the function `fathom_extract` in this BPF object take eight bytes out of each answer,
    /// for the field `extracted`.
    #[arg(long, value_name = "FILE")]
    pub(crate) reply_program: Option<PathBuf>,
    /// Let this host see the answers to probes, which it otherwise does not.
    #[arg(long)]
    pub(crate) keep_icmp: bool,
}

/// What the rate is the rate of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RateMode {
    /// The probes to each router, by all flows through it.
    PerHop,
    /// The probes to all hops of a flow together.
    Global,
}

/// What is printed, how and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct HopsOutput {
    /// Time between summaries of the hops; at least 10ms.
    #[arg(long, value_name = "TIME", default_value = typed(Settings::default().interval), value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print a table of all paths at the end, as `mtr --report` does, and nothing else.
    #[arg(long, conflicts_with_all = ["format", "each_probe"])]
    pub(crate) report: bool,
    /// Also print every probe.
    #[arg(long)]
    pub(crate) each_probe: bool,
    /// Print the DNS names of routers.
    #[arg(long)]
    pub(crate) names: bool,
    /// Print the autonomous system numbers of routers, from a file in the format of `MaxMind`, such
    /// as `GeoLite2-ASN.mmdb`.
    #[arg(long, value_name = "FILE")]
    pub(crate) asn: Option<PathBuf>,
    /// The output format; by default text, and on a terminal a table that refreshes, unless a
    /// command uses the terminal.
    #[arg(long, value_name = "FORMAT", value_parser = one_of(&HOPS_FORMATS))]
    pub(crate) format: Option<HopsFormat>,
    #[command(flatten)]
    pub(crate) target: OutputTarget,
}

/// How hops are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HopsFormat {
    /// As all measurements print.
    Common(Format),
    /// Every probe in the columns of ELF.
    Elf,
    /// The graph of all paths.
    Dot,
}

const HOPS_FORMATS: [Choice<HopsFormat>; 4] = {
    let [text, json] = LINE_FORMATS;
    [
        (HopsFormat::Common(text.0), text.1, text.2),
        (HopsFormat::Common(json.0), json.1, json.2),
        (HopsFormat::Elf, "csv", "Every probe in the columns of ELF"),
        (
            HopsFormat::Dot,
            "dot",
            "At the end, the graph of all paths for Graphviz: how many flows take an edge, and by \
             how much the median round trip grows there",
        ),
    ]
};

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=100.0).contains(&rate) => Ok(rate),
        _ => Err("write a number from 0.1 to 100".to_owned()),
    }
}

/// Probes have a form for these alone.
fn protocol(text: &str) -> Result<Protocol, String> {
    let probed = [
        Protocol::TCP,
        Protocol::UDP,
        Protocol::ICMP,
        Protocol::ICMPV6,
    ];
    match text.parse() {
        Ok(protocol) if probed.contains(&protocol) => Ok(protocol),
        _ => Err("the protocols that are probed are tcp, udp, icmp and icmpv6".to_owned()),
    }
}

/// The kernel forgets probes after 10 s.
fn timeout(text: &str) -> Result<Duration, String> {
    match positive_duration(text)? {
        time if time > Duration::from_secs(9) => Err("it must be at most 9s".to_owned()),
        time => Ok(time),
    }
}

impl HopsArguments {
    /// The addresses that the user wants.
    pub(super) fn family(&self) -> Option<AddressFamily> {
        match (self.target.ipv4, self.target.ipv6) {
            (true, _) => Some(AddressFamily::V4),
            (_, true) => Some(AddressFamily::V6),
            _ => None,
        }
    }

    /// After so many probes to each router the user has seen enough.
    pub(super) fn goal(&self) -> Option<u64> {
        let of_report = self.output.report && self.duration.is_none();
        self.count.or(of_report.then_some(REPORT_COUNT))
    }
}

impl Measures for HopsArguments {
    fn name(&self) -> &'static str {
        super::MEASUREMENT.name
    }

    fn prints_config(&self) -> bool {
        self.print_config
    }

    fn settle(&mut self, _: &IsTyped<'_>) -> Result<(), String> {
        if self.target.destination.is_none() && self.interface.is_empty() {
            let told = "nothing to probe: name a host, or an interface with -i";
            return Err(told.to_owned());
        }
        if self.target.destination.is_some() && !self.selection.is_empty() {
            let told = "a host to connect to selects the flow: name no networks, ports, \
                        protocols, processes or control groups besides";
            return Err(told.to_owned());
        }
        Ok(())
    }

    fn run(&self) -> anyhow::Result<()> {
        super::run(self)
    }
}
