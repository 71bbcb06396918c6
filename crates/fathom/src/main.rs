//! `fathom` measures where the latency of real traffic comes from. This is the binary: commands,
//! configuration and wiring; what is measured is in `fathom-measure`, and how it reads in
//! `fathom-record`.
//!
//! ```sh
//! fathom rtt capture.pcap --format json
//! ```

#[cfg(feature = "live")]
mod agent;
mod arguments;
#[cfg(feature = "live")]
mod balance;
mod captures;
#[cfg(feature = "live")]
mod clickhouse;
mod configuration;
#[cfg(feature = "live")]
mod control;
mod doctor;
mod failure;
mod generate;
#[cfg(feature = "live")]
mod hops;
mod import;
mod ipfix;
mod memory;
mod metrics;
mod output;
#[cfg(feature = "live")]
mod profile;
#[cfg(feature = "live")]
mod reference;
mod response;
mod rtt;
mod server;
#[cfg(feature = "live")]
mod session;
mod signals;
mod summary;
#[cfg(feature = "live")]
mod table;
mod tls;
mod traffic;
mod zone;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use fathom_record::Schema;

#[cfg(feature = "live")]
use agent::AgentArguments;
use arguments::{DoctorArguments, Measures, ServerArguments};
#[cfg(feature = "live")]
use balance::BalanceArguments;
#[cfg(feature = "live")]
use clickhouse::StoreCommand;
#[cfg(feature = "live")]
use hops::HopsArguments;
use import::ImportArguments;
use ipfix::IpfixCommand;
#[cfg(feature = "live")]
use profile::ProfileArguments;
use response::ResponseArguments;
use rtt::RttArguments;
use traffic::TrafficArguments;

/// Measures where the latency of real traffic comes from.
#[derive(Debug, Parser)]
#[command(
    name = "fathom",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage."
)]
struct Arguments {
    /// Read options from a TOML file: long names are the keys, in a table named like the command.
    /// Options and environment variables take precedence.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
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

impl Command {
    /// The options of a command that measures.
    fn measurement(&mut self) -> Option<&mut dyn Measures> {
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

/// A measurement, as `fathom doctor` and the reference of records know it.
struct Description {
    /// That of the command.
    name: &'static str,
    /// The kinds of its records.
    #[cfg_attr(
        not(feature = "live"),
        allow(dead_code, reason = "only the tests look at it")
    )]
    kinds: &'static [&'static Schema],
    /// Finds out whether it works here.
    examine: fn(&mut doctor::Checks),
    /// Measures capture files for a store.
    import: Option<fn(&import::Request<'_>) -> anyhow::Result<()>>,
    /// Begins what the agent runs of it.
    #[cfg(feature = "live")]
    agent: Option<fn(&agent::Request<'_>) -> anyhow::Result<agent::Part>>,
    /// It sends packets: the agent runs it only where it is named.
    #[cfg(feature = "live")]
    is_active: bool,
    /// Without intervals it has single samples of a flow.
    #[cfg(feature = "live")]
    has_samples: bool,
    /// As long as it measures, it takes steps that need `CAP_SYS_ADMIN`.
    #[cfg(feature = "live")]
    needs_admin: bool,
}

impl PartialEq for Description {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Why nothing is measured on interfaces.
#[cfg(not(feature = "live"))]
const FILES_ONLY: &str = "this fathom reads capture files only: build it with the feature `live` to measure on interfaces";

const MEASUREMENTS: &[Description] = &[
    rtt::MEASUREMENT,
    response::MEASUREMENT,
    traffic::MEASUREMENT,
    #[cfg(feature = "live")]
    hops::MEASUREMENT,
    #[cfg(feature = "live")]
    profile::MEASUREMENT,
];

fn main() -> ExitCode {
    match configuration::arguments().and_then(run) {
        Ok(status) => status,
        Err(error) => failure::report(&error),
    }
}

fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(options) = arguments.command.measurement() {
        if options.prints_config() {
            configuration::print(options.name())?;
        } else {
            options.run()?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    match &arguments.command {
        #[cfg(feature = "live")]
        Command::Balance(options) => balance::run(options, arguments.config.as_deref())?,
        #[cfg(feature = "live")]
        Command::Agent(options) => agent::run(options, arguments.config.as_deref())?,
        #[cfg(feature = "live")]
        Command::Store(StoreCommand::Init(options)) => clickhouse::init(options)?,
        Command::Collect(typed) => return server::run("collect", &typed.arguments),
        Command::Compare(typed) => return server::run("compare", &typed.arguments),
        Command::Import(options) => import::run(options, arguments.config.as_deref())?,
        Command::Explain(typed) => return server::run("explain", &typed.arguments),
        Command::Query(typed) => return server::run("query", &typed.arguments),
        Command::Top(typed) => return server::run("top", &typed.arguments),
        Command::Serve(typed) => return server::run("serve", &typed.arguments),
        Command::Ipfix(IpfixCommand::Dump(options)) if options.print_config => {
            configuration::print("ipfix.dump")?;
        }
        Command::Ipfix(IpfixCommand::Dump(options)) => ipfix::dump(options)?,
        Command::Doctor(options) => return doctor::run(options),
        Command::Completions { shell } => generate::completions(configuration::command(), *shell)?,
        #[cfg(feature = "live")]
        Command::Reference { of } => generate::reference(of)?,
        Command::Man { directory } => generate::manual(configuration::command(), directory)?,
        // Those that measure, above.
        Command::Rtt(_) | Command::Response(_) | Command::Traffic(_) => {}
        #[cfg(feature = "live")]
        Command::Hops(_) | Command::Profile(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}
