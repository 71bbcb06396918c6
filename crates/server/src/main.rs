//! `fathom-server` collects records of many hosts, and answers questions about the records that
//! fathom keeps. `fathom collect`, `fathom explain` and `fathom query` call it.

mod collect;
mod explain;
mod query;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Collects records of many hosts, and answers questions about them.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Collect(collect::CollectArguments),
    Explain(explain::ExplainArguments),
    Query(query::QueryArguments),
}

/// Which store.
#[derive(Debug, Args)]
struct StoreDirectory {
    /// The directory of the store.
    #[arg(
        id = "store",
        long = "store",
        value_name = "DIR",
        env = "FATHOM_STORE",
        default_value = "/var/lib/fathom"
    )]
    path: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Command::Collect(options) => collect::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Query(options) => query::run(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fathom-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The reader has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
