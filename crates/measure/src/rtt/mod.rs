//! Passive round-trip times: existing packets matched with what answers them. See `README.md` beside this file.

mod aggregate;
mod chunked;
mod engine;
mod event;
mod flow;
mod record;
mod settings;

pub use aggregate::{Aggregation, Aggregator, GroupBy, RttInterval};
pub use engine::Engine;
pub use event::{Report, SampleBytes};
#[cfg(feature = "live")]
pub(crate) use event::{Transition, decode};
pub(crate) use event::{flow_of, tags};
pub use record::{Observed, RttAggregate, RttFlow, RttSample};
pub use settings::{Method, MethodSet, Settings};
