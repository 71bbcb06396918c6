//! What can go wrong.

use std::error::Error as StdError;
use std::path::PathBuf;

/// What was attempted, on what, and why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something.
    #[error("cannot {attempt}")]
    Kernel {
        /// What was attempted.
        attempt: String,
        /// Why it failed.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The kernel, the privileges or the machine do not allow it.
    #[error("{needs}, but {found}: {remedy}")]
    Unsupported {
        /// What is needed.
        needs: String,
        /// What there is.
        found: String,
        /// What the user can do.
        remedy: String,
    },
    /// What another process left behind, and still forwards, is not what this program can go on
    /// with.
    #[error("{} holds {what}: run `fathom balance stop` and start anew, which ends the connections", pins.display())]
    Incompatible {
        /// Where.
        pins: PathBuf,
        /// What.
        what: String,
    },
    /// There is no such interface.
    #[error("there is no interface \"{name}\"")]
    NoInterface {
        /// What was asked for.
        name: String,
    },
    /// The tables that are in use have no room for what is configured.
    #[error(
        "{what} do not fit into the tables, which were made when forwarding began: run `fathom balance stop` and start anew, which ends the connections"
    )]
    NoRoom {
        /// The things of which there are too many.
        what: &'static str,
    },
    /// The measurement refused something.
    #[error(transparent)]
    Measure(#[from] fathom_measure::Error),
}

impl Error {
    /// [`Error::Kernel`] of any cause.
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "only a running balancer needs the kernel")
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
