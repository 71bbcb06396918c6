//! Segments: Parquet files whose rows are in the order of their times.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::Error;
use crate::layout::{Found, HOUR_S, Layout, SegmentName, make_directory, sync_directory};
use crate::schema::{fitted, united};

/// Few enough that a query for one flow reads little, and that they are in memory while they are
/// written.
const ROW_GROUP_ROWS: usize = 64 << 10;
/// Addresses and Community IDs of so many flows that their columns stay dictionaries.
const DICTIONARY_BYTES: usize = 4 << 20;
/// With what every Parquet file begins and ends.
const MAGIC: [u8; 4] = *b"PAR1";
/// How a file is called that is being written.
const PART: &str = "part";

/// One that is being written, under a name that no reader takes for a segment.
pub(crate) struct SegmentWriter {
    writer: ArrowWriter<File>,
    part: PathBuf,
    path: PathBuf,
}

impl SegmentWriter {
    /// Begins one.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made, [`Error::Segment`] when it cannot have such columns.
    pub(crate) fn create(
        layout: &Layout,
        kind: &str,
        name: &SegmentName,
        columns: SchemaRef,
    ) -> Result<Self, Error> {
        let path = layout.segment(kind, name);
        make_directory(path.parent().unwrap_or(layout.root()))?;
        let part = path.with_extension(PART);
        let file = File::create(&part).map_err(Error::file("make", &part))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .build();
        let writer = ArrowWriter::try_new(file, columns, Some(properties));
        let writer = writer.map_err(Error::segment("begin", &part))?;
        Ok(Self { writer, part, path })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`Error::Segment`] when they cannot be written.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let written = self.writer.write(rows);
        written.map_err(Error::segment("write", &self.part))
    }

    /// Makes it a segment: whole, and on the disk.
    ///
    /// # Errors
    /// [`Error::Segment`] or [`Error::File`] when it cannot be written, synced or renamed.
    pub(crate) fn finish(mut self) -> Result<PathBuf, Error> {
        let file = self.finish_file();
        let synced = file.and_then(|()| {
            let file = File::open(&self.part).map_err(Error::file("open", &self.part))?;
            file.sync_all().map_err(Error::file("sync", &self.part))
        });
        let renamed = synced.and_then(|()| {
            fs::rename(&self.part, &self.path).map_err(Error::file("rename", &self.part))
        });
        if let Err(error) = renamed {
            self.discard();
            return Err(error);
        }
        sync_directory(self.path.parent().unwrap_or(&self.path))?;
        Ok(self.path)
    }

    fn finish_file(&mut self) -> Result<(), Error> {
        let finished = self.writer.finish().map(drop);
        finished.map_err(Error::segment("finish", &self.part))
    }

    /// Gives it up.
    pub(crate) fn discard(self) {
        // What stays is removed when the store is opened again.
        let _ = fs::remove_file(&self.part);
    }
}

/// Rows of a kind and hour, in the order of their times.
pub(crate) struct Hour {
    name: SegmentName,
    batches: Vec<RecordBatch>,
}

/// The rows of a log by their hours. A segment has those of one: so its rows can become rows of
/// longer intervals without those of others.
///
/// # Errors
/// [`Error::Records`] when they cannot be put in order.
pub(crate) fn hours(kind: &str, log: u64, batches: &[RecordBatch]) -> Result<Vec<Hour>, Error> {
    let columns: Vec<_> = batches.iter().map(RecordBatch::schema).collect();
    let Some(columns) = united(&columns).or_else(|| columns.first().cloned()) else {
        return Ok(Vec::new());
    };
    let batches = batches.iter().map(|rows| fitted(rows, &columns));
    let batches = batches
        .collect::<Result<Vec<_>, _>>()
        .and_then(|batches| in_order(batches, &columns));
    let batches = batches.map_err(Error::records("put in order", kind))?;
    let mut hours: Vec<Hour> = Vec::new();
    for rows in batches.into_iter().filter(|rows| rows.num_rows() > 0) {
        let mut seconds: Vec<_> = times_of(&rows)
            .iter()
            .map(|ns| (ns - 1).div_euclid(1_000_000_000))
            .collect();
        // Of a kind without a time.
        seconds.resize(rows.num_rows(), 0);
        let mut begin = 0;
        for seconds in
            seconds.chunk_by(|one, next| one.div_euclid(HOUR_S) == next.div_euclid(HOUR_S))
        {
            let part = rows.slice(begin, seconds.len());
            begin += seconds.len();
            let new = Hour::new(seconds[0], log, part);
            match hours.last_mut() {
                Some(last) if last.name.hour() == new.name.hour() => {
                    last.batches.extend(new.batches);
                }
                _ => hours.push(new),
            }
        }
    }
    Ok(hours)
}

impl Hour {
    fn new(begin_s: i64, log: u64, rows: RecordBatch) -> Self {
        let name = SegmentName {
            begin_s,
            first: log,
            last: log,
            interval_s: 0,
        };
        Self {
            name,
            batches: vec![rows],
        }
    }

    /// Is it in one of these segments of its kind?
    pub(crate) fn is_in(&self, segments: &[Found]) -> bool {
        let Self { name, .. } = self;
        segments
            .iter()
            .any(|found| found.name.hour() == name.hour() && found.name.has_log(name.first))
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.batches.iter().map(|rows| rows.num_rows() as u64).sum()
    }

    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Writes it as a segment.
    ///
    /// # Errors
    /// As those of [`SegmentWriter`].
    pub(crate) fn write(&self, layout: &Layout, kind: &str) -> Result<PathBuf, Error> {
        let columns = self.batches[0].schema();
        let mut segment = SegmentWriter::create(layout, kind, &self.name, columns)?;
        let mut batches = self.batches.iter();
        if let Err(error) = batches.try_for_each(|rows| segment.write(rows)) {
            segment.discard();
            return Err(error);
        }
        segment.finish()
    }
}

/// The same rows in the order of their times, of which most are so already: then nothing is copied.
/// Those of one time stay in their order.
fn in_order(
    batches: Vec<RecordBatch>,
    columns: &SchemaRef,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let times = || batches.iter().flat_map(times_of);
    if times().is_sorted() {
        return Ok(batches);
    }
    let rows = concat_batches(columns, &batches)?;
    let times = times_of(&rows);
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by_key(|&row| times[row as usize]);
    Ok(vec![take_record_batch(&rows, &UInt32Array::from(order))?])
}

/// Nanoseconds since 1970 of each row; of a kind without a time, none.
fn times_of(rows: &RecordBatch) -> &[i64] {
    let times = rows.column_by_name("time");
    let times = times.and_then(|column| column.as_primitive_opt::<TimestampNanosecondType>());
    times.map_or(&[], |times| &times.values()[..])
}

/// Does the file begin and end as a Parquet file does? One that was cut off does not.
pub(crate) fn is_whole(path: &Path) -> bool {
    use std::io::{Seek, SeekFrom};
    let read = || -> std::io::Result<bool> {
        let mut file = File::open(path)?;
        let (mut begin, mut end) = ([0; 4], [0; 4]);
        file.read_exact(&mut begin)?;
        file.seek(SeekFrom::End(-4))?;
        file.read_exact(&mut end)?;
        Ok(begin == MAGIC && end == MAGIC && file.metadata()?.len() > 12)
    };
    read().unwrap_or(false)
}

/// Is it a file that a writer left when it ended?
pub(crate) fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == PART)
}
