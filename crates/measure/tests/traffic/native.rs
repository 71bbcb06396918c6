//! The C of user space, with a table that forgets nothing.

#[rustfmt::skip]
#[path = "../../src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../src/traffic/native/bindings.rs"]
mod bindings;

use std::collections::BTreeMap;

use fathom_measure::bytes::bytes_of;

pub(crate) use bindings::{
    TRAFFIC_COUNT_FLOWS_OPENED, TRAFFIC_COUNTER_COUNT, TRAFFIC_HALF_ARRIVES, traffic_config,
    traffic_flow,
};
pub(crate) use shared::PACKET_VERDICT_COUNT;
use shared::{PACKET_LINK_ETHERNET, PACKET_MEASURABLE, fathom_reading};

use crate::frame::Frame;

/// The interface of test runs in the kernel: loopback.
const INTERFACE: u32 = 1;

/// All flows by their keys' bytes, and what was counted: packets by verdict, then our own doings.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) flows: BTreeMap<Vec<u8>, traffic_flow>,
    pub(crate) verdicts: [u64; PACKET_VERDICT_COUNT as usize],
    pub(crate) counters: [u64; TRAFFIC_COUNTER_COUNT as usize],
}

pub(crate) fn config() -> traffic_config {
    traffic_config {
        has_tunnels: 1,
        ..traffic_config::default()
    }
}

#[expect(unsafe_code, reason = "calls the shared C")]
pub(crate) fn run(frames: &[(u64, Frame)]) -> Run {
    // The library has the C.
    let _ = fathom_measure::traffic::Settings::files();
    let mut run = Run::default();
    for (now, frame) in frames {
        let mut reading = fathom_reading::default();
        // SAFETY: the parser reads only within the given length, and keeps nothing.
        unsafe {
            bindings::fathom_traffic_read(
                frame.data.as_ptr(),
                frame.data.len() as u32,
                frame.length,
                PACKET_LINK_ETHERNET,
                INTERFACE,
                std::ptr::null(),
                &config(),
                &raw mut reading,
            );
        }
        run.verdicts[reading.verdict as usize] += 1;
        if reading.verdict != PACKET_MEASURABLE {
            continue;
        }
        let key = bytes_of(&reading.packet.key).to_vec();
        let flow = run.flows.entry(key).or_insert_with(|| {
            run.counters[TRAFFIC_COUNT_FLOWS_OPENED as usize] += 1;
            let mut flow = traffic_flow::default();
            // SAFETY: both are valid and distinct.
            unsafe { bindings::fathom_traffic_open(&raw mut flow, &raw const reading.packet) };
            flow
        });
        // SAFETY: all are valid and distinct, and there are as many counters as there must be.
        unsafe {
            bindings::fathom_traffic_on_packet(
                flow,
                &raw const reading.packet,
                *now,
                run.counters.as_mut_ptr(),
            );
        }
    }
    run
}
