//! Segments one after the other in one: their row groups are copied, and not read.

use std::fs::File;

use arrow_schema::SchemaRef;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescPtr;

use crate::Error;
use crate::layout::Found;
use crate::segment::open;

/// With fewer rows in a group, what a file says of each column of each group is a large part of it:
/// such are better written anew.
const LEAST_ROWS: i64 = 4096;

/// Copies the row groups of a segment.
///
/// # Errors
/// [`Error::File`] or [`Error::Segment`] when it cannot be read, or they not be written.
pub(crate) fn copy(found: &Found, to: &mut SerializedFileWriter<File>) -> Result<(), Error> {
    let (file, metadata) = open(found, PageIndexPolicy::Optional)?;
    let copied = copy_groups(&file, metadata.metadata(), to);
    copied.map_err(Error::segment("copy", &found.path))
}

fn copy_groups(
    file: &File,
    metadata: &ParquetMetaData,
    to: &mut SerializedFileWriter<File>,
) -> Result<(), ParquetError> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let pages = metadata.column_index().and_then(|all| all.get(number));
        let offsets = metadata.offset_index().and_then(|all| all.get(number));
        let mut copy = to.next_row_group()?;
        for (index, column) in group.columns().iter().enumerate() {
            let closed = ColumnCloseResult {
                bytes_written: column.compressed_size().cast_unsigned(),
                rows_written: group.num_rows().cast_unsigned(),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: pages.and_then(|all| all.get(index)).cloned(),
                offset_index: offsets.and_then(|all| all.get(index)).cloned(),
            };
            copy.append_column(file, closed)?;
        }
        copy.close()?;
    }
    Ok(())
}

/// What has to be known of a segment before it becomes a part of another.
pub(crate) struct Outline {
    pub(crate) columns: SchemaRef,
    schema: SchemaDescPtr,
    /// In each group.
    rows: Vec<i64>,
    /// The first and the last time of each group. `None`: it does not say.
    times: Option<Vec<(i64, i64)>>,
}

impl Outline {
    /// # Errors
    /// [`Error::File`] or [`Error::Segment`] when the segment cannot be read.
    pub(crate) fn of(found: &Found) -> Result<Self, Error> {
        let (_, metadata) = open(found, PageIndexPolicy::Skip)?;
        let groups = metadata.metadata().row_groups();
        Ok(Self {
            columns: metadata.schema().clone(),
            schema: metadata.metadata().file_metadata().schema_descr_ptr(),
            rows: groups.iter().map(RowGroupMetaData::num_rows).collect(),
            times: groups.iter().map(times_of).collect(),
        })
    }
}

/// The first and the last time of its rows.
fn times_of(group: &RowGroupMetaData) -> Option<(i64, i64)> {
    let mut columns = group.columns().iter();
    let time = columns.find(|column| column.column_path().string() == "time")?;
    match time.statistics()? {
        Statistics::Int64(times) => Some((*times.min_opt()?, *times.max_opt()?)),
        _ => None,
    }
}

/// Is the one after the other a segment: with the same columns, rows in the order of their times,
/// and groups that are not small?
pub(crate) fn go_in_a_row(segments: &[Outline]) -> bool {
    let is_same = segments
        .windows(2)
        .all(|pair| pair[0].columns == pair[1].columns && pair[0].schema == pair[1].schema);
    let times: Option<Vec<_>> = segments.iter().map(|it| it.times.as_deref()).collect();
    let is_in_order =
        times.is_some_and(|times| times.concat().is_sorted_by(|one, next| one.1 <= next.0));
    let rows: Vec<_> = segments.iter().flat_map(|it| &it.rows).collect();
    let all: i64 = rows.iter().copied().sum();
    is_same && is_in_order && usize::try_from(all / LEAST_ROWS).is_ok_and(|most| rows.len() <= most)
}
