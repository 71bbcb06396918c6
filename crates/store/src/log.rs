//! The log: what was taken and is in no segment yet.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::layout::{Layout, sync_directory};
use crate::rows::times_of;
use crate::{Batch, Error, Number, frame};

/// A log, and where in it what is. The records themselves are on the disk alone, so however many
/// there are, they take no memory.
pub(crate) struct Log {
    pub(crate) number: u64,
    path: PathBuf,
    file: File,
    /// How long the file is, in whole frames.
    length: u64,
    kinds: BTreeMap<Arc<str>, Logged>,
    /// What those take that the disk had no room for.
    memory_bytes: usize,
}

/// What a log has of a kind.
#[derive(Default)]
pub(crate) struct Logged {
    /// In the order in which they came.
    pub(crate) frames: Vec<Frame>,
    /// What the disk had no room for.
    pub(crate) in_memory: Vec<RecordBatch>,
    /// All columns that its records have, the newest last.
    pub(crate) columns: Vec<SchemaRef>,
}

/// Where a batch of records is.
pub(crate) struct Frame {
    at: u64,
    bytes: usize,
    /// None of its records is older. Nanoseconds since 1970.
    pub(crate) begin_ns: i64,
    pub(crate) rows: u64,
}

/// What was in a log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Of those that were sent.
    pub(crate) numbers: Vec<Number>,
    /// At its end, the beginning of a frame.
    pub(crate) cut_off_bytes: u64,
    /// From what is no frame to the end.
    pub(crate) damaged_bytes: u64,
}

impl Log {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made.
    pub(crate) fn create(layout: &Layout, number: u64) -> Result<Self, Error> {
        let path = layout.log(number);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).open(&path);
        let file = file.map_err(Error::file("make", &path))?;
        sync_directory(&layout.log_directory())?;
        Ok(Self::of_file(number, path, file))
    }

    /// One that a writer before left. What is in it may be of kinds and hours that have their
    /// segments.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read.
    pub(crate) fn open(layout: &Layout, number: u64) -> Result<(Self, Replayed), Error> {
        let path = layout.log(number);
        let file = File::open(&path).map_err(Error::file("open", &path))?;
        let mut log = Self::of_file(number, path, file);
        let path = log.path.clone();
        let replayed = replay(&path, |batch, bytes| log.take(&batch, bytes))?;
        Ok((log, replayed))
    }

    fn of_file(number: u64, path: PathBuf, file: File) -> Self {
        Self {
            number,
            path,
            file,
            length: 0,
            kinds: BTreeMap::new(),
            memory_bytes: 0,
        }
    }

    /// Adds a batch. If the disk does not take it, it stays in memory.
    ///
    /// # Errors
    /// [`Error::Records`] when it cannot be encoded, [`Error::File`] when it cannot be written.
    pub(crate) fn append(&mut self, batch: Batch) -> Result<(), Error> {
        let frame = batch.frame();
        let written = frame.and_then(|frame| self.append_frame(&frame, &batch));
        if written.is_err() {
            self.memory_bytes += batch.memory_bytes();
            let logged = self.kinds.entry(batch.kind).or_default();
            logged.has(batch.rows.schema_ref());
            logged.in_memory.push(batch.rows);
        }
        written
    }

    /// Adds a batch and its frame. If that fails, the log is as before.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub(crate) fn append_frame(&mut self, frame: &[u8], batch: &Batch) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(frame) {
            // What follows a part of a frame could not be read.
            let cut = self.file.set_len(self.length);
            cut.map_err(Error::file("cut", &self.path))?;
            return Err(Error::file("write to", &self.path)(error));
        }
        self.take(batch, frame.len());
        Ok(())
    }

    /// The next bytes of the file are the frame of a batch.
    fn take(&mut self, batch: &Batch, bytes: usize) {
        let logged = self.kinds.entry(batch.kind.clone()).or_default();
        logged.has(batch.rows.schema_ref());
        logged.frames.push(Frame {
            at: self.length,
            bytes,
            begin_ns: times_of(&batch.rows).iter().min().copied().unwrap_or(0),
            rows: batch.rows.num_rows() as u64,
        });
        self.length += bytes as u64;
    }

    /// The kinds of which it has something.
    pub(crate) fn kinds(&self) -> Vec<Arc<str>> {
        self.kinds.keys().cloned().collect()
    }

    /// What it has of a kind.
    pub(crate) fn kind(&self, kind: &str) -> Option<&Logged> {
        self.kinds.get(kind)
    }

    /// The records of a frame; `None`: it is damaged.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read.
    pub(crate) fn read(&self, frame: &Frame) -> Result<Option<RecordBatch>, Error> {
        let mut bytes = vec![0; frame.bytes];
        let read = self.file.read_exact_at(&mut bytes, frame.at);
        read.map_err(Error::file("read", &self.path))?;
        Ok(match frame::read(&bytes) {
            frame::Found::Frame(batch, _, _) => Some(batch.rows),
            _ => None,
        })
    }

    /// A kind has its segments: its records need be here no more.
    pub(crate) fn forget(&mut self, kind: &str) {
        if let Some(logged) = self.kinds.remove(kind) {
            let bytes = logged.in_memory.iter();
            self.memory_bytes -= bytes.map(RecordBatch::get_array_memory_size).sum::<usize>();
        }
    }

    /// What it takes of the disk, and of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.length + self.memory_bytes as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0 && self.kinds.is_empty()
    }

    /// What was appended outlives a crash of the host.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be synced.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let synced = self.file.sync_data();
        synced.map_err(Error::file("sync", &self.path))
    }

    /// Removes it: segments have what it had.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be removed.
    pub(crate) fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file("remove", &self.path))
    }
}

impl Logged {
    /// There are records with these columns.
    fn has(&mut self, columns: &SchemaRef) {
        if self.columns.last() != Some(columns) {
            self.columns.retain(|one| one != columns);
            self.columns.push(columns.clone());
        }
    }
}

/// Reads a log as far as it can be read, and gives each batch, and how many bytes of the file it
/// took; a log that is not there has nothing.
///
/// # Errors
/// [`Error::File`] when the file cannot be read.
pub(crate) fn replay(path: &Path, mut take: impl FnMut(Batch, usize)) -> Result<Replayed, Error> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replayed::default()),
        bytes => bytes.map_err(Error::file("read", path))?,
    };
    let mut replayed = Replayed::default();
    let mut rest = bytes.as_slice();
    loop {
        match frame::read(rest) {
            frame::Found::Frame(batch, number, length) => {
                replayed.numbers.extend(number);
                take(batch, length);
                rest = &rest[length..];
            }
            frame::Found::CutOff => replayed.cut_off_bytes = rest.len() as u64,
            frame::Found::Damaged => replayed.damaged_bytes = rest.len() as u64,
            frame::Found::Nothing => {}
        }
        let is_over = rest.is_empty() || replayed.cut_off_bytes + replayed.damaged_bytes > 0;
        if is_over {
            return Ok(replayed);
        }
    }
}
