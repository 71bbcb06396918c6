//! The structs that the kernel and user space share, as the library has them.

#[expect(
    non_camel_case_types,
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::pedantic,
    clippy::all,
    reason = "generated; the library has the same file"
)]
#[allow(dead_code, reason = "the headers declare more than is needed here")]
#[rustfmt::skip]
#[path = "../../crates/measure/src/native/bindings.rs"]
mod bindings;

pub use bindings::{
    HOPS_COUNT_PROBES_SENT, HOPS_FLOWS, hops_config, hops_flow, response_bins, response_config,
    response_flow, rtt_config, rtt_flow, rtt_pending, selection,
};
