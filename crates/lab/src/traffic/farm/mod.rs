//! Servers that work on a few requests at a time, at a speed that changes, and clients that come
//! whether or not they are answered (open loop): what a balancer stands between. No thread waits
//! busily, and all chance is seeded.

mod client;
mod server;

pub use client::{Arrivals, Outcome};
pub use server::{Pace, Server};

/// Bytes of a request.
const REQUEST_BYTES: usize = 120;
/// Bytes of a response.
const RESPONSE_BYTES: usize = 400;
