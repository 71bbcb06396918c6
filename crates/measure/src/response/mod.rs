//! Response latency from one direction only: what clients wait, from the gaps between their
//! requests. See `README.md` beside this file.

mod aggregate;
mod counts;
mod engine;
#[cfg(feature = "live")]
mod epoch_reader;
mod estimate;
mod evidence;
#[cfg(feature = "live")]
mod live;
#[doc(hidden)]
pub mod native;
mod record;
mod reverse;
mod settings;
#[cfg(feature = "live")]
mod waits;

#[cfg(feature = "live")]
pub use crate::kernel::Options;
pub use aggregate::{GroupBy, Grouping, ResponseAggregator, ResponseInterval};
pub use engine::Engine;
#[cfg(feature = "live")]
pub use epoch_reader::{EpochReader, FlowEpoch, StoredFlow};
pub use estimate::{Confidence, Reason};
#[cfg(feature = "live")]
pub use live::ResponseMonitor;
pub use record::{ResponseAggregate, ResponseEpoch, ResponseWait};
pub use settings::{Estimator, NoEstimator, Settings};
