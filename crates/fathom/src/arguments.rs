//! The command line. Every option is declared here, once: flags, environment, configuration file, help, manual and completions derive
//! from it.

#[cfg(feature = "live")]
mod balance;
mod export;
#[cfg(feature = "live")]
mod hops;
mod ipfix;
#[cfg(feature = "live")]
mod profile;
mod response;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use fathom_measure::Selection;
use fathom_measure::rtt::{GroupBy, Method};
use fathom_record::{Network, Protocol};

use crate::output::OutputFormat;
#[cfg(feature = "live")]
pub(crate) use balance::{BalanceAction, BalanceArguments};
pub(crate) use export::{ExportArguments, TemplateName};
#[cfg(feature = "live")]
pub(crate) use hops::{HopsArguments, HopsFormat, RateMode};
pub(crate) use ipfix::{DumpArguments, DumpFormat, IpfixCommand, ListenAddress};
#[cfg(feature = "live")]
pub(crate) use profile::{Anonymity, ProbeSetName, ProfileArguments};
pub(crate) use response::{ResponseArguments, ResponsesBy};

/// Measures where the latency of real traffic comes from.
#[derive(Debug, Parser)]
#[command(
    name = "fathom",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Arguments {
    /// Take options from a TOML file: long names as keys, in a table named like the command; options and environment come first.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure round-trip times from existing packets, on live interfaces or in capture files.
    ///
    /// TCP by its timestamps or sequence numbers and its handshake, QUIC by its spin bit and its handshake, ICMP echo, and DNS: every
    /// packet that must be answered is matched with its answer. Nothing is sent. A round-trip time is the one between the point of
    /// observation and the destination of the flow it is reported for.
    #[command(
        override_usage = "fathom rtt [OPTIONS] -i INTERFACE...\n       fathom rtt [OPTIONS] FILE..."
    )]
    Rtt(Box<RttArguments>),
    /// Measure what clients wait for responses, from the packets of clients alone.
    ///
    /// A client sends its next request when it has the response to the last: the pauses between its packets tell how long it waited. Nothing of the
    /// server needs to pass here, and nothing needs to be readable. For each flow and epoch there is a latency, with how sure it is, or the reason why there is
    /// none.
    #[command(
        override_usage = "fathom response [OPTIONS] -i INTERFACE...\n       fathom response [OPTIONS] FILE..."
    )]
    Response(Box<ResponseArguments>),
    /// Measure every router on the path of live flows, from inside them.
    ///
    /// While an application talks, headers of its own packets are sent once more with a low TTL, so that the routers on the very path of that flow
    /// answer. The application's packets are left alone, and no probe can reach an application.
    #[cfg(feature = "live")]
    #[command(override_usage = "fathom hops [OPTIONS] -i INTERFACE... [-- COMMAND...]")]
    Hops(Box<HopsArguments>),
    /// Profile the TCP and MPTCP connections of this host, from its own stack.
    ///
    /// Each connection is told of at the moments that matter: when it is established, when it stalls on a retransmission timeout and recovers from it, when
    /// it closes, and now and then in between. A profile says what the connection did since the one before.
    #[cfg(feature = "live")]
    Profile(Box<ProfileArguments>),
    /// Balance the connections of clients over servers, by what the clients wait for them.
    ///
    /// Packets to the services of the configuration file go to servers, which answer the clients themselves. What clients wait is measured on their own
    /// packets, and weight moves away from servers that are slow. Forwarding outlives the process: the next one takes it over, `stop` ends it.
    #[cfg(feature = "live")]
    #[command(
        override_usage = "fathom balance [OPTIONS] --config FILE\n       fathom balance [--config FILE] status|drain|weight|stop"
    )]
    Balance(Box<BalanceArguments>),
    /// Work with the records that exporters send by IPFIX (RFC 7011).
    #[command(subcommand)]
    Ipfix(IpfixCommand),
    /// Say what can be measured with this kernel, these privileges and this machine, and what to do about the rest.
    ///
    /// A row is `ok`; `note` where something works, but not as well as it could, or is not needed by every use; `no` where a measurement does not
    /// work. The exit status is 1 if any row says `no`.
    Doctor(DoctorArguments),
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the reference of all records, in Markdown.
    #[cfg(feature = "live")]
    #[command(hide = true)]
    Reference,
    /// Write the manual pages.
    #[command(hide = true)]
    Man {
        /// The directory to write them into, which exists.
        directory: PathBuf,
    },
}

/// Options of `fathom doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// How to print.
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) format: PrintFormat,
}

/// How records are printed that are no samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrintFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
    /// Comma-separated values: a table of one kind of record.
    Csv,
}

impl From<PrintFormat> for OutputFormat {
    fn from(format: PrintFormat) -> Self {
        match format {
            PrintFormat::Text => Self::Text,
            PrintFormat::Json => Self::Json,
            PrintFormat::Csv => Self::Csv,
        }
    }
}

/// Options of `fathom rtt`.
#[derive(Debug, Args)]
pub(crate) struct RttArguments {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Threads that work on a capture file, 1 or 2: with 2 one reads ahead while the other measures; the samples stay the same.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) threads: u8,
    /// Print a configuration file that holds the defaults, and end.
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

/// Where packets come from, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Capture files: pcap or pcapng, also compressed by gzip or zstd; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Measure on this interface: a name, a pattern as in 'veth*', or `any`; give it several times for several.
    ///
    /// Interfaces that go are waited for, and patterns take those that come. `any` takes all that carry Ethernet or IP, the loopback interface too,
    /// but none whose packets others show anyway: of a bridge its ports, of a bond the whole, and no VLAN, MACVLAN or IFB.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Take packets that arrive at XDP, before receive offload merges them; live only.
    #[arg(long)]
    pub(crate) xdp: bool,
    /// Stop after this time, as in 15s or 2m; by default at Ctrl-C; live only.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
}

/// Which packets are measured of a flow.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// The methods to use, of timestamp, sequence, handshake, echo, spin and dns; by default all.
    ///
    /// A TCP connection whose packets carry timestamps is measured by them if `timestamp` is among the methods, else by `sequence`.
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    pub(crate) method: Vec<Method>,
    /// Time between the packets of one direction of a flow that are measured; 0 measures every one; by default 100ms live, 0 in files.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) sample_interval: Option<Duration>,
    /// Samples per smoothed round trip and direction, at most; 0 is no limit; by default 4 live, 0 in files and with `--sample-interval 0`.
    #[arg(long, value_name = "COUNT")]
    pub(crate) per_rtt: Option<u32>,
    /// Measure towards this machine's own addresses too, and so the delay of its own stack; live only.
    #[arg(long)]
    pub(crate) near_side: bool,
    /// Do not look into tunnels (GRE, ERSPAN, VXLAN, Geneve, GTP-U, IP in IP): the flow is then the outermost, not the innermost.
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

/// Which ends traffic has that is measured.
#[derive(Debug, Args)]
pub(crate) struct Ends {
    /// Only traffic with an end in one of these networks, as in 10.0.0.0/8; at most 16; by default all.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) net: Vec<Network>,
    /// No traffic with an end in any of these networks; at most 16; by default none.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub(crate) not_net: Vec<Network>,
    /// Only traffic with one of these ports at an end; at most 16; by default all.
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub(crate) port: Vec<u16>,
}

impl Ends {
    /// What the measurement takes.
    pub(crate) fn selection(&self, protocols: &[Protocol]) -> Selection {
        Selection {
            networks: self.net.clone(),
            excluded: self.not_net.clone(),
            ports: self.port.clone(),
            protocols: protocols.to_vec(),
        }
    }
}

/// Figures of intervals in place of single samples.
#[derive(Debug, Args)]
#[command(next_help_heading = "Aggregation")]
pub(crate) struct AggregationArguments {
    /// Print no samples, but at the end of every such interval its counts and percentiles; at least 10ms; by default off.
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// What to put together with --interval.
    #[arg(long, value_enum, default_value = "flow", value_name = "WHAT")]
    pub(crate) by: By,
    #[command(flatten)]
    pub(crate) prefixes: Prefixes,
}

/// How large networks are that are put together.
#[derive(Debug, Args)]
pub(crate) struct Prefixes {
    /// Bits of an IPv4 network with --by network, 0 to 32.
    #[arg(long, value_name = "BITS", default_value_t = 24, value_parser = clap::value_parser!(u8).range(0..=32))]
    pub(crate) prefix_v4: u8,
    /// Bits of an IPv6 network with --by network, 0 to 128.
    #[arg(long, value_name = "BITS", default_value_t = 48, value_parser = clap::value_parser!(u8).range(0..=128))]
    pub(crate) prefix_v6: u8,
}

/// What is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The samples of a flow, each direction on its own.
    Flow,
    /// Those towards a network.
    Network,
    /// Those of a VLAN.
    Vlan,
    /// Those of an interface or capture file.
    Interface,
}

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Flow => Self::Flow,
            By::Network => Self::Network,
            By::Vlan => Self::Vlan,
            By::Interface => Self::Interface,
        }
    }
}

/// What is printed, how and where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Also print when flows open and close, why, and what they carried.
    #[arg(long)]
    pub(crate) events: bool,
    /// How to print; by default text, live on a terminal a table that refreshes, and nothing with --export.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<OutputFormat>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where records go, and who observed what they tell.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Append to this file in place of standard output; it is opened anew at SIGHUP. With --format csv, records of other kinds go to files of their own
    /// beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The name of this host in records; by default the host's own.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
}

/// Bounds of memory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct Bounds {
    /// Flows with state at the same time, at most; the least recently used goes; by default 65536 live, 16384 live with --sample-interval 0, 1048576 in files.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(64..=67_108_864))]
    pub(crate) flows: Option<u32>,
    /// Memory for the state of flows, as in 64M: lowers --flows to what fits; at least 64K; by default no bound but --flows.
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(crate) max_memory: Option<u64>,
}

/// Reads `100ms`, `5s`, `1m 30s`, or `0`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as in 100ms, 5s or 2m"))
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be more than 0".to_owned()),
        time => Ok(time),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    match duration(text)? {
        time if time < LEAST => Err("it must be at least 10ms".to_owned()),
        time => Ok(time),
    }
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

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("5").is_err());
        assert!(positive_duration("0s").is_err());
        assert!(interval("1ms").is_err());
    }
}
