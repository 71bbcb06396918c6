//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done with a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the store.
    #[error("cannot {attempt} {path}")]
    File {
        /// What was attempted.
        attempt: &'static str,
        /// On which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A Parquet file.
    #[error("cannot {attempt} the segment {path}")]
    Segment {
        /// What was attempted.
        attempt: &'static str,
        /// On which.
        path: PathBuf,
        /// Why not.
        source: parquet::errors::ParquetError,
    },
    /// Records in memory.
    #[error("cannot {attempt} records of the kind {kind}")]
    Records {
        /// What was attempted.
        attempt: &'static str,
        /// Of which kind.
        kind: String,
        /// Why not.
        source: arrow_schema::ArrowError,
    },
    /// A column of records that were sent is none of what the store has under that name.
    #[error(
        "records of the kind {kind} have the column {column} as {found}, which was {before} before"
    )]
    Column {
        /// The kind.
        kind: String,
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// The type that it has in the store.
        before: String,
    },
    /// Another process writes.
    #[error("{path} is written by process {pid}: one process writes a store, others read it")]
    Taken {
        /// The directory.
        path: PathBuf,
        /// Who does.
        pid: String,
    },
    /// The directory is something else.
    #[error("{path} is no store, and not empty: name an empty directory, or one that is not there")]
    NoStore {
        /// The directory.
        path: PathBuf,
    },
    /// Segments were not put together: the writer ends.
    #[error("segments stay as they are: the writer ends")]
    Ending,
    /// A newer fathom wrote it.
    #[error("{path} has the layout {found}, and this fathom reads up to {known}: use a newer one")]
    Newer {
        /// The directory.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What is known.
        known: u32,
    },
}

impl Error {
    pub(crate) fn file(
        attempt: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File {
            attempt,
            path,
            source,
        }
    }

    pub(crate) fn segment(
        attempt: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Segment {
            attempt,
            path,
            source,
        }
    }

    pub(crate) fn records(
        attempt: &'static str,
        kind: &str,
    ) -> impl FnOnce(arrow_schema::ArrowError) -> Self {
        let kind = kind.to_owned();
        move |source| Self::Records {
            attempt,
            kind,
            source,
        }
    }

    /// Is the disk full?
    pub fn is_full_disk(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>()
                && matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                )
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}
