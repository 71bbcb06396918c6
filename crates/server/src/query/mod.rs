//! `fathom query`: SQL over the records of a store.

mod addresses;
mod by_fingerprint;
mod counted;
mod engine;
mod functions;
mod held;
mod merge;
mod output;
mod pool;
mod segments;
mod slices;
mod tables;
mod views;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueEnum};
use datafusion::physical_plan::execute_stream;
use engine::{ATTEMPTS, MERGED};
pub(crate) use engine::{Engine, EngineArguments};
use fathom_store::Snapshot;
use held::Held;
use nix::sys::resource::{Resource, setrlimit};

/// Ask the records of a store, in SQL.
///
/// Without a statement it lists the tables and views of the store, their columns, and examples.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// The statement, such as `SELECT * FROM servers ORDER BY latency_p99_ns DESC LIMIT 10`.
    #[arg(value_name = "SQL")]
    statement: Option<String>,
    #[command(flatten)]
    engine: EngineArguments,
    /// How the answer is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the answer to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// All memory that the process may ask the system for, in MiB.
    #[arg(long, value_name = "MIB", hide = true)]
    most_memory: Option<u64>,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people.
    Text,
    /// A JSON object a line.
    Json,
    /// Comma-separated values.
    Csv,
    /// A Parquet file; needs --output.
    Parquet,
}

/// Answers.
///
/// # Errors
/// When there is no store, the statement is wrong, or the answer cannot be written.
pub(crate) fn run(arguments: &QueryArguments) -> anyhow::Result<()> {
    if arguments.format == Format::Parquet && arguments.output.is_none() {
        anyhow::bail!("--format parquet needs a file: name one with --output");
    }
    if let Some(mib) = arguments.most_memory {
        let bytes = mib << 20;
        setrlimit(Resource::RLIMIT_AS, bytes, bytes).context("cannot set a limit of memory")?;
        // A process that needs more dies of it, and nobody looks at what it had.
        setrlimit(Resource::RLIMIT_CORE, 0, 0).context("cannot forbid dumps of memory")?;
    }
    wait_for(answer(arguments))
}

/// Answers on as many threads as there are processors.
///
/// # Errors
/// When threads cannot be started, or there is no answer.
pub(crate) fn wait_for<T>(answer: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build();
    runtime.context("cannot start threads")?.block_on(answer)
}

async fn answer(arguments: &QueryArguments) -> anyhow::Result<()> {
    let mut output = Held::new(arguments.output.clone());
    let engine = Engine::open(&arguments.engine)?;
    for _ in 0..ATTEMPTS {
        let snapshot = engine.snapshot()?;
        match print(arguments, &engine, &snapshot, &mut output).await {
            Ok(()) => return Ok(()),
            // A file that is gone fails in one of many ways.
            Err(_) if !output.has_passed() && snapshot.has_gone() => {}
            Err(error) if snapshot.has_gone() => return Err(error.context(MERGED)),
            Err(error) => return Err(error),
        }
        output.forget();
    }
    anyhow::bail!("{MERGED}, {ATTEMPTS} times")
}

async fn print(
    arguments: &QueryArguments,
    engine: &Engine,
    snapshot: &Snapshot,
    output: &mut Held,
) -> anyhow::Result<()> {
    let context = engine.context(snapshot).await?;
    let Some(statement) = &arguments.statement else {
        return views::list(&context, snapshot, &engine.directory).await;
    };
    let answer = engine::plan(&context, statement).await?;
    let task = Arc::new(answer.task_ctx());
    let plan = answer.create_physical_plan().await?;
    output::write(execute_stream(plan, task)?, arguments.format, output).await
}
