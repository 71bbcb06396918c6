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

/// A segment that is read.
pub(crate) struct Source<'a> {
    found: &'a Found,
    columns: &'a SchemaRef,
    reader: ParquetRecordBatchReader,
    /// Those that were read and not yet taken.
    rows: RecordBatch,
}

impl<'a> Source<'a> {
    /// Begins to read all of these, whose rows get these columns.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Segment`] when one cannot be read.
    pub(crate) fn open_all(
        run: &'a [Found],
        columns: &'a SchemaRef,
    ) -> Result<Vec<Source<'a>>, Error> {
        let open = |found| Source::open(found, columns);
        run.iter().map(open).collect()
    }

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
    ///
    /// # Errors
    /// [`Error::Segment`] when the segment cannot be read.
    pub(crate) fn next_time(&mut self) -> Result<Option<i64>, Error> {
        while self.rows.num_rows() == 0 {
            let Some(rows) = self.reader.next() else {
                return Ok(None);
            };
            let rows = rows.and_then(|rows| fitted(&rows, self.columns));
            let path = &self.found.path;
            self.rows = rows.map_err(|error| Error::segment("read", path)(error.into()))?;
        }
        Ok(Some(time_at(self.times(), 0)))
    }

    /// The next rows, as long as their times are among those wanted; `None`: that of the next is
    /// not.
    ///
    /// # Errors
    /// As [`Source::next_time`].
    pub(crate) fn next_while(
        &mut self,
        is_wanted: impl Fn(i64) -> bool,
    ) -> Result<Option<RecordBatch>, Error> {
        if self.next_time()?.is_none() {
            return Ok(None);
        }
        let times = self.times();
        let is_wanted = |row: &usize| is_wanted(time_at(times, *row));
        let count = (0..self.rows.num_rows()).take_while(is_wanted).count();
        if count == 0 {
            return Ok(None);
        }
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
