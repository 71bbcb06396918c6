//! The structs that the kernel and user space share, as the library has them.

#[rustfmt::skip]
#[path = "../../src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../src/rtt/native/bindings.rs"]
mod bindings;

pub(crate) use bindings::{
    RTT_BATCH_MASK, RTT_COUNT_FLOWS_DELETED, RTT_COUNT_FLOWS_OPENED, RTT_COUNT_SAMPLES,
    RTT_COUNTER_COUNT, RTT_EVENT_BATCH, RTT_EVENT_OPEN, RTT_EVENT_SAMPLE, RTT_FLOW_IS_CLOSED,
    RTT_SAMPLE_IS_LOOP, RTT_SAMPLE_RETRANSMITTED, rtt_batch, rtt_batch_event, rtt_batches,
    rtt_bucket, rtt_config, rtt_event, rtt_flow, rtt_flow_event, rtt_half, rtt_pending,
    rtt_traffic,
};
pub(crate) use shared::{PACKET_VERDICT_COUNT, flow_address, flow_key};

use std::ffi::{CStr, c_char};

/// Of the packets.
pub(crate) fn verdict_names() -> impl Iterator<Item = &'static str> {
    #[expect(unsafe_code, reason = "reads a constant table of the shared C")]
    // SAFETY: the table is constant.
    let names = unsafe { shared::fathom_packet_verdict_names };
    names.into_iter().map(literal)
}

/// Of the counters.
pub(crate) fn counter_names() -> impl Iterator<Item = &'static str> {
    #[expect(unsafe_code, reason = "reads a constant table of the shared C")]
    // SAFETY: the table is constant.
    let names = unsafe { bindings::fathom_rtt_counter_names };
    names.into_iter().map(literal)
}

/// Why a flow opened or closed.
pub(crate) fn reason(number: u8) -> &'static str {
    #[expect(unsafe_code, reason = "reads a constant table of the shared C")]
    // SAFETY: the table is constant.
    let names = unsafe { bindings::fathom_rtt_reason_names };
    literal(names[usize::from(number)])
}

fn literal(text: *const c_char) -> &'static str {
    #[expect(unsafe_code, reason = "reads a string literal of the shared C")]
    // SAFETY: the tables hold string literals only.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().unwrap()
}
