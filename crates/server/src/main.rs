//! `fathom-server` collects records of many hosts, answers questions about the records that fathom
//! keeps, explains them, compares groups of them, and shows them on a terminal and in a browser.
//! `fathom collect`, `query`, `explain`, `compare`, `top` and `serve` call it.

mod collect;
mod compare;
mod explain;
mod lists;
mod moment;
mod query;
mod serve;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Collects records of many hosts, answers questions about them, and shows them in a browser.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Collect(collect::CollectArguments),
    Compare(compare::CompareArguments),
    Explain(explain::ExplainArguments),
    Query(query::QueryArguments),
    Serve(serve::ServeArguments),
    Top(top::TopArguments),
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
        Command::Compare(options) => compare::run(options),
        Command::Explain(options) => explain::run(options),
        Command::Query(options) => query::run(options),
        Command::Serve(options) => serve::run(options),
        Command::Top(options) => top::run(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fathom-server: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes. Those of libraries often say their own causes, too: once is enough.
fn told(error: &anyhow::Error) -> String {
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !told.contains(&cause) {
            told = told + ": " + &cause;
        }
    }
    told
}

/// The reader has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
