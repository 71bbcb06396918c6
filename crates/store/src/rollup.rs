//! Segments of old hours become rows of longer intervals.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::Error;
use crate::fold::{Folder, interval_end};
use crate::layout::{Found, HOUR_S, Layout, SegmentName};
use crate::merge::{columns_of, name_of, remove_merged, runs};
use crate::schema::{fitted, united};
use crate::segment::SegmentWriter;

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
/// [`Error::Segment`] or [`Error::File`] when one cannot be read, or the new one not written.
pub(crate) fn fold(
    layout: &Layout,
    kind: &str,
    run: &[Found],
    interval_s: u32,
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
    };
    let name = SegmentName { interval_s, ..name };
    let mut parts = 1;
    let path = loop {
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
    remove_merged(run, &path)?;
    Ok(true)
}

/// Segments that become one.
struct Rollup<'a> {
    kind: &'a str,
    run: &'a [Found],
    columns: SchemaRef,
    interval_s: u32,
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
            let open = |found| Source::open(found, &self.columns);
            let mut sources = self.run.iter().map(open).collect::<Result<Vec<_>, _>>()?;
            while let Some(end_ns) = self.next_end(&mut sources)? {
                for source in &mut sources {
                    while let Some(rows) = source.next_until(end_ns, self.interval_s)? {
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

    /// When the interval ends that comes first.
    fn next_end(&self, sources: &mut [Source<'_>]) -> Result<Option<i64>, Error> {
        let mut first = None;
        for source in sources {
            let time = source.next_time()?;
            first = first.into_iter().chain(time).min();
        }
        Ok(first.map(|first| interval_end(first, self.interval_s)))
    }

    fn refused(&self) -> impl FnOnce(ArrowError) -> Error {
        Error::records("put together", self.kind)
    }
}

/// A segment that is read.
struct Source<'a> {
    found: &'a Found,
    columns: &'a SchemaRef,
    reader: ParquetRecordBatchReader,
    /// Those that were read and not yet taken.
    rows: RecordBatch,
}

impl<'a> Source<'a> {
    fn open(found: &'a Found, columns: &'a SchemaRef) -> Result<Self, Error> {
        let file = File::open(&found.path).map_err(Error::file("open", &found.path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(ParquetRecordBatchReaderBuilder::build);
        Ok(Self {
            found,
            columns,
            reader: reader.map_err(Error::segment("read", &found.path))?,
            rows: RecordBatch::new_empty(columns.clone()),
        })
    }

    /// Of the next row; `None`: there is none.
    fn next_time(&mut self) -> Result<Option<i64>, Error> {
        while self.rows.num_rows() == 0 {
            let Some(rows) = self.reader.next() else {
                return Ok(None);
            };
            let rows = rows.and_then(|rows| fitted(&rows, self.columns));
            let path = &self.found.path;
            self.rows = rows.map_err(|error| Error::segment("read", path)(error.into()))?;
        }
        Ok(Some(self.time_at(0)))
    }

    /// A row without a time is of 1970.
    fn time_at(&self, row: usize) -> i64 {
        let times = self.rows.column_by_name("time");
        let times = times.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
        let time = times.filter(|times| times.is_valid(row));
        time.map_or(0, |times| times.value(row))
    }

    /// The next rows of the interval that ends then; `None`: the next is of another.
    fn next_until(&mut self, end_ns: i64, interval_s: u32) -> Result<Option<RecordBatch>, Error> {
        if self.next_time()?.is_none() {
            return Ok(None);
        }
        let is_within = |row: &usize| interval_end(self.time_at(*row), interval_s) == end_ns;
        let count = (0..self.rows.num_rows()).take_while(is_within).count();
        if count == 0 {
            return Ok(None);
        }
        let rows = self.rows.slice(0, count);
        self.rows = self.rows.slice(count, self.rows.num_rows() - count);
        Ok(Some(rows))
    }
}
