//! `fathom` measures where the latency of real traffic comes from. This is the binary: arguments,
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

use std::process::ExitCode;

use fathom_record::Schema;

use arguments::{Arguments, Command};
#[cfg(feature = "live")]
use clickhouse::StoreCommand;
use ipfix::IpfixCommand;

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
