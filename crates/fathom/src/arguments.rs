//! The command line. Every option is declared here, once: flags, environment, configuration file,
//! help, manual and completions derive from it.

mod collector;
mod export;
mod metrics;
mod store;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use fathom_measure::Selection;
use fathom_record::format::Format;
use fathom_record::{Network, Protocol};

#[cfg(feature = "live")]
use crate::agent::AgentArguments;
#[cfg(feature = "live")]
use crate::balance::BalanceArguments;
#[cfg(feature = "live")]
use crate::clickhouse::StoreCommand;
#[cfg(feature = "live")]
use crate::hops::HopsArguments;
use crate::import::ImportArguments;
use crate::ipfix::IpfixCommand;
use crate::output::FORMATS;
#[cfg(feature = "live")]
use crate::profile::ProfileArguments;
use crate::response::ResponseArguments;
use crate::rtt::RttArguments;
use crate::traffic::TrafficArguments;
pub(crate) use collector::{CollectorUrl, ExportTarget};
pub(crate) use export::ExportArguments;
pub(crate) use metrics::{MetricsArguments, MetricsPlace};
pub(crate) use store::StoreArguments;

/// Measures where the latency of real traffic comes from.
#[derive(Debug, Parser)]
#[command(
    name = "fathom",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub(crate) struct Arguments {
    /// Read options from a TOML file: long names are the keys, in a table named like the command.
    /// Options and environment variables take precedence.
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
    /// Every packet that must be answered is matched with its answer: TCP by timestamps, sequence
    /// numbers and handshake, QUIC by spin bit and handshake, ICMP echo, and DNS. Nothing is sent.
    /// A round-trip time is that between the point of observation and the destination of the flow
    /// that it is reported for.
    #[command(
        override_usage = "fathom rtt [OPTIONS] -i INTERFACE...\n       fathom rtt [OPTIONS] FILE..."
    )]
    Rtt(Box<RttArguments>),
    /// Measure how long clients wait for responses, from the packets of clients alone.
    ///
    /// A client sends its next request when it has the response to the last one, so the gaps
    /// between its packets tell how long it waited. The server's packets need not pass here, and
    /// the traffic may be encrypted. Each flow and epoch has a latency and a confidence, or the
    /// reason why there is no latency.
    #[command(
        override_usage = "fathom response [OPTIONS] -i INTERFACE...\n       fathom response [OPTIONS] FILE..."
    )]
    Response(Box<ResponseArguments>),
    /// Measure throughput and loss of flows, both directions, on live interfaces or in capture
    /// files.
    ///
    /// At the end of every interval each flow that had packets is told of: its bytes and packets,
    /// and of TCP what was sent again, what was lost before it came here, and what behind. Other
    /// protocols hide their losses: nothing is said of them.
    #[command(
        override_usage = "fathom traffic [OPTIONS] -i INTERFACE...\n       fathom traffic [OPTIONS] FILE..."
    )]
    Traffic(Box<TrafficArguments>),
    /// Measure every router on the path of live flows, from inside them.
    ///
    /// While an application sends, headers of its packets are sent again with a low TTL. The
    /// routers on the path of that flow answer them. The application's own packets are not changed,
    /// and no probe can reach an application. With a HOST, fathom opens a connection of its own.
    #[cfg(feature = "live")]
    #[command(
        override_usage = "fathom hops [OPTIONS] HOST[:PORT]\n       fathom hops [OPTIONS] -i INTERFACE... [-- COMMAND...]"
    )]
    Hops(Box<HopsArguments>),
    /// Profile the TCP and MPTCP connections of this host, from its own stack.
    ///
    /// Each connection is reported when it is established, when it stalls on a retransmission
    /// timeout and recovers, when it closes, and now and then in between. A profile says what the
    /// connection did since its last profile.
    #[cfg(feature = "live")]
    Profile(Box<ProfileArguments>),
    /// Balance the connections of clients over servers, by how long clients wait for them.
    ///
    /// Packets to the services of the configuration file go to servers, which answer the clients
    /// directly. The clients' packets tell how long they wait, and weight moves away from slow
    /// servers. Forwarding outlives the process: the next process takes it over, and `stop` ends
    /// it.
    #[cfg(feature = "live")]
    #[command(
        override_usage = "fathom balance [OPTIONS] --config FILE\n       fathom balance [--config FILE] status|drain|weight|stop"
    )]
    Balance(Box<BalanceArguments>),
    /// Run several measurements at once, for as long as the host runs.
    ///
    /// Each flow has one record of each measurement and interval; connections have their profiles.
    /// The tables of the measurements in the configuration file say how they measure; where, for
    /// how long and what is printed is said here.
    #[cfg(feature = "live")]
    Agent(Box<AgentArguments>),
    /// Keep the records that agents and exporters send in a store; by `fathom-server`, a program of
    /// its own.
    #[command(disable_help_flag = true)]
    Collect(ServerArguments),
    /// Compare groups of sessions: providers, versions of IP, networks, hosts; by `fathom-server`,
    /// a program of its own.
    #[command(disable_help_flag = true)]
    Compare(ServerArguments),
    /// Fill a store from capture files, with round trips, responses and traffic.
    ///
    /// Each flow has one record of each measurement and interval. Intervals end at multiples of
    /// their length, so records join by `time`, as in the view `flows` of `fathom query`. The
    /// tables of the measurements in the configuration file say how they measure.
    Import(Box<ImportArguments>),
    /// Say where the latency of a flow, a host or a service comes from, by the records of a store;
    /// by `fathom-server`, a program of its own.
    #[command(disable_help_flag = true)]
    Explain(ServerArguments),
    /// Ask the records of a store, in SQL; by `fathom-server`, a program of its own.
    #[command(disable_help_flag = true)]
    Query(ServerArguments),
    /// Show flows, hops, servers and connections of a store on the terminal, as they change; by
    /// `fathom-server`, a program of its own.
    #[command(disable_help_flag = true)]
    Top(ServerArguments),
    /// Show the records of a store in a browser; by `fathom-server`, a program of its own.
    #[command(disable_help_flag = true)]
    Serve(ServerArguments),
    /// Work with stores beyond this machine.
    #[cfg(feature = "live")]
    #[command(subcommand)]
    Store(StoreCommand),
    /// Work with the records that exporters send by IPFIX (RFC 7011).
    #[command(subcommand)]
    Ipfix(IpfixCommand),
    /// Say what can be measured with this kernel, these privileges and this machine, and how to get
    /// the rest.
    ///
    /// A row says `ok`; `note` if something could work better, or is missing but not always needed;
    /// or `no` if a measurement does not work. The exit status is 1 if any row says `no`.
    Doctor(DoctorArguments),
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the reference of all records, or the table of all metrics, in Markdown.
    #[cfg(feature = "live")]
    #[command(hide = true)]
    Reference {
        /// What of.
        #[arg(default_value = "records", value_parser = ["records", "metrics"])]
        of: String,
    },
    /// Write the manual pages.
    #[command(hide = true)]
    Man {
        /// The directory to write them into, which exists.
        directory: PathBuf,
    },
}

/// Was this option typed?
pub(crate) type IsTyped<'a> = dyn Fn(&str) -> bool + 'a;

/// Options of a command that measures.
pub(crate) trait Measures {
    /// The name of the command.
    fn name(&self) -> &'static str;

    /// Is it only to print a configuration?
    fn prints_config(&self) -> bool;

    /// Decides what options mean together, and refuses what cannot be meant.
    ///
    /// # Errors
    /// A sentence for the user.
    fn settle(&mut self, is_typed: &IsTyped<'_>) -> Result<(), String>;

    /// Measures until there is nothing more, or until it is told to stop.
    ///
    /// # Errors
    /// When the measurement cannot begin or fails, or the output cannot be written.
    fn run(&self) -> anyhow::Result<()>;
}

impl Command {
    /// The options of a command that measures.
    pub(crate) fn measurement(&mut self) -> Option<&mut dyn Measures> {
        match self {
            Self::Rtt(options) => Some(&mut **options),
            Self::Response(options) => Some(&mut **options),
            Self::Traffic(options) => Some(&mut **options),
            #[cfg(feature = "live")]
            Self::Hops(options) => Some(&mut **options),
            #[cfg(feature = "live")]
            Self::Profile(options) => Some(&mut **options),
            _ => None,
        }
    }
}

/// What a command of `fathom-server` takes.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Options and arguments of the command: `--help` lists them.
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) arguments: Vec<OsString>,
}

/// Options of `fathom doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// The output format.
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = one_of(&FORMATS))]
    pub(crate) format: Format,
}

/// Where packets come from, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Capture files: pcap or pcapng, also compressed by gzip or zstd; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Measure on this interface: a name, a pattern such as 'veth*', or `any`; can be repeated.
    ///
    /// An interface that disappears is measured again when it is back, and a pattern also takes
    /// interfaces that come later. `any` takes all that carry Ethernet or IP, including the
    /// loopback interface. It leaves out those whose packets others show anyway: a bridge (its
    /// ports are taken), ports of a bond, VLANs, MACVLANs and IFBs.
    #[arg(short, long, value_name = "INTERFACE", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Measure arriving packets at XDP, before receive offload merges them; live only.
    #[arg(long)]
    pub(crate) xdp: bool,
    /// Stop after this time, such as 15s or 2m; by default at Ctrl-C; live only.
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,
}

impl Source {
    /// Decides between capture files and interfaces.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn settle(
        &mut self,
        live_only: &[&'static str],
        files_only: &[&'static str],
        is_typed: &IsTyped<'_>,
    ) -> Result<(), String> {
        let named = |option: &&str| option.replace('_', "-");
        let find =
            |options: &[&'static str]| options.iter().find(|option| is_typed(option)).map(named);
        if self.files.is_empty() {
            if self.interface.is_empty() {
                return Err(
                    "nothing to measure: name capture files, or an interface with -i".to_owned(),
                );
            }
            return match find(files_only) {
                Some(option) => Err(format!(
                    "--{option} is for capture files: leave it out with interfaces"
                )),
                None => Ok(()),
            };
        }
        if is_typed("interface") {
            return Err(
                "capture files and interfaces cannot be measured together: name one or the other"
                    .to_owned(),
            );
        }
        if let Some(option) = find(live_only) {
            return Err(format!(
                "--{option} is for live interfaces: leave it out with capture files"
            ));
        }
        // Those of the environment or the configuration file stand back behind files that were
        // typed.
        self.interface.clear();
        Ok(())
    }
}

/// Which ends traffic has that is measured.
#[derive(Debug, Args)]
pub(crate) struct Ends {
    /// Only traffic with an end in one of these networks, such as 10.0.0.0/8; at most 16; by
    /// default all.
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

/// Where records go, and who observed what they tell.
#[derive(Debug, Clone, PartialEq, Default, Args)]
pub(crate) struct OutputTarget {
    /// Append to this file instead of standard output; SIGHUP reopens it. With --format csv,
    /// records of other kinds go to their own files beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The name of this host in records; by default its host name.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
}

impl OutputTarget {
    /// A CSV table on standard output cannot hold the other kinds of records that an option asks
    /// for.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn settle_table(&self, is_csv: bool, beside: Option<&str>) -> Result<(), String> {
        match beside {
            Some(option) if is_csv && self.output.is_none() => Err(format!(
                "CSV is a table of one kind of record, and --{option} asks for another: name a file with --output, beside which it gets one of its own, or take --format json"
            )),
            _ => Ok(()),
        }
    }
}

/// A value of an option, its name, and what it is.
pub(crate) type Choice<T> = (T, &'static str, &'static str);

/// Reads the name of one of these, which help lists.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let listed = |&(_, name, about): &Choice<T>| PossibleValue::new(name).help(about);
    PossibleValuesParser::new(choices.iter().map(listed)).try_map(move |typed| {
        let mut all = choices.iter();
        let found = all.find(|(_, name, _)| *name == typed);
        found.map(|(value, ..)| *value).ok_or("it has no value")
    })
}

/// As it is typed, for help.
pub(crate) fn typed(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Reads `100ms`, `5s`, `1m 30s`, or `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as in 100ms, 5s or 2m"))
}

pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be more than 0".to_owned()),
        time => Ok(time),
    }
}

pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(10);
    match duration(text)? {
        time if time < LEAST => Err("it must be at least 10ms".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("5").is_err());
        assert!(positive_duration("0s").is_err());
        assert!(interval("1ms").is_err());
    }
}
