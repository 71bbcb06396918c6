//! Rows of several files that are read as one, in the order of their times.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::PageIndexPolicy;

use crate::layout::Found;
use crate::rows::times_of;
use crate::schema::fitted;
use crate::{Error, segment};

/// So many rows are handed on at a time, and those that were read with them.
const ROWS_AT_A_TIME: usize = 2048;

/// Rows in the order of their times.
type Rows<'a> = Box<dyn Iterator<Item = Result<RecordBatch, Error>> + 'a>;

/// Something that has rows. It is open from when its rows may be next until the last of them: what
/// a segment has open, such as dictionaries of all columns, is in memory meanwhile.
pub(crate) struct Source<'a> {
    reading: Reading<'a>,
    /// Those that were read and not yet taken.
    rows: RecordBatch,
}

enum Reading<'a> {
    /// None of its rows is older.
    NotYet(i64, Box<dyn FnOnce() -> Result<Rows<'a>, Error> + 'a>),
    Now(Rows<'a>),
    Over,
}

impl<'a> Source<'a> {
    /// What has rows with these columns, none of which is older than `begin_ns`.
    pub(crate) fn new(
        columns: &SchemaRef,
        begin_ns: i64,
        open: impl FnOnce() -> Result<Rows<'a>, Error> + 'a,
    ) -> Self {
        Self {
            reading: Reading::NotYet(begin_ns, Box::new(open)),
            rows: RecordBatch::new_empty(columns.clone()),
        }
    }

    /// These segments, whose rows get these columns.
    pub(crate) fn segments(run: &'a [Found], columns: &'a SchemaRef) -> Vec<Source<'a>> {
        let source = |found: &'a Found| {
            let begin_ns = found.name.begin_s * 1_000_000_000;
            Source::new(columns, begin_ns, move || open(found, columns))
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
                Some((index, _)) if matches!(sources[index].reading, Reading::NotYet(..)) => {
                    sources[index].open()?;
                }
                next => return Ok(next.map(|(index, time)| (index, time, until))),
            }
        }
    }

    fn open(&mut self) -> Result<(), Error> {
        self.reading = match std::mem::replace(&mut self.reading, Reading::Over) {
            Reading::NotYet(_, open) => Reading::Now(open()?),
            opened => opened,
        };
        Ok(())
    }

    /// No row that is left is older. `None`: none is left. Of what is open it is the time of the
    /// next row.
    fn not_before(&mut self) -> Result<Option<i64>, Error> {
        while self.rows.num_rows() == 0 {
            let next = match &mut self.reading {
                Reading::NotYet(begin_ns, _) => return Ok(Some(*begin_ns)),
                Reading::Now(rows) => rows.next(),
                Reading::Over => None,
            };
            let Some(rows) = next else {
                self.reading = Reading::Over;
                return Ok(None);
            };
            self.rows = rows?;
        }
        // A row without a time is of 1970.
        Ok(Some(times_of(&self.rows).first().copied().unwrap_or(0)))
    }

    /// The next rows up to this time; `None`: the next is of a later one.
    ///
    /// # Errors
    /// As [`Source::next_of`].
    pub(crate) fn next_until(&mut self, until_ns: i64) -> Result<Option<RecordBatch>, Error> {
        let is_wanted = |time: Option<i64>| time.is_some_and(|time| time <= until_ns);
        if matches!(self.reading, Reading::NotYet(..)) && is_wanted(self.not_before()?) {
            self.open()?;
        }
        if !is_wanted(self.not_before()?) {
            return Ok(None);
        }
        let times = times_of(&self.rows);
        let count = if times.is_empty() {
            self.rows.num_rows()
        } else {
            times.partition_point(|&time| time <= until_ns)
        };
        let rest = match self.rows.num_rows() - count {
            // A part of no rows keeps the whole in memory.
            0 => RecordBatch::new_empty(self.rows.schema()),
            left => self.rows.slice(count, left),
        };
        let rows = std::mem::replace(&mut self.rows, rest);
        Ok(Some(rows.slice(0, count)))
    }
}

/// Hands on all rows of these in the order of their times. One may begin before the one before it
/// ends: records came late, or the clock was set back.
///
/// # Errors
/// Those of what the rows are put into, [`Error::Records`], and as [`Source::next_of`].
pub(crate) fn in_order_of_times(
    mut sources: Vec<Source<'_>>,
    kind: &str,
    columns: &SchemaRef,
    mut put: impl FnMut(&RecordBatch) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut waiting, mut waiting_rows) = (Vec::new(), 0);
    loop {
        let next = Source::next_of(&mut sources)?;
        let is_over = next.is_none();
        if let Some((source, _, until)) = next
            && let Some(rows) = sources[source].next_until(until)?
        {
            waiting_rows += rows.num_rows();
            waiting.push(rows);
        }
        if waiting_rows >= ROWS_AT_A_TIME || is_over {
            let rows = concat_batches(columns, &waiting);
            put(&rows.map_err(Error::records("put together", kind))?)?;
            (waiting, waiting_rows) = (Vec::new(), 0);
        }
        if is_over {
            return Ok(());
        }
    }
}

fn open<'a>(found: &'a Found, columns: &'a SchemaRef) -> Result<Rows<'a>, Error> {
    let path = &found.path;
    let (file, metadata) = segment::open(found, PageIndexPolicy::Skip)?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build();
    let reader = reader.map_err(Error::segment("read", path))?;
    let rows = reader.map(move |rows| {
        let rows = rows.and_then(|rows| fitted(&rows, columns));
        rows.map_err(|error| Error::segment("read", path)(error.into()))
    });
    Ok(Box::new(rows))
}
