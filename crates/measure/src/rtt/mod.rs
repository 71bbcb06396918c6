//! Passive round-trip times: existing packets matched with what answers them. See `README.md`
//! beside this file.

mod aggregate;
#[cfg(feature = "live")]
mod batches;
mod counts;
mod engine;
mod event;
mod flow;
#[cfg(feature = "live")]
mod live;
mod native;
#[cfg(feature = "live")]
mod object;
mod record;
mod settings;

#[cfg(feature = "live")]
pub use crate::kernel::Options;
pub use aggregate::{Aggregation, Aggregator, GroupBy, RttInterval};
pub use engine::Engine;
pub use event::{Report, SampleBytes};
#[cfg(feature = "live")]
pub use live::RttMonitor;
pub use record::{Observed, RttAggregate, RttFlow, RttSample};
pub use settings::{Method, MethodSet, NoMethod, Samples, Settings};
