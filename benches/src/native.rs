//! The structs that the kernel and user space share, as the library has them.

#[rustfmt::skip]
#[path = "../../crates/measure/src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../crates/measure/src/hops/native/bindings.rs"]
mod hops;
#[rustfmt::skip]
#[path = "../../crates/measure/src/response/native/bindings.rs"]
mod response;
#[rustfmt::skip]
#[path = "../../crates/measure/src/rtt/native/bindings.rs"]
mod rtt;

pub use hops::{HOPS_COUNT_PROBES_SENT, HOPS_FLOWS, hops_config, hops_flow};
pub use response::{response_bins, response_flow};
pub use shared::selection;
