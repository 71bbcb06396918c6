//! What can go wrong in the lab, each variant naming what was attempted on what.

use std::io;
use std::time::Duration;

/// The result of a lab operation.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed lab operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A namespace could not be created or entered.
    #[error("cannot {action} network namespace `{namespace}` (this needs CAP_SYS_ADMIN)")]
    Namespace {
        /// Name given by the caller.
        namespace: String,
        /// What was attempted: `create` or `enter`.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start `{program}` (is its package installed?)")]
    Start {
        /// Program name or path.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A program ran and reported failure.
    #[error("`{command}` in namespace `{namespace}` failed: {stderr}")]
    Command {
        /// Namespace in which it ran.
        namespace: String,
        /// The whole command line.
        command: String,
        /// Its standard error, trimmed; the exit status when that was empty.
        stderr: String,
    },
    /// A kernel setting of a namespace could not be written.
    #[error("cannot set `{key}` to `{value}` in namespace `{namespace}`")]
    Setting {
        /// Namespace whose setting it is.
        namespace: String,
        /// Path below `/proc/sys`, such as `net/ipv4/ip_forward`.
        key: String,
        /// The refused value.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A TUN or TAP device could not be created.
    #[error("cannot create device `{interface}` in namespace `{namespace}` through /dev/net/tun")]
    Device {
        /// Namespace of the device.
        namespace: String,
        /// Name of the device.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A capture file of an emulated link could not be written.
    #[error("cannot write the capture `{path}`")]
    Capture {
        /// Path of the file.
        path: String,
        /// What went wrong.
        source: Box<fathom_capture::Error>,
    },
    /// A thread, socket or event of the lab itself failed.
    #[error("cannot {action}")]
    Runtime {
        /// What was attempted on what.
        action: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A network was described that the lab does not build.
    #[error("the lab builds no such network: {what}")]
    Arrangement {
        /// What is wrong with the description.
        what: String,
    },
    /// A condition did not come true in time.
    #[error("waited {waited:?} in vain for {what}")]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
    },
}

impl Error {
    /// Wraps an operating system error with the `action` that met it.
    pub(crate) fn runtime(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Runtime {
            action: action.into(),
            source: source.into(),
        }
    }
}
