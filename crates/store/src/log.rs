//! The log: what was taken and is in no segment yet.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::layout::{Layout, sync_directory};
use crate::{Batch, Error, Number, frame};

/// A log that is written.
pub(crate) struct Log {
    pub(crate) number: u64,
    path: PathBuf,
    file: File,
    /// How long the file is, in whole frames.
    length: u64,
}

/// What was in a log.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub(crate) batches: Vec<Batch>,
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
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(Error::file("make", &path))?;
        sync_directory(&layout.log_directory())?;
        Ok(Self {
            number,
            path,
            file,
            length: 0,
        })
    }

    /// Adds a batch. If that fails, the log is as before.
    ///
    /// # Errors
    /// [`Error::Records`] when it cannot be encoded, [`Error::File`] when it cannot be written.
    pub(crate) fn append(&mut self, batch: &Batch) -> Result<(), Error> {
        self.append_frame(&frame::write(batch)?)
    }

    /// Adds the bytes of a frame. If that fails, the log is as before.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub(crate) fn append_frame(&mut self, frame: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(frame) {
            // What follows a part of a frame could not be read.
            let cut = self.file.set_len(self.length);
            cut.map_err(Error::file("cut", &self.path))?;
            return Err(Error::file("write to", &self.path)(error));
        }
        self.length += frame.len() as u64;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
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

/// Reads a log as far as it can be read; one that is not there has nothing.
///
/// # Errors
/// [`Error::File`] when the file cannot be read.
pub(crate) fn replay(path: &Path) -> Result<Replayed, Error> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replayed::default()),
        bytes => bytes.map_err(Error::file("read", path))?,
    };
    let mut replayed = Replayed::default();
    let mut rest = bytes.as_slice();
    loop {
        match frame::read(rest) {
            frame::Found::Frame(batch, number, length) => {
                replayed.batches.push(batch);
                replayed.numbers.extend(number);
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
