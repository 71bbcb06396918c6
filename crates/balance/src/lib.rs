//! A layer-4 balancer: packets of clients go to servers that answer by themselves, and weights
//! follow the latency that clients feel. What it forwards, and how, is in the README beside; it
//! prints nothing and knows no command line.
//!
//! ```
//! use fathom_balance::maglev::{Share, ring};
//!
//! let shares = [("10.0.0.1", 3.0), ("10.0.0.2", 1.0)].map(|(name, weight)| Share { name, weight });
//! let ring = ring(1021, &shares).expect("some weight");
//! let first = ring.iter().filter(|entry| **entry == 0).count();
//! assert_eq!(first, 766);
//! ```

#[cfg(feature = "live")]
pub mod balancer;
pub mod config;
pub mod controller;
#[cfg(feature = "live")]
pub mod datapath;
mod error;
pub mod fleet;
pub mod health;
pub mod journal;
pub mod maglev;
pub mod native;
pub mod record;
pub mod sampling;

pub use error::Error;
