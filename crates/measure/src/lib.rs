//! What fathom measures: the packet algorithms, written once as pure C over pointers, and the two
//! ways of running them, in the kernel (feature `live`) and over capture files. It prints nothing
//! and knows no command line.
//!
//! ```no_run
//! use fathom_measure::rtt::{Engine, Report, Settings};
//! use fathom_measure::Replay;
//!
//! let mut engine = Engine::new(&Settings::files(), 1)?;
//! let mut replay = Replay::open("capture.pcap")?;
//! let mut print = |report| {
//!     if let Report::Sample(sample, _) = report {
//!         println!("{} {} ns", sample.flow, sample.rtt_ns.0);
//!     }
//! };
//! while replay.run(&mut engine, &mut print).is_none() {}
//! # Ok::<(), fathom_measure::Error>(())
//! ```

mod by_slot;
pub mod bytes;
mod capture_intervals;
mod counts;
mod error;
mod flow;
pub mod hops;
#[cfg(feature = "live")]
pub mod kernel;
#[cfg(feature = "live")]
mod measurement;
mod native;
#[cfg(feature = "live")]
mod pace;
#[cfg(feature = "live")]
pub mod profile;
mod replay;
pub mod response;
pub mod rtt;
mod selection;
mod table;
pub mod traffic;

pub use capture_intervals::{CaptureInterval, CaptureIntervals};
pub use counts::Counts;
pub use error::Error;
#[cfg(feature = "live")]
pub use measurement::{Interval, Measurement, Portion, Take, wait_for};
pub use replay::{Ended, Interfaces, Offline, Replay};
pub use selection::{Scope, Selection};
pub use table::secret;
