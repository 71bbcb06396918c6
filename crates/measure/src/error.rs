//! What can go wrong.

use std::error::Error as StdError;

/// What was attempted, on what, and why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A list of the selection is longer than the kernel's program has room for.
    #[error("{given} {what} are selected, but at most {room} can be")]
    TooMany {
        /// The things of which there are too many.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many there may be.
        room: usize,
    },
    /// A capture file could not be read.
    #[error("cannot read the capture {file}")]
    Capture {
        /// The file.
        file: String,
        /// Why.
        source: fathom_capture::Error,
    },
    /// An interface that does not exist.
    #[error("there is no interface \"{name}\": those here are {known}")]
    NoInterface {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The kernel refused something.
    #[error("cannot {attempt}")]
    Kernel {
        /// What was attempted.
        attempt: String,
        /// Why it failed.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The kernel or the privileges do not allow it.
    #[error("{needs}, but {found}: {remedy}")]
    Unsupported {
        /// What is needed.
        needs: String,
        /// What there is.
        found: String,
        /// What the user can do.
        remedy: String,
    },
}

impl Error {
    /// [`Error::Kernel`] of any cause.
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "only live interfaces need the kernel")
    )]
    pub(crate) fn kernel(
        attempt: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::Kernel {
            attempt: attempt.into(),
            source: source.into(),
        }
    }
}
