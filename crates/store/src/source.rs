//! Segments that are read to become one.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::Error;
use crate::layout::Found;
use crate::schema::fitted;

type Times = PrimitiveArray<TimestampNanosecondType>;

/// A segment that is read. Its file is open from when its rows may be next until the last of them:
/// dictionaries of all columns are in memory meanwhile.
pub(crate) struct Source<'a> {
    found: &'a Found,
    columns: &'a SchemaRef,
    reading: Reading,
    /// Those that were read and not yet taken.
    rows: RecordBatch,
}

enum Reading {
    NotYet,
    Now(Box<ParquetRecordBatchReader>),
    Over,
}

impl<'a> Source<'a> {
    /// All of these, whose rows get these columns.
    pub(crate) fn all(run: &'a [Found], columns: &'a SchemaRef) -> Vec<Source<'a>> {
        let source = |found| Source {
            found,
            columns,
            reading: Reading::NotYet,
            rows: RecordBatch::new_empty(columns.clone()),
        };
        run.iter().map(source).collect()
    }

    /// Which of these has the next row, and its time; until when its rows come before those of the
    /// others. `None`: there are no more rows.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Segment`] when one cannot be read.
    pub(crate) fn next_of(sources: &mut [Self]) -> Result<Option<(usize, i64, i64)>, Error> {
        loop {
            let mut next: Option<(usize, i64)> = None;
            let mut until = i64::MAX;
            for (index, source) in sources.iter_mut().enumerate() {
                match (source.not_before()?, next) {
                    (Some(time), Some((_, first))) if time >= first => until = until.min(time),
                    (Some(time), before) => {
                        until = before.map_or(until, |(_, first)| first);
                        next = Some((index, time));
                    }
                    (None, _) => {}
                }
            }
            match next {
                Some((index, _)) if matches!(sources[index].reading, Reading::NotYet) => {
                    sources[index].open()?;
                }
                next => return Ok(next.map(|(index, time)| (index, time, until))),
            }
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        let path = &self.found.path;
        let file = File::open(path).map_err(Error::file("open", path))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(ParquetRecordBatchReaderBuilder::build);
        self.reading = Reading::Now(Box::new(reader.map_err(Error::segment("read", path))?));
        Ok(())
    }

    /// No row that is left is older. `None`: none is left. Of a segment that is read it is the time
    /// of the next row.
    fn not_before(&mut self) -> Result<Option<i64>, Error> {
        while self.rows.num_rows() == 0 {
            let next = match &mut self.reading {
                Reading::NotYet => return Ok(Some(self.found.name.begin_s * 1_000_000_000)),
                Reading::Now(reader) => reader.next(),
                Reading::Over => None,
            };
            let Some(rows) = next else {
                self.reading = Reading::Over;
                return Ok(None);
            };
            let rows = rows.and_then(|rows| fitted(&rows, self.columns));
            let path = &self.found.path;
            self.rows = rows.map_err(|error| Error::segment("read", path)(error.into()))?;
        }
        Ok(Some(time_at(self.times(), 0)))
    }

    /// The next rows up to this time; `None`: the next is of a later one.
    ///
    /// # Errors
    /// As [`Source::next_of`].
    pub(crate) fn next_until(&mut self, until_ns: i64) -> Result<Option<RecordBatch>, Error> {
        let is_wanted = |time: Option<i64>| time.is_some_and(|time| time <= until_ns);
        if matches!(self.reading, Reading::NotYet) && is_wanted(self.not_before()?) {
            self.open()?;
        }
        if !is_wanted(self.not_before()?) {
            return Ok(None);
        }
        let times = self.times();
        let is_wanted = |row: &usize| time_at(times, *row) <= until_ns;
        let count = (0..self.rows.num_rows()).take_while(is_wanted).count();
        let rows = self.rows.slice(0, count);
        self.rows = self.rows.slice(count, self.rows.num_rows() - count);
        Ok(Some(rows))
    }

    fn times(&self) -> Option<&Times> {
        let times = self.rows.column_by_name("time");
        times.and_then(|it| it.as_primitive_opt())
    }
}

/// A row without a time is of 1970.
fn time_at(times: Option<&Times>, row: usize) -> i64 {
    let time = times.filter(|times| times.is_valid(row));
    time.map_or(0, |times| times.value(row))
}
