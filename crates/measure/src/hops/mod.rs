//! Probes inside live flows: every router on the path of a flow is measured by headers of the flow
//! itself, sent with a low TTL.

#[cfg(feature = "live")]
mod change;
#[cfg(feature = "live")]
mod destination;
#[cfg(feature = "live")]
mod engine;
#[cfg(feature = "live")]
mod event;
mod extension;
#[cfg(feature = "live")]
mod floor;
#[cfg(feature = "live")]
mod flow;
#[cfg(feature = "live")]
mod flows;
#[cfg(feature = "live")]
mod limits;
#[cfg(feature = "live")]
mod live;
mod marks;
#[cfg(feature = "live")]
mod multipath;
#[cfg(feature = "live")]
mod native;
#[cfg(feature = "live")]
mod oneway;
#[cfg(feature = "live")]
mod path;
#[cfg(all(test, feature = "live"))]
mod probe;
#[cfg(feature = "live")]
mod program;
#[cfg(feature = "live")]
mod queue;
mod quote;
#[cfg(feature = "live")]
mod rank;
#[cfg(feature = "live")]
mod record;
#[cfg(feature = "live")]
mod schedule;
#[cfg(feature = "live")]
mod share;
#[cfg(feature = "live")]
mod silence;

#[cfg(feature = "live")]
pub use engine::Settings;
pub use extension::Extensions;
#[cfg(feature = "live")]
pub use live::{Options, Owner, Prober};
pub use marks::Marks;
#[cfg(feature = "live")]
pub use program::UserPrograms;
pub use quote::Quoted;
#[cfg(feature = "live")]
pub use record::{Congestion, HopProbe, HopSummary, Outcome, Paths, Report, RouteChange};
#[cfg(feature = "live")]
pub use schedule::Rate;
