//! Passive round-trip times: existing packets matched with what answers them. See `README.md` beside this file.

mod aggregate;
mod chunked;
mod engine;
mod event;
mod record;
mod settings;
mod table;

pub use aggregate::{Aggregation, Aggregator, GroupBy};
pub use engine::Engine;
pub(crate) use engine::{Dissected, Dissector};
pub(crate) use event::Interfaces;
pub use event::Report;
#[cfg(feature = "live")]
pub(crate) use event::{Transition, decode};
pub use record::{Observed, RttAggregate, RttFlow, RttSample};
pub use settings::{Method, MethodSet, Settings};
