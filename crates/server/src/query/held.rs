//! The beginning of an answer, held back: as long as nobody has seen it, the question can be asked
//! again.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// More is not held back.
const HELD_BYTES: usize = 16 << 20;

/// Where an answer goes.
pub(super) struct Held {
    /// `None`: standard output.
    path: Option<PathBuf>,
    beginning: Vec<u8>,
    /// From the first byte on that is not held back.
    output: Option<Box<dyn Write + Send>>,
}

impl Held {
    /// To this file, or to standard output.
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            beginning: Vec::new(),
            output: None,
        }
    }

    /// Has something been written that cannot be taken back?
    pub(super) fn has_passed(&self) -> bool {
        self.output.is_some()
    }

    /// Forgets what is held back.
    pub(super) fn forget(&mut self) {
        self.beginning.clear();
    }

    /// Writes all: the answer is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.pass()?.flush()
    }

    fn pass(&mut self) -> io::Result<&mut (dyn Write + Send)> {
        let output: Box<dyn Write + Send> = match (self.output.take(), &self.path) {
            (Some(output), _) => output,
            (None, Some(path)) => Box::new(File::create(path).map_err(|error| {
                let told = format!("cannot write to {}: {error}", path.display());
                io::Error::new(error.kind(), told)
            })?),
            (None, None) => Box::new(io::stdout()),
        };
        let output = self.output.insert(output);
        output.write_all(&self.beginning)?;
        self.beginning.clear();
        Ok(output)
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.beginning.extend_from_slice(bytes);
        if self.beginning.len() > HELD_BYTES {
            self.pass()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: see [`Held::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
