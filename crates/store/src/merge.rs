//! Small segments become larger ones.

use std::fs::{self, File};

use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use crate::Error;
use crate::layout::{Found, Layout, SegmentName};
use crate::segment::SegmentWriter;

/// Larger ones stay as they are.
const SMALL_BYTES: u64 = 16 << 20;
/// So many small ones in a row are merged at any time.
const MANY: usize = 16;
/// Those of an hour that is over are merged however few they are.
const HOUR_S: i64 = 3600;

/// Segments in a row that should be one: of one hour, small, and many, or of an hour that is over
/// at `now_s`.
pub(crate) fn due(segments: &[Found], now_s: i64) -> Option<&[Found]> {
    let hour = |found: &Found| found.name.begin_s.div_euclid(HOUR_S);
    let runs = segments.chunk_by(|one, next| {
        hour(one) == hour(next) && one.bytes < SMALL_BYTES && next.bytes < SMALL_BYTES
    });
    runs.filter(|run| run.len() > 1).find(|run| {
        // A minute more: what the last log of the hour has is a segment by then.
        let is_over = (hour(&run[0]) + 1) * HOUR_S + 60 <= now_s;
        is_over || run.len() >= MANY
    })
}

/// Makes one segment of these, and removes them. Their columns must be the same: a run of others is
/// left as it is.
///
/// # Errors
/// [`Error::Segment`] or [`Error::File`] when one cannot be read, or the new one not written.
pub(crate) fn merge(layout: &Layout, kind: &str, run: &[Found]) -> Result<bool, Error> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else {
        return Ok(false);
    };
    let columns = columns_of(first)?;
    for each in run {
        if columns_of(each)?.fields() != columns.fields() {
            return Ok(false);
        }
    }
    let name = SegmentName {
        begin_s: first.name.begin_s,
        first: first.name.first,
        last: last.name.last,
    };
    let mut merged = SegmentWriter::create(layout, kind, &name, columns)?;
    if let Err(error) = run.iter().try_for_each(|each| copy(each, &mut merged)) {
        merged.discard();
        return Err(error);
    }
    let path = merged.finish()?;
    // If this ends here, a reader sees by the names that the new one has all that these have.
    for each in run.iter().filter(|each| each.path != path) {
        fs::remove_file(&each.path).map_err(Error::file("remove", &each.path))?;
    }
    Ok(true)
}

fn columns_of(found: &Found) -> Result<SchemaRef, Error> {
    let file = File::open(&found.path).map_err(Error::file("open", &found.path))?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default());
    let metadata = metadata.map_err(Error::segment("read", &found.path))?;
    Ok(metadata.schema().clone())
}

fn copy(from: &Found, to: &mut SegmentWriter) -> Result<(), Error> {
    let file = File::open(&from.path).map_err(Error::file("open", &from.path))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(ParquetRecordBatchReaderBuilder::build);
    for rows in reader.map_err(Error::segment("read", &from.path))? {
        let rows = rows.map_err(|error| Error::segment("read", &from.path)(error.into()))?;
        to.write(&rows)?;
    }
    Ok(())
}
