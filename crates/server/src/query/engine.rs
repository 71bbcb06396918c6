//! The SQL engine over the records of a store, with its functions and views.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::json::ArrayWriter;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::cache::DefaultFilesMetadataCache;
use datafusion::execution::cache::cache_manager::{CacheManagerConfig, FileMetadataCache};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use fathom_store::Snapshot;
use serde::de::DeserializeOwned;

use super::addresses::{self, AddressFiles};
use super::by_fingerprint::ByFingerprint;
use super::pool::Pool;
use super::{functions, slices, tables, views};
use crate::StoreDirectory;

/// While segments merge, they may be gone before they are read: a question is asked again of what
/// is there then, so often.
pub(super) const ATTEMPTS: usize = 10;
pub(super) const MERGED: &str = "segments were merged or removed while they were read: ask again";
/// Each stream of rows of a plan has so much memory at least; there are as many as processors, or
/// fewer.
const STREAM_MIB: usize = 64;
/// The memory for footers of segments: those of a thousand segments, about.
const FOOTERS_MIB: usize = 128;

/// Which records, and what is known of their addresses.
#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    #[command(flatten)]
    pub(crate) store: StoreDirectory,
    /// What networks are called, for `network_name(address)`: a CSV file with a prefix and a name a
    /// line.
    #[arg(long, value_name = "FILE", env = "FATHOM_NETWORKS")]
    networks: Option<PathBuf>,
    /// Numbers and names of autonomous systems, for `asn(address)` and `as_name(address)`: an MMDB
    /// file such as `GeoLite2-ASN.mmdb`.
    #[arg(long, value_name = "FILE", env = "FATHOM_ASN")]
    asn: Option<PathBuf>,
    /// The memory for what a query sorts, groups and joins, in MiB; what it needs more goes to
    /// temporary files.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
}

impl EngineArguments {
    /// The same as arguments of a process.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let memory = OsString::from(self.memory.to_string());
        let options = [
            ("--store", Some(self.store.path.clone().into_os_string())),
            ("--networks", self.networks.clone().map(Into::into)),
            ("--asn", self.asn.clone().map(Into::into)),
            ("--memory", Some(memory)),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        given
            .flat_map(|(name, value)| [name.into(), value])
            .collect()
    }

    /// Have networks names?
    pub(crate) fn has_network_names(&self) -> bool {
        self.networks.is_some()
    }

    /// Is it known in which system an address is?
    pub(crate) fn has_systems(&self) -> bool {
        self.asn.is_some()
    }
}

/// Answers questions about the records of a store.
pub(crate) struct Engine {
    pub(super) directory: PathBuf,
    files: Arc<AddressFiles>,
    memory_mib: usize,
    /// Segments stay as they are, so their footers are read once.
    footers: Arc<dyn FileMetadataCache>,
}

impl Engine {
    /// An engine over a store, which need not have records yet.
    ///
    /// # Errors
    /// When a file with names of networks or systems cannot be read.
    pub(crate) fn open(arguments: &EngineArguments) -> anyhow::Result<Self> {
        let files = AddressFiles::open(arguments.networks.as_deref(), arguments.asn.as_deref())?;
        Ok(Self {
            directory: arguments.store.path.clone(),
            files: Arc::new(files),
            memory_mib: arguments.memory,
            footers: Arc::new(DefaultFilesMetadataCache::new(FOOTERS_MIB << 20)),
        })
    }

    /// Do networks have names?
    pub(crate) fn names_networks(&self) -> bool {
        self.files.has_networks()
    }

    /// What the store has now.
    ///
    /// # Errors
    /// When there is no store.
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        Ok(Snapshot::of(&self.directory)?)
    }

    /// Tables, views and functions over a snapshot.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub(super) async fn context(&self, snapshot: &Snapshot) -> anyhow::Result<SessionContext> {
        let caches = CacheManagerConfig::default()
            .with_metadata_cache_limit(FOOTERS_MIB << 20)
            .with_file_metadata_cache(Some(Arc::clone(&self.footers)));
        let context = empty_context(self.memory_mib, caches)?;
        functions::register(&context);
        addresses::register(&context, &self.files);
        tables::register(&context, snapshot)?;
        views::register(&context).await?;
        Ok(context)
    }

    /// The rows of an answer, each as a value whose fields are named like the columns. `$1` in the
    /// statement is the first parameter.
    ///
    /// # Errors
    /// When there is no store, the statement fails, or a row does not fit.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        statement: &str,
        parameters: &[ScalarValue],
    ) -> anyhow::Result<Vec<T>> {
        let rows = self.rows(statement, parameters).await?;
        let mut writer = ArrayWriter::new(Vec::new());
        writer.write_batches(&rows.iter().collect::<Vec<_>>())?;
        writer.finish()?;
        let text = writer.into_inner();
        if text.is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_slice(&text).with_context(|| format!("what came of: {statement}"))
    }

    /// The rows of an answer.
    ///
    /// # Errors
    /// When there is no store, or the statement fails.
    pub(crate) async fn rows(
        &self,
        statement: &str,
        parameters: &[ScalarValue],
    ) -> anyhow::Result<Vec<RecordBatch>> {
        for _ in 0..ATTEMPTS {
            let snapshot = self.snapshot()?;
            let context = self.context(&snapshot).await?;
            let plan = plan(&context, statement).await?;
            let plan = plan.with_param_values(parameters.to_vec())?;
            match plan.collect().await {
                Err(_) if snapshot.has_gone() => {}
                answer => return Ok(answer?),
            }
        }
        anyhow::bail!("{MERGED}, {ATTEMPTS} times")
    }
}

/// A statement that is nothing but a question.
///
/// # Errors
/// When it is something else, or wrong.
pub(super) async fn plan(context: &SessionContext, statement: &str) -> anyhow::Result<DataFrame> {
    let questions = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    let plan = context.sql_with_options(statement, questions).await;
    // Such an error says all that its causes say.
    plan.map_err(|error| {
        anyhow!("{error}; `fathom query` alone lists tables, columns and examples")
    })
}

/// An engine without tables.
///
/// # Errors
/// When memory cannot be limited.
pub(super) fn empty_context(
    memory_mib: usize,
    caches: CacheManagerConfig,
) -> anyhow::Result<SessionContext> {
    let mut config = SessionConfig::new().with_information_schema(true);
    let streams = config
        .target_partitions()
        .min(memory_mib / STREAM_MIB)
        .max(1);
    config = config.with_target_partitions(streams);
    let pool = Pool::new(memory_mib << 20, streams);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_cache_manager(caches)
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
