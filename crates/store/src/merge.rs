//! Small segments become larger ones.

use std::fs::{self, File};
use std::path::Path;

use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use crate::Error;
use crate::layout::{Found, HOUR_S, Layout, SegmentName};
use crate::schema::united;
use crate::segment::SegmentWriter;
use crate::source::{Source, in_order_of_times};

/// Larger ones stay as they are.
const SMALL_BYTES: u64 = 16 << 20;
/// So many small ones in a row are merged at any time.
const MANY: usize = 64;

/// Segments of one hour in a row, of which each goes with the next.
pub(crate) fn runs(
    segments: &[Found],
    go_together: impl Fn(&Found, &Found) -> bool,
) -> impl Iterator<Item = &[Found]> {
    segments
        .chunk_by(move |one, next| one.name.hour() == next.name.hour() && go_together(one, next))
}

/// Segments in a row that should be one: of one hour, of intervals of one length, small, and many,
/// or of an hour that is over at `now_s`.
pub(crate) fn due(segments: &[Found], now_s: i64) -> Vec<&[Found]> {
    let runs = runs(segments, |one, next| {
        one.name.interval_s == next.name.interval_s
            && one.bytes < SMALL_BYTES
            && next.bytes < SMALL_BYTES
    });
    runs.filter(|run| {
        // A minute more: what the last log of the hour has is a segment by then.
        let is_over = (run[0].name.hour() + 1) * HOUR_S + 60 <= now_s;
        run.len() > 1 && (is_over || run.len() >= MANY)
    })
    .collect()
}

/// Makes one segment of these, and removes them. If a column of one name is of two types in them,
/// they are left as they are.
///
/// # Errors
/// [`Error::Segment`] or [`Error::File`] when one cannot be read, or the new one not written.
pub(crate) fn merge(layout: &Layout, kind: &str, run: &[Found]) -> Result<bool, Error> {
    let columns = run.iter().map(columns_of).collect::<Result<Vec<_>, _>>()?;
    let (Some(columns), Some(name)) = (united(&columns), name_of(run)) else {
        return Ok(false);
    };
    let mut merged = SegmentWriter::create(layout, kind, &name, columns.clone())?;
    let sources = Source::segments(run, &columns);
    let copied = in_order_of_times(sources, kind, &columns, |rows| merged.write(rows));
    if let Err(error) = copied {
        merged.discard();
        return Err(error);
    }
    let path = merged.finish()?;
    remove_merged(run, &path)?;
    Ok(true)
}

/// What a segment is called that has all that these have.
pub(crate) fn name_of(run: &[Found]) -> Option<SegmentName> {
    let names = || run.iter().map(|found| &found.name);
    Some(SegmentName {
        begin_s: names().map(|name| name.begin_s).min()?,
        first: names().map(|name| name.first).min()?,
        last: names().map(|name| name.last).max()?,
        interval_s: names().map(|name| name.interval_s).max()?,
    })
}

/// Removes what another segment has now. If this ends in the middle, a reader sees by the names
/// that it has all that these have.
///
/// # Errors
/// [`Error::File`] when one cannot be removed.
pub(crate) fn remove_merged(run: &[Found], into: &Path) -> Result<(), Error> {
    for each in run.iter().filter(|each| each.path != into) {
        fs::remove_file(&each.path).map_err(Error::file("remove", &each.path))?;
    }
    Ok(())
}

pub(crate) fn columns_of(found: &Found) -> Result<SchemaRef, Error> {
    let file = File::open(&found.path).map_err(Error::file("open", &found.path))?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default());
    let metadata = metadata.map_err(Error::segment("read", &found.path))?;
    Ok(metadata.schema().clone())
}
