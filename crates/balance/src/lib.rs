//! A layer-4 balancer: packets of clients go to servers that answer by themselves, and weights follow the latency that clients feel. What it
//! forwards, and how, is in the README beside; it prints nothing and knows no command line.

#[cfg(feature = "live")]
pub mod balancer;
pub mod config;
pub mod controller;
mod error;
pub mod fleet;
pub mod health;
#[cfg(feature = "live")]
pub mod live;
pub mod maglev;
pub mod native;
pub mod record;

pub use error::Error;
