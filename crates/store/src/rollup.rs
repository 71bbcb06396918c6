//! Segments of old hours become rows of longer intervals.

use arrow_schema::{ArrowError, SchemaRef};

use crate::Error;
use crate::fold::{Folder, interval_end};
use crate::layout::{Found, HOUR_S, Layout, SegmentName};
use crate::merge::{GoesOn, exchange, name_of, runs};
use crate::schema::united;
use crate::segment::{SegmentWriter, columns_of};
use crate::source::Source;

/// No more rows of an interval are put together at a time,
const MOST_ROWS: usize = 1 << 16;
/// unless segments would have to be read so often.
const MOST_PARTS: u64 = 64;

/// Segments of an hour that was over at `before_s` and have rows of shorter intervals.
pub(crate) fn due(segments: &[Found], interval_s: u32, before_s: i64) -> Vec<&[Found]> {
    let is_finer = |found: &Found| found.name.interval_s < interval_s;
    runs(segments, |one, next| is_finer(one) && is_finer(next))
        .filter(|run| is_finer(&run[0]) && (run[0].name.hour() + 1) * HOUR_S <= before_s)
        .collect()
}

/// Makes one segment of these, with rows of so long intervals, and removes them. `false`: they are
/// of a kind without intervals, or of columns that do not go together, and stay as they are.
///
/// # Errors
/// [`Error::Segment`] or [`Error::File`] when one cannot be read, or the new one not written; and
/// what `goes_on` says.
pub(crate) fn fold(
    layout: &Layout,
    kind: &str,
    run: &[Found],
    interval_s: u32,
    goes_on: GoesOn<'_>,
) -> Result<bool, Error> {
    let columns = run.iter().map(columns_of).collect::<Result<Vec<_>, _>>()?;
    let (Some(columns), Some(name)) = (united(&columns), name_of(run)) else {
        return Ok(false);
    };
    if Folder::new(&columns, interval_s).is_none() {
        return Ok(false);
    }
    let rollup = Rollup {
        kind,
        run,
        columns,
        interval_s,
        goes_on,
    };
    let name = SegmentName { interval_s, ..name };
    let mut parts = 1;
    let made = loop {
        let mut segment = SegmentWriter::create(layout, kind, &name, rollup.columns.clone())?;
        match rollup.fold(parts, &mut segment) {
            Ok(Folding::Done) => break segment.finish()?,
            Ok(Folding::TooMany) => {
                segment.discard();
                parts *= 2;
            }
            Err(error) => {
                segment.discard();
                return Err(error);
            }
        }
    };
    exchange(layout, run, made)?;
    Ok(true)
}

/// Segments that become one.
struct Rollup<'a> {
    kind: &'a str,
    run: &'a [Found],
    columns: SchemaRef,
    interval_s: u32,
    goes_on: GoesOn<'a>,
}

enum Folding {
    Done,
    /// An interval has more rows than memory.
    TooMany,
}

impl Rollup<'_> {
    /// Reads them so often, each time for a part of the flows, or whatever rows are about.
    fn fold(&self, parts: u64, to: &mut SegmentWriter) -> Result<Folding, Error> {
        for part in 0..parts {
            let Some(folder) = Folder::new(&self.columns, self.interval_s) else {
                break;
            };
            let mut folder = folder.of_part(part, parts);
            let mut sources = Source::segments(self.run, &self.columns);
            while let Some((_, first_ns, _)) = Source::next_of(&mut sources)? {
                (self.goes_on)()?;
                let end_ns = interval_end(first_ns, self.interval_s);
                for source in &mut sources {
                    while let Some(rows) = source.next_until(end_ns)? {
                        let long = folder.take(&rows).map_err(self.refused())?;
                        if part == 0 && long.num_rows() > 0 {
                            to.write(&long)?;
                        }
                        if folder.rows() > MOST_ROWS && parts < MOST_PARTS {
                            return Ok(Folding::TooMany);
                        }
                    }
                }
                if folder.rows() > 0 {
                    to.write(&folder.finish(end_ns).map_err(self.refused())?)?;
                }
            }
        }
        Ok(Folding::Done)
    }

    fn refused(&self) -> impl FnOnce(ArrowError) -> Error {
        Error::records("put together", self.kind)
    }
}
