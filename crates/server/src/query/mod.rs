//! `fathom query`: SQL over the records of a store.

mod addresses;
mod by_fingerprint;
mod counted;
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

use addresses::AddressFiles;
use anyhow::Context;
use by_fingerprint::ByFingerprint;
use clap::{Args, ValueEnum};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use fathom_store::Snapshot;
use held::Held;
use pool::Pool;

use crate::StoreDirectory;

/// While segments merge, they may be gone before they are read: a question is asked again of what
/// is there then, so often.
const ATTEMPTS: usize = 10;
/// Each stream of rows of a plan has so much memory at least; there are as many as processors, or
/// fewer.
const STREAM_MIB: usize = 64;
const MERGED: &str = "segments were merged or removed while they were read: ask again";

/// Ask the records of a store, in SQL.
///
/// Without a statement it lists the tables and views of the store, their columns, and examples.
#[derive(Debug, Args)]
pub(crate) struct QueryArguments {
    /// The statement, such as `SELECT * FROM servers ORDER BY latency_p99_ns DESC LIMIT 10`.
    #[arg(value_name = "SQL")]
    statement: Option<String>,
    #[command(flatten)]
    store: StoreDirectory,
    /// What networks are called, for `network_name(address)`: a CSV file with a prefix and a name a
    /// line.
    #[arg(long, value_name = "FILE", env = "FATHOM_NETWORKS")]
    networks: Option<PathBuf>,
    /// Numbers and names of autonomous systems, for `asn(address)` and `as_name(address)`: an MMDB
    /// file such as `GeoLite2-ASN.mmdb`.
    #[arg(long, value_name = "FILE", env = "FATHOM_ASN")]
    asn: Option<PathBuf>,
    /// How the answer is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the answer to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The memory for what a query sorts, groups and joins, in MiB; what it needs more goes to
    /// temporary files.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
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
    let runtime = tokio::runtime::Builder::new_multi_thread().build();
    let runtime = runtime.context("cannot start threads")?;
    runtime.block_on(answer(arguments))
}

async fn answer(arguments: &QueryArguments) -> anyhow::Result<()> {
    let mut output = Held::new(arguments.output.clone());
    let files = AddressFiles::open(arguments.networks.as_deref(), arguments.asn.as_deref())?;
    let files = Arc::new(files);
    for _ in 0..ATTEMPTS {
        let snapshot = Snapshot::of(&arguments.store.path)?;
        match ask(arguments, &files, &snapshot, &mut output).await {
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

async fn ask(
    arguments: &QueryArguments,
    files: &Arc<AddressFiles>,
    snapshot: &Snapshot,
    output: &mut Held,
) -> anyhow::Result<()> {
    let context = context(arguments.memory)?;
    functions::register(&context);
    addresses::register(&context, files);
    tables::register(&context, snapshot)?;
    views::register(&context).await?;
    let Some(statement) = &arguments.statement else {
        return views::list(&context, snapshot, &arguments.store.path).await;
    };
    // Nothing but questions.
    let questions = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let answer = context.sql_with_options(statement, questions).await;
    let answer = answer.context("`fathom query` alone lists tables, columns and examples")?;
    let task = Arc::new(answer.task_ctx());
    let plan = answer.create_physical_plan().await?;
    output::write(execute_stream(plan, task)?, arguments.format, output).await
}

fn context(memory_mib: usize) -> anyhow::Result<SessionContext> {
    let mut config = SessionConfig::new().with_information_schema(true);
    let streams = config
        .target_partitions()
        .min(memory_mib / STREAM_MIB)
        .max(1);
    config = config.with_target_partitions(streams);
    let pool = Pool::new(memory_mib << 20, streams);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .build_arc()
        .context("cannot set a limit of memory")?;
    let options = config.options_mut();
    // Filters are applied while rows are read.
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.schema_force_view_types = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rule(Arc::new(ByFingerprint::new()))
        .with_physical_optimizer_rules(slices::rules());
    Ok(SessionContext::new_with_state(state.build()))
}
