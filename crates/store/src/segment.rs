//! Segments: Parquet files whose rows are in the order of their times.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::Error;
use crate::layout::{Layout, SegmentName, make_directory, sync_directory};

/// Few enough that a query for one flow reads little.
const ROW_GROUP_ROWS: usize = 64 << 10;
/// What the rows of a group take of memory while they are written.
const ROW_GROUP_BYTES: usize = 6 << 20;
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
        let writer = properties_of(&columns)
            .and_then(|properties| ArrowWriter::try_new(file, columns, Some(properties)));
        let writer = writer.map_err(Error::segment("begin", &part))?;
        Ok(Self { writer, part, path })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`Error::Segment`] when they cannot be written.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let written = self.writer.write(rows).and_then(|()| {
            let is_much = self.writer.memory_size() > ROW_GROUP_BYTES;
            if is_much { self.writer.flush() } else { Ok(()) }
        });
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

/// How columns are written. Of texts there are few and each often, so they have dictionaries.
/// Numbers are told by how far each is from the one before: to look one up in a dictionary takes
/// longer, and many a column is 0 everywhere.
fn properties_of(columns: &SchemaRef) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES);
    let columns = ArrowSchemaConverter::new().convert(columns)?;
    for column in columns.columns() {
        if let PhysicalType::INT32 | PhysicalType::INT64 = column.physical_type() {
            builder = builder
                .set_column_dictionary_enabled(column.path().clone(), false)
                .set_column_encoding(column.path().clone(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(builder.build())
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
