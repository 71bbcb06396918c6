//! Where rows come from: the segments of a kind, and what is in no segment yet.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, max, min};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, TimestampNanosecondType};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;

use super::cut::{Piece, Slice};

/// The column by which slices are.
pub(in super::super) const TIME: &str = "time";

/// Which column of its rows is their time, if they come from files or memory that say so, and none
/// is empty.
pub(super) fn time_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    pieces_of(plan)?;
    let schema = plan.schema();
    let (column, field) = schema.column_with_name(TIME)?;
    matches!(field.data_type(), DataType::Timestamp(..)).then_some(column)
}

/// All that the plan reads.
pub(super) fn pieces(plan: &Arc<dyn ExecutionPlan>) -> Vec<Piece> {
    match pieces_of(plan) {
        Some(pieces) => pieces,
        None => plan.children().into_iter().flat_map(pieces).collect(),
    }
}

/// What it reads itself; `None`: it is no leaf, or it is not known when its records are of.
fn pieces_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Piece>> {
    if let Some((files, _)) = files(plan) {
        return all_of(files)
            .map(|file| piece_of_file(file, files))
            .collect();
    }
    let rows = memory(plan)?.partitions().iter().flatten();
    rows.map(piece_of_rows).collect()
}

fn files(plan: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    plan.downcast_ref::<DataSourceExec>()?
        .downcast_to_file_source()
}

fn memory(plan: &Arc<dyn ExecutionPlan>) -> Option<&MemorySourceConfig> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    source.downcast_ref()
}

fn all_of(files: &FileScanConfig) -> impl Iterator<Item = &PartitionedFile> {
    files.file_groups.iter().flat_map(FileGroup::iter)
}

fn piece_of_file(file: &PartitionedFile, files: &FileScanConfig) -> Option<Piece> {
    let statistics: &Statistics = file.statistics.as_deref()?;
    let (column, _) = files.file_schema().column_with_name(TIME)?;
    let times = statistics.column_statistics.get(column)?;
    let ns = |time: &Precision<ScalarValue>| match time.get_value()? {
        ScalarValue::TimestampNanosecond(ns, _) => *ns,
        _ => None,
    };
    (times.null_count == Precision::Exact(0)).then_some(Piece {
        first_ns: ns(&times.min_value)?,
        last_ns: ns(&times.max_value)?,
        rows: *statistics.num_rows.get_value()? as u64,
    })
}

fn piece_of_rows(rows: &RecordBatch) -> Option<Piece> {
    let times = rows.column_by_name(TIME)?;
    let times = times.as_primitive_opt::<TimestampNanosecondType>()?;
    (times.null_count() == 0).then_some(Piece {
        first_ns: min(times)?,
        last_ns: max(times)?,
        rows: rows.num_rows() as u64,
    })
}

/// The same rows as one stream; `None`: they do not come from files.
pub(super) fn in_one_part(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let (files, _) = files(plan)?;
    Some(with_files(files.clone(), all_of(files).cloned().collect()))
}

/// The files of a leaf, apart.
pub(in super::super) struct Apart<T> {
    /// What is told of some of them.
    pub(in super::super) told: Vec<T>,
    /// Reads the others, if there are any.
    pub(in super::super) rest: Option<Arc<dyn ExecutionPlan>>,
}

/// Those of which this tells something, by their columns and statistics, and the others. `None`:
/// the leaf does not read all rows of files.
pub(in super::super) fn files_apart<T>(
    plan: &Arc<dyn ExecutionPlan>,
    tell: impl Fn(&Schema, &Statistics) -> Option<T>,
) -> Option<Apart<T>> {
    let (files, source) = files(plan)?;
    if files.limit.is_some() || source.filter().is_some() {
        return None;
    }
    let (mut told, mut others) = (Vec::new(), Vec::new());
    for file in all_of(files) {
        let whole = file.statistics.as_deref().filter(|_| file.range.is_none());
        match whole.and_then(|statistics| tell(files.file_schema(), statistics)) {
            Some(some) => told.push(some),
            None => others.push(file.clone()),
        }
    }
    let parts = files.file_groups.len();
    let statistics = others.iter().filter_map(|file| file.statistics.as_deref());
    let statistics = Statistics::try_merge_iter(statistics, files.file_schema()).ok()?;
    let rest = (!others.is_empty()).then(|| {
        let files = FileScanConfigBuilder::from(files.clone())
            .with_file_groups(FileGroup::new(others).split_files(parts))
            .with_statistics(statistics);
        DataSourceExec::from_data_source(files.build()) as _
    });
    Some(Apart { told, rest })
}

fn with_files(files: FileScanConfig, some: Vec<PartitionedFile>) -> Arc<dyn ExecutionPlan> {
    let files = FileScanConfigBuilder::from(files);
    let files = files.with_file_groups(vec![FileGroup::new(some)]).build();
    DataSourceExec::from_data_source(files)
}

/// Of a leaf, its rows in this slice; `None`: it is no leaf.
///
/// # Errors
/// When it cannot be read so.
pub(super) fn in_slice(
    plan: &Arc<dyn ExecutionPlan>,
    slice: &Slice,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let some = if let Some((files, source)) = files(plan) {
        files_in_slice(files, source, slice)?
    } else if let Some(memory) = memory(plan) {
        rows_in_slice(memory, slice)?
    } else {
        return Ok(None);
    };
    let none = || Arc::new(EmptyExec::new(plan.schema())) as _;
    Ok(Some(some.unwrap_or_else(none)))
}

fn files_in_slice(
    files: &FileScanConfig,
    source: &ParquetSource,
    slice: &Slice,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let mut some = Vec::new();
    let mut is_whole = true;
    for file in all_of(files) {
        let piece = piece_of_file(file, files);
        if piece.is_none_or(|piece| slice.touches(&piece)) {
            is_whole &= piece.is_some_and(|piece| slice.has(&piece));
            some.push(file.clone());
        }
    }
    if some.is_empty() {
        return Ok(None);
    }
    let mut files = files.clone();
    if !is_whole {
        let within = within(slice, files.file_schema())?;
        let within = match source.filter() {
            Some(filter) => Arc::new(BinaryExpr::new(filter, Operator::And, within)),
            None => within,
        };
        let source = source.with_predicate(within).with_pushdown_filters(true);
        files.file_source = Arc::new(source);
    }
    Ok(Some(with_files(files, some)))
}

fn rows_in_slice(
    memory: &MemorySourceConfig,
    slice: &Slice,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (schema, columns) = (memory.original_schema(), memory.projection().clone());
    let mut some = Vec::new();
    for rows in memory.partitions().iter().flatten() {
        match piece_of_rows(rows) {
            Some(piece) if slice.has(&piece) => some.push(rows.clone()),
            Some(piece) if !slice.touches(&piece) => {}
            _ => {
                let within = within(slice, &schema)?.evaluate(rows)?;
                let within = within.into_array(rows.num_rows())?;
                some.push(filter_record_batch(rows, within.as_boolean())?);
            }
        }
    }
    if some.is_empty() {
        return Ok(None);
    }
    let some = MemorySourceConfig::try_new_exec(&[some], schema, columns)?;
    Ok(Some(some))
}

/// Is the time of a record in the slice?
fn within(slice: &Slice, columns: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let kind = columns.field_with_name(TIME)?.data_type();
    let bound = |operator, ns| -> Result<Arc<dyn PhysicalExpr>> {
        let ns = ScalarValue::TimestampNanosecond(Some(ns), None).cast_to(kind)?;
        Ok(Arc::new(BinaryExpr::new(
            col(TIME, columns)?,
            operator,
            lit(ns),
        )))
    };
    let first = bound(Operator::GtEq, slice.first_ns)?;
    let last = bound(Operator::LtEq, slice.last_ns)?;
    Ok(Arc::new(BinaryExpr::new(first, Operator::And, last)))
}
