//! Functions of the user's own: one that edits probes, one that reads their answers (`program.h`).

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::kernel::{check_function, link};

/// BPF objects that hold them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserPrograms {
    /// Has `fathom_edit`, which edits each probe before it is sent.
    pub probe: Option<PathBuf>,
    /// Has `fathom_extract`, which takes eight bytes out of each answer.
    pub reply: Option<PathBuf>,
}

impl UserPrograms {
    /// The programs with the user's functions in them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when a file cannot be read, lacks its function, or does not fit.
    pub(super) fn link_into<'a>(&self, object: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        for (file, function) in [
            (&self.probe, "fathom_edit"),
            (&self.reply, "fathom_extract"),
        ] {
            if let Some(file) = file {
                check_function(file, function)?;
            }
        }
        let files = self.files();
        if files.is_empty() {
            return Ok(Cow::Borrowed(object));
        }
        link(object, &files).map(Cow::Owned)
    }

    /// Says whose programs they are that the kernel refused.
    pub(super) fn explain(&self, error: Error) -> Error {
        let names: Vec<_> = self
            .files()
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        match error {
            Error::Kernel { attempt, source } if !names.is_empty() => Error::Kernel {
                attempt: format!("{attempt} with {}", names.join(" and ")),
                source,
            },
            other => other,
        }
    }

    /// Each once.
    fn files(&self) -> Vec<&Path> {
        let mut files: Vec<&Path> = self
            .probe
            .iter()
            .chain(&self.reply)
            .map(PathBuf::as_path)
            .collect();
        files.dedup();
        files
    }
}
