//! The segments of a kind, as a table.
//!
//! What DataFusion has for directories of files reads their footers one after the other, and makes
//! statistics of all columns of each. Here all processors read them, and statistics are those of
//! the columns that a question needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::file::metadata::PageIndexPolicy;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, stream};

use super::slices::TIME;

/// Of each file so much is read at once: more than most footers are.
const FOOTER_BYTES: usize = 32 << 10;
/// So many files are read by one processor, before it takes others.
const AT_ONCE: usize = 16;

/// Segments that have some of these columns.
#[derive(Debug)]
pub(super) struct Segments {
    columns: SchemaRef,
    paths: Vec<PathBuf>,
}

/// What reads footers.
#[derive(Debug, Clone)]
struct Footers {
    files: Arc<dyn ObjectStore>,
    cache: Arc<dyn FileMetadataCache>,
    columns: SchemaRef,
    /// Statistics are made of these.
    needed: Vec<usize>,
}

impl Segments {
    /// Of these files.
    pub(super) fn new(columns: SchemaRef, paths: Vec<PathBuf>) -> Self {
        Self { columns, paths }
    }

    /// The segments, or, if so many of their rows are enough, the first of them.
    async fn files(
        &self,
        footers: Footers,
        parts: usize,
        limit: Option<usize>,
    ) -> Result<Vec<PartitionedFile>> {
        let some: Vec<_> = self.paths.chunks(AT_ONCE).map(<[_]>::to_vec).collect();
        let read = stream::iter(some).map(|some| {
            let footers = footers.clone();
            SpawnedTask::spawn(async move { footers.read(some).await })
        });
        let mut read = read.buffered(parts);
        let (mut files, mut rows) = (Vec::new(), 0);
        while limit.is_none_or(|limit| rows < limit) {
            let Some(some) = read.next().await else {
                break;
            };
            let some = some.map_err(|error| DataFusionError::External(error.into()))??;
            rows += some.iter().map(rows_of).sum::<usize>();
            files.extend(some);
        }
        Ok(files)
    }
}

fn rows_of(file: &PartitionedFile) -> usize {
    let statistics = file.statistics.as_deref();
    let rows = statistics.and_then(|statistics| statistics.num_rows.get_value());
    rows.copied().unwrap_or(0)
}

impl Footers {
    async fn read(&self, paths: Vec<PathBuf>) -> Result<Vec<PartitionedFile>> {
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            files.push(self.read_one(&path).await?);
        }
        Ok(files)
    }

    async fn read_one(&self, path: &Path) -> Result<PartitionedFile> {
        let metadata = std::fs::metadata(path)?;
        let file = ObjectMeta {
            location: datafusion::object_store::path::Path::from_absolute_path(path)
                .map_err(|error| DataFusionError::External(error.into()))?,
            last_modified: metadata.modified()?.into(),
            size: metadata.len(),
            e_tag: None,
            version: None,
        };
        let footer = DFParquetMetadata::new(self.files.as_ref(), &file)
            .with_metadata_size_hint(Some(FOOTER_BYTES))
            .with_file_metadata_cache(Some(Arc::clone(&self.cache)))
            .with_page_index_policy(Some(PageIndexPolicy::Skip));
        let footer = footer.fetch_metadata().await?;
        let needed = Arc::new(self.columns.project(&self.needed)?);
        let told = DFParquetMetadata::statistics_from_parquet_metadata(&footer, &needed)?;
        let mut statistics = Statistics::new_unknown(&self.columns);
        statistics.num_rows = told.num_rows;
        for (&column, told) in self.needed.iter().zip(told.column_statistics) {
            statistics.column_statistics[column] = told;
        }
        Ok(PartitionedFile::new_from_meta(file).with_statistics(Arc::new(statistics)))
    }
}

#[async_trait]
impl TableProvider for Segments {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// All of them, which is found out when files are read. So columns that they need are read,
    /// too.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let directory = ObjectStoreUrl::local_filesystem();
        let columns = Arc::clone(&self.columns);
        let every = || (0..columns.fields().len()).collect();
        let mut needed: Vec<usize> = projection.cloned().unwrap_or_else(every);
        // Slices are by time.
        let time = columns.index_of(TIME).ok();
        needed.extend(time.filter(|time| !needed.contains(time)));
        let footers = Footers {
            files: state.runtime_env().object_store(&directory)?,
            cache: state.runtime_env().cache_manager.get_file_metadata_cache(),
            columns: Arc::clone(&columns),
            needed,
        };
        let parts = state.config().target_partitions();
        let enough = limit.filter(|_| filters.is_empty());
        let files = self.files(footers, parts, enough).await?;
        let statistics = files.iter().filter_map(|file| file.statistics.as_deref());
        let mut statistics = Statistics::try_merge_iter(statistics, &columns)?;
        if files.len() < self.paths.len() {
            statistics = statistics.to_inexact();
        }
        let source = Arc::new(ParquetSource::new(Arc::clone(&columns)));
        let scan = FileScanConfigBuilder::new(directory, source)
            .with_file_groups(FileGroup::new(files).split_files(parts))
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        let format = ParquetFormat::default().with_metadata_size_hint(Some(FOOTER_BYTES));
        format.create_physical_plan(state, scan).await
    }
}
