//! The C of round trips, and the structs it shares with the kernel, as Rust sees them.

#[rustfmt::skip]
mod bindings;

use crate::native::bindings as shared;
use crate::native::{Frame, fathom_reading, names, packet, read_by, selection};
pub(crate) use bindings::{
    RTT_ACTION_CLOSED, RTT_ACTION_FORGET, RTT_ACTION_OPEN, RTT_COUNT_FILTERED,
    RTT_COUNT_FLOWS_DELETED, RTT_COUNT_FLOWS_OPENED, RTT_COUNT_PENDING_EXPIRED,
    RTT_COUNT_REQUESTS_DISPLACED, RTT_COUNT_SAMPLES, RTT_COUNTER_COUNT, RTT_EVENT_CLOSE,
    RTT_EVENT_OPEN, RTT_FLOW_IS_CLOSED, RTT_REASON_END, RTT_REASON_EVICTED, RTT_REASON_REPLACED,
    RTT_REASON_TIMEOUT, RTT_SAMPLE_IS_LOOP, RTT_SAMPLE_RETRANSMITTED, rtt_bucket, rtt_config,
    rtt_event, rtt_flow, rtt_half, rtt_output, rtt_pending, rtt_traffic,
};
#[cfg(feature = "live")]
pub(crate) use bindings::{
    RTT_BATCH_MASK, RTT_BATCH_SAMPLES, RTT_BATCH_SHIFT, RTT_EVENT_BATCH, RTT_EVENT_SAMPLE,
    rtt_batch, rtt_batch_event, rtt_batches, rtt_flow_event,
};

/// Reads a frame for the measurement of round trips.
pub(crate) fn read(
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &rtt_config,
) -> fathom_reading {
    read_by(bindings::fathom_rtt_read, frame, selection, config)
}

/// A flow's state with the pending entries behind it.
pub(crate) struct FlowState<'a> {
    pub(crate) flow: &'a mut rtt_flow,
    pub(crate) pending: &'a mut [rtt_pending],
}

/// Entries of 16 bytes behind a flow, for so many slots of a direction: these, and marks if bytes
/// are counted.
pub(crate) const fn pending_entries(slots: usize, has_bytes: bool) -> usize {
    if has_bytes { 2 + 4 * slots } else { 2 * slots }
}

/// Slots of a direction in so many entries.
pub(crate) const fn slots_in(entries: usize, has_bytes: bool) -> usize {
    if has_bytes { entries / 4 } else { entries / 2 }
}

/// Takes a packet into the algorithm; `output` tells what comes of it. There are as many buckets as
/// `config` says.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
pub(crate) fn on_packet(
    state: Option<FlowState<'_>>,
    buckets: &mut [rtt_bucket],
    packet: &packet,
    now: u64,
    config: &rtt_config,
    output: &mut rtt_output,
) {
    assert!(buckets.len() > config.bucket_mask as usize);
    let mut state = state;
    let entries = state.as_ref().map_or(0, |state| state.pending.len());
    let size = slots_in(entries, config.has_bytes != 0) as u32;
    let flow = state
        .as_mut()
        .map_or(std::ptr::null_mut(), |state| std::ptr::from_mut(state.flow));
    let slots = state.map_or(std::ptr::null_mut(), |state| state.pending.as_mut_ptr());
    let buckets = buckets.as_mut_ptr();
    // SAFETY: pointers are null or valid and distinct, there are entries for `size` slots, the
    // index of a bucket is at most the mask, and nothing is kept.
    unsafe {
        bindings::fathom_rtt_on_packet(flow, slots, size, buckets, packet, now, config, output);
    }
}

/// Starts a zeroed flow with its first packet, as `output.actions` asked for.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
pub(crate) fn open(
    state: &mut FlowState<'_>,
    packet: &packet,
    now: u64,
    config: &rtt_config,
    output: &mut rtt_output,
) {
    let size = slots_in(state.pending.len(), config.has_bytes != 0) as u32;
    // SAFETY: all pointers are valid and distinct, there are entries for `size` slots, and nothing
    // is kept.
    unsafe {
        bindings::fathom_rtt_open(
            state.flow,
            state.pending.as_mut_ptr(),
            size,
            packet,
            now,
            config,
            output,
        );
    }
}

/// What is pending, in rings of twice the size.
#[expect(unsafe_code, reason = "calls shared C")]
pub(crate) fn grown(
    flow: &rtt_flow,
    from: &[rtt_pending],
    config: &rtt_config,
) -> Box<[rtt_pending]> {
    let has_bytes = config.has_bytes != 0;
    let size = slots_in(from.len(), has_bytes);
    let mut larger =
        vec![rtt_pending::default(); pending_entries(size * 2, has_bytes)].into_boxed_slice();
    // SAFETY: `from` has entries for `size` slots, `larger` for twice that.
    unsafe {
        bindings::fathom_rtt_grow(
            flow,
            from.as_ptr(),
            size as u32,
            config,
            larger.as_mut_ptr(),
        );
    }
    larger
}

names! {
    /// Of methods.
    method_names: fathom_rtt_method_names[RTT_METHOD_COUNT];
    /// Why flows open and close.
    reason_names: fathom_rtt_reason_names[RTT_REASON_COUNT];
    /// What is counted.
    counter_names: fathom_rtt_counter_names[RTT_COUNTER_COUNT];
}
