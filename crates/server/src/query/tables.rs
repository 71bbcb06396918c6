//! The tables: one for each kind of record in the store.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::prelude::SessionContext;
use fathom_store::{Kind, Snapshot, fitted};

use super::segments::Segments;
use super::views::wanted_columns;

/// Makes a table of each kind. Those that views need are there also where a store has none of them,
/// or an older one lacks a column.
///
/// # Errors
/// When a segment cannot be read.
pub(super) fn register(context: &SessionContext, snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut wanted = wanted_columns();
    for kind in snapshot.kinds() {
        let more = wanted.remove(kind.name.as_str()).unwrap_or_default();
        register_kind(context, kind, more)?;
    }
    for (name, columns) in wanted {
        let columns = Arc::new(Schema::new(columns));
        let empty = MemTable::try_new(columns, vec![vec![]])?;
        context.register_table(name, Arc::new(empty))?;
    }
    Ok(())
}

fn register_kind(context: &SessionContext, kind: &Kind, wanted: Vec<Field>) -> anyhow::Result<()> {
    let columns = columns_of(kind, wanted)?;
    let mut parts = Vec::new();
    if !kind.segments.is_empty() {
        let paths = kind.segments.iter().map(std::path::absolute);
        let segments = Segments::new(columns.clone(), paths.collect::<Result<_, _>>()?);
        parts.push(context.read_table(Arc::new(segments))?);
    }
    if !kind.open.is_empty() || parts.is_empty() {
        let open = kind.open.iter().map(|rows| fitted(rows, &columns));
        let open = open.collect::<Result<Vec<_>, _>>()?;
        let open = MemTable::try_new(columns, vec![open])?;
        parts.push(context.read_table(Arc::new(open))?);
    }
    let table = parts
        .into_iter()
        .map(Ok)
        .reduce(|all, more| all?.union(more?));
    let table = table.context("there is no table")??;
    context.register_table(kind.name.as_str(), table.into_view())?;
    Ok(())
}

/// All columns that any of its segments has: the newest first, as it was written by the newest
/// fathom; then those that views want.
fn columns_of(kind: &Kind, wanted: Vec<Field>) -> anyhow::Result<SchemaRef> {
    let mut columns: Vec<Arc<Field>> = Vec::new();
    let mut known = BTreeSet::new();
    let mut add = |fields: &mut dyn Iterator<Item = Arc<Field>>| {
        for field in fields {
            if known.insert(field.name().clone()) {
                let field = field.as_ref().clone().with_nullable(true);
                columns.push(Arc::new(field));
            }
        }
    };
    for rows in kind.open.iter().rev().take(1) {
        add(&mut rows.schema().fields().iter().cloned());
    }
    // Columns change with the version of fathom: each day has at most one more kind of file.
    let mut seen_day = None;
    for path in kind.segments.iter().rev() {
        let day = path.parent().map(PathBuf::from);
        if seen_day == day && seen_day.is_some() {
            continue;
        }
        seen_day = day;
        let describe = || format!("cannot read the segment {}", path.display());
        let file = File::open(path).with_context(describe)?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default());
        let metadata = metadata.with_context(describe)?;
        add(&mut metadata.schema().fields().iter().cloned());
    }
    add(&mut wanted.into_iter().map(Arc::new));
    Ok(Arc::new(Schema::new(columns)))
}
