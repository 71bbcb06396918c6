//! Captures of simulated TCP traffic, each with the file of round-trip times that are true for it.
//!
//! The traffic is a discrete-event simulation in virtual time: nothing is sent, no clock is read,
//! and the same seed gives the same bytes on every machine. It is what the benchmarks and the
//! agreement checks measure on; it is not a network simulator for anything else. [`write_bulk`]
//! makes few long flows through one bottleneck, [`write_connections`] many short ones with known
//! halves.
//!
//! ```
//! use fathom_benches::{ConnectionsOptions, Recorder, write_connections};
//!
//! let (mut capture, mut truth) = (Vec::new(), Vec::new());
//! let mut recorder = Recorder::new(&mut capture, &mut truth)?;
//! let options = ConnectionsOptions { connections: 10, seed: 1, has_timestamps: true };
//! write_connections(&options, &mut recorder)?;
//! let totals = recorder.finish()?;
//! assert_eq!(totals.packets, 90);
//! assert_eq!(totals.handshake_samples + totals.sequence_samples, 60);
//! # Ok::<(), fathom_benches::Error>(())
//! ```

mod bulk;
mod connections;
pub mod live;
pub mod native;
mod pcap;
pub mod programs;
mod recorder;
pub mod statistics;
mod timestamps;
pub mod wire;

pub use bulk::{BulkOptions, BulkTotals, FLOWS as BULK_FLOWS, write_bulk};
pub use connections::{CLIENT_HALF_NS, ConnectionsOptions, SERVER_HALF_NS, write_connections};
pub use recorder::{Recorder, Totals};

/// What can go wrong while a capture and its truth are written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The capture's file or buffer refused bytes.
    #[error("cannot write the capture")]
    WriteCapture(#[source] std::io::Error),
    /// The truth's file or buffer refused bytes.
    #[error("cannot write the truth file")]
    WriteTruth(#[source] std::io::Error),
}
