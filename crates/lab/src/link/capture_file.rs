//! A capture file of what passes one end of a link, written by the threads of both directions.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fathom_capture::{LinkType, Writer};

use super::device::Layer;
use crate::{Error, Result};

/// An open capture file with nanosecond times.
pub(crate) struct CaptureFile {
    path: PathBuf,
    content: Mutex<Content>,
}

struct Content {
    writer: Writer<File>,
    /// The first failure; nothing is written after it.
    failure: Option<fathom_capture::Error>,
}

impl CaptureFile {
    pub(crate) fn create(path: &Path, layer: Layer) -> Result<Self> {
        let failed = |source| capture_error(path, source);
        let file =
            File::create(path).map_err(|source| failed(fathom_capture::Error::Write { source }))?;
        let link_type = match layer {
            Layer::Ip => LinkType::RAW,
            Layer::Ethernet => LinkType::ETHERNET,
        };
        let writer = Writer::new(file, link_type, 0).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            content: Mutex::new(Content {
                writer,
                failure: None,
            }),
        })
    }

    /// Appends a whole packet; a failure is kept for [`CaptureFile::flush`].
    pub(crate) fn write(&self, time_ns: u64, packet: &[u8]) {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        if content.failure.is_none() {
            let result = content.writer.write(time_ns, packet.len() as u32, packet);
            content.failure = result.err();
        }
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        match content.failure.take() {
            Some(failure) => Err(failure),
            None => content.writer.flush(),
        }
        .map_err(|source| capture_error(&self.path, source))
    }
}

impl std::fmt::Debug for CaptureFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CaptureFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

fn capture_error(path: &Path, source: fathom_capture::Error) -> Error {
    Error::Capture {
        path: path.display().to_string(),
        source: Box::new(source),
    }
}
