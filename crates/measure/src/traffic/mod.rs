//! Throughput and loss of flows, as a middlebox sees them. See `README.md` beside this file.

mod counts;
mod engine;
mod increase;
#[cfg(feature = "live")]
mod live;
mod native;
mod record;
mod settings;

#[cfg(feature = "live")]
pub use crate::kernel::Options;
pub use engine::Engine;
#[cfg(feature = "live")]
pub use live::TrafficMonitor;
pub use record::TrafficRecord;
pub use settings::Settings;
