//! What can go wrong with a capture file.

use std::io;
use std::path::PathBuf;

/// Why a capture could not be opened, read or written. Offsets count the bytes of the uncompressed
/// file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be opened.
    #[error("cannot open the capture file {path}")]
    Open {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The source failed, or its compressed form is damaged.
    #[error("cannot read the capture beyond byte {offset}")]
    Read {
        /// How many bytes had been read before.
        offset: u64,
        /// What the system or the decompressor said.
        source: io::Error,
    },

    /// The capture ends in the middle of a record, as it does when its writer was killed. Every
    /// packet before it has been given; a caller warns and carries on.
    #[error("the capture is cut off: it ends at byte {end}, inside what began at byte {offset}")]
    Truncated {
        /// Where the incomplete header, record or block begins: the length of the intact part.
        offset: u64,
        /// Where the bytes end.
        end: u64,
    },

    /// The bytes are not what the format allows here.
    #[error("not a valid capture at byte {offset}: expected {expected}, found {found}")]
    Malformed {
        /// Where the header, record or block begins.
        offset: u64,
        /// What the format asks for.
        expected: String,
        /// What stands there.
        found: String,
    },

    /// The sink of a writer failed.
    #[error("cannot write the capture")]
    Write {
        /// What the system said.
        source: io::Error,
    },

    /// pcap counts seconds in 32 bits: it ends in February 2106.
    #[error("a pcap file cannot hold the time {time_ns} ns since 1970: it ends in 2106")]
    TimeBeyondPcap {
        /// Nanoseconds since the epoch.
        time_ns: u64,
    },

    /// A packet was written to an interface that
    /// [`add_interface`](crate::SectionWriter::add_interface) did not give.
    #[error("cannot write a packet of interface {interface}: only {described} were added")]
    UnknownInterface {
        /// The index asked for.
        interface: u32,
        /// How many interfaces there are.
        described: u32,
    },
}
