//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Why a message could not be read, or an export not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that are no IPFIX.
    #[error("read an IPFIX message: {reason}, {offset} bytes into the {part}")]
    Malformed {
        /// What was being read: `message`, `set`, `template` or `record`.
        part: &'static str,
        /// Where in it.
        offset: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A text that names no destination.
    #[error("read the export destination `{text}`: {reason}")]
    Destination {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A host name without address.
    #[error("look up the collector {host}")]
    Resolve {
        /// Host and port.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// A collector that cannot be reached; an export that is under way goes on trying.
    #[error("connect to the collector {destination}")]
    Connect {
        /// Where to.
        destination: String,
        /// What the system or TLS says.
        source: io::Error,
    },
    /// A file of certificates that cannot be used.
    #[error("read the certificates in {}: {reason}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An address that cannot be listened at.
    #[error("listen at {address}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// A thread that the system refuses.
    #[error("start the thread that sends to {destination}")]
    Thread {
        /// Where it would send to.
        destination: String,
        /// What the system says.
        source: io::Error,
    },
}
