//! Segments: Parquet files whose rows are in the order of their times.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::Error;
use crate::concatenate::copy;
use crate::layout::{Found, Layout, SegmentName, make_directory, sync_directory};

/// Few enough that a query for one flow reads little, and that what is written needs little memory,
/// and stays in the processor's cache: four times as many take a quarter more of its time, and half
/// as many more room in the file.
const ROW_GROUP_ROWS: usize = 8 << 10;
/// What the rows of a group take in the file, about.
const ROW_GROUP_BYTES: usize = 6 << 20;
/// Addresses and Community IDs of so many flows that their columns stay dictionaries.
const DICTIONARY_BYTES: usize = 4 << 20;
/// With what every Parquet file begins and ends.
const MAGIC: [u8; 4] = *b"PAR1";
/// How a file is called that is being written.
const PART: &str = "part";

/// A file that is not a segment yet: its name is one that no reader takes for it.
pub(crate) struct Part {
    part: PathBuf,
    path: PathBuf,
}

impl Part {
    fn create(layout: &Layout, kind: &str, name: &SegmentName) -> Result<(Self, File), Error> {
        let path = layout.segment(kind, name);
        make_directory(path.parent().unwrap_or(layout.root()))?;
        let part = path.with_extension(PART);
        let file = File::create(&part).map_err(Error::file("make", &part))?;
        Ok((Self { part, path }, file))
    }

    /// Has it on the disk. If not all was written, it is gone.
    fn synced(self, written: Result<(), Error>) -> Result<Self, Error> {
        let synced = written.and_then(|()| {
            let file = File::open(&self.part).map_err(Error::file("open", &self.part))?;
            file.sync_all().map_err(Error::file("sync", &self.part))
        });
        match synced {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Makes it a segment.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be renamed; it is gone then.
    pub(crate) fn appear(self) -> Result<PathBuf, Error> {
        if let Err(error) = fs::rename(&self.part, &self.path) {
            let error = Error::file("rename", &self.part)(error);
            self.discard();
            return Err(error);
        }
        sync_directory(self.path.parent().unwrap_or(&self.path))?;
        Ok(self.path)
    }

    fn discard(self) {
        // What stays is removed when the store is opened again.
        let _ = fs::remove_file(&self.part);
    }
}

/// One that is being written.
pub(crate) struct SegmentWriter {
    writer: ArrowWriter<File>,
    part: Part,
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
        let (part, file) = Part::create(layout, kind, name)?;
        let writer = properties_of(&columns)
            .and_then(|properties| ArrowWriter::try_new(file, columns, Some(properties)));
        let writer = writer.map_err(Error::segment("begin", &part.part))?;
        Ok(Self { writer, part })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`Error::Segment`] when they cannot be written.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), Error> {
        let written = self.writer.write(rows).and_then(|()| {
            // `memory_size` has a megabyte of each column of integers, most of it never touched.
            let is_much = self.writer.in_progress_size() > ROW_GROUP_BYTES;
            if is_much { self.writer.flush() } else { Ok(()) }
        });
        written.map_err(Error::segment("write", &self.part.part))
    }

    /// Has all of it on the disk.
    ///
    /// # Errors
    /// [`Error::Segment`] or [`Error::File`] when it cannot be written or synced; it is gone then.
    pub(crate) fn finish(mut self) -> Result<Part, Error> {
        let written = self.writer.finish().map(drop);
        let written = written.map_err(Error::segment("finish", &self.part.part));
        self.part.synced(written)
    }

    /// The same with the row groups of these segments, as they are.
    ///
    /// # Errors
    /// As [`SegmentWriter::finish`], and when one of them cannot be read.
    pub(crate) fn concatenate(self, segments: &[Found]) -> Result<Part, Error> {
        let Self { writer, part } = self;
        let copy_all = || {
            let (mut writer, _) = writer
                .into_serialized_writer()
                .map_err(Error::segment("begin", &part.part))?;
            for found in segments {
                copy(found, &mut writer)?;
            }
            let closed = writer.close().map(drop);
            closed.map_err(Error::segment("finish", &part.part))
        };
        let copied = copy_all();
        part.synced(copied)
    }

    /// Gives it up.
    pub(crate) fn discard(self) {
        self.part.discard();
    }
}

/// How columns are written. Of texts there are few and each often, so they have dictionaries.
/// Numbers are told by how far each is from the one before: to look one up in a dictionary takes
/// longer, and many a column is 0 everywhere. What the least and the greatest value is, is told for
/// each group: for each page it takes a tenth of the time, and a group has few.
fn properties_of(columns: &SchemaRef) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
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

/// Opens one that is there, and reads what it says of itself.
///
/// # Errors
/// [`Error::File`] or [`Error::Segment`] when it cannot be read.
pub(crate) fn open(
    found: &Found,
    pages: PageIndexPolicy,
) -> Result<(File, ArrowReaderMetadata), Error> {
    let file = File::open(&found.path).map_err(Error::file("open", &found.path))?;
    let options = ArrowReaderOptions::default().with_page_index_policy(pages);
    let metadata = ArrowReaderMetadata::load(&file, options);
    let metadata = metadata.map_err(Error::segment("read", &found.path))?;
    Ok((file, metadata))
}

/// The columns of one that is there.
///
/// # Errors
/// As [`open`].
pub(crate) fn columns_of(found: &Found) -> Result<SchemaRef, Error> {
    let (_, metadata) = open(found, PageIndexPolicy::Skip)?;
    Ok(metadata.schema().clone())
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
