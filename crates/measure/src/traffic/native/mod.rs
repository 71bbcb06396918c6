//! The C of throughput and loss, and the structs it shares with the kernel, as Rust sees them.

#[rustfmt::skip]
mod bindings;

use crate::native::bindings as shared;
use crate::native::{Frame, fathom_reading, names, packet, read_by, selection};
pub(crate) use bindings::{
    TRAFFIC_COUNT_FILTERED, TRAFFIC_COUNT_FLOWS_DELETED, TRAFFIC_COUNT_FLOWS_OPENED,
    TRAFFIC_COUNT_RECORDS, TRAFFIC_COUNTER_COUNT, traffic_config, traffic_counts, traffic_flow,
};

/// Reads a frame for the measurement of throughput and loss.
pub(crate) fn read(
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &traffic_config,
) -> fathom_reading {
    read_by(bindings::fathom_traffic_read, frame, selection, config)
}

#[expect(unsafe_code, reason = "calls the shared C algorithm")]
impl traffic_flow {
    /// A flow that begins with this packet, which is not taken in yet.
    pub(crate) fn open(packet: &packet) -> Self {
        let mut flow = Self::default();
        // SAFETY: both are valid and distinct, and nothing is kept.
        unsafe { bindings::fathom_traffic_open(&raw mut flow, packet) };
        flow
    }

    /// Takes a packet in.
    pub(crate) fn on_packet(
        &mut self,
        packet: &packet,
        now: u64,
        counters: &mut [u64; TRAFFIC_COUNTER_COUNT as usize],
    ) {
        // SAFETY: all are valid and distinct, there are as many counters as the C side has, and
        // nothing is kept.
        unsafe {
            bindings::fathom_traffic_on_packet(self, packet, now, counters.as_mut_ptr());
        }
    }
}

names! {
    /// What is counted.
    counter_names: fathom_traffic_counter_names[TRAFFIC_COUNTER_COUNT];
}
