//! Small segments become larger ones.

use std::fs;

use arrow_schema::SchemaRef;

use crate::Error;
use crate::concatenate::{Outline, go_in_a_row};
use crate::layout::{Found, HOUR_S, Layout, SegmentName};
use crate::schema::united;
use crate::segment::{Part, SegmentWriter};
use crate::source::{Source, in_order_of_times};

/// An error as soon as the work is to be left as it is.
pub(crate) type GoesOn<'a> = &'a dyn Fn() -> Result<(), Error>;

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
/// [`Error::Segment`] or [`Error::File`] when one cannot be read, or the new one not written; and
/// what `goes_on` says.
pub(crate) fn merge(
    layout: &Layout,
    kind: &str,
    run: &[Found],
    goes_on: GoesOn<'_>,
) -> Result<bool, Error> {
    let segments = run.iter().map(Outline::of).collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<_> = segments.iter().map(|it| it.columns.clone()).collect();
    let (Some(columns), Some(name)) = (united(&columns), name_of(run)) else {
        return Ok(false);
    };
    let merged = SegmentWriter::create(layout, kind, &name, columns.clone())?;
    let merged = if go_in_a_row(&segments) {
        merged.concatenate(run)?
    } else {
        rewrite(kind, run, &columns, merged, goes_on)?
    };
    exchange(layout, run, merged)?;
    Ok(true)
}

/// Rows of all of them, in the order of their times.
fn rewrite(
    kind: &str,
    run: &[Found],
    columns: &SchemaRef,
    mut merged: SegmentWriter,
    goes_on: GoesOn<'_>,
) -> Result<Part, Error> {
    let sources = Source::segments(run, columns);
    let written = in_order_of_times(sources, kind, columns, |rows| {
        goes_on()?;
        merged.write(rows)
    });
    match written {
        Ok(()) => merged.finish(),
        Err(error) => {
            merged.discard();
            Err(error)
        }
    }
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

/// A new segment takes the place of those that it was made of. If this ends in the middle, a reader
/// sees by the names that it has all that these have.
///
/// # Errors
/// [`Error::File`] when it cannot be renamed, or one not be removed.
pub(crate) fn exchange(layout: &Layout, run: &[Found], made: Part) -> Result<(), Error> {
    let _held = layout.hold();
    let path = made.appear()?;
    for each in run.iter().filter(|each| each.path != path) {
        fs::remove_file(&each.path).map_err(Error::file("remove", &each.path))?;
    }
    Ok(())
}
