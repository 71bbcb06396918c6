//! The C of user space, with a table that forgets nothing.

#[rustfmt::skip]
#[path = "../../src/native/bindings.rs"]
mod shared;
#[rustfmt::skip]
#[path = "../../src/response/native/bindings.rs"]
mod bindings;

use std::collections::HashMap;

use fathom_measure::bytes::bytes_of;

pub(crate) use bindings::{
    RESPONSE_ARRIVES, response_batches, response_bins, response_config, response_epoch,
    response_flow, response_handshake, response_modes,
};
use bindings::{
    RESPONSE_BY_FIXED, RESPONSE_BY_MODES, RESPONSE_COUNT_EPOCHS, RESPONSE_COUNTER_COUNT,
    RESPONSE_DIRECTION_NONE, response_gaps,
};
use shared::{
    PACKET_LINK_ETHERNET, PACKET_MEASURABLE, PACKET_VERDICT_COUNT, fathom_reading, flow_key,
};

/// The interface of test runs in the kernel: loopback.
const INTERFACE: u32 = 1;
/// Places for handshakes: few, so that they collide.
pub(crate) const HANDSHAKES: u32 = 4;

/// Counters of the kernel's: verdicts, then our own doings.
pub(crate) const COUNTERS: usize = (PACKET_VERDICT_COUNT + RESPONSE_COUNTER_COUNT) as usize;
/// Which of them counts epochs.
pub(crate) const EPOCHS: usize = (PACKET_VERDICT_COUNT + RESPONSE_COUNT_EPOCHS) as usize;

/// An epoch as bytes: key, times and flow; and what the estimator kept.
pub(crate) type Epoch = (Vec<u8>, Vec<u8>);

/// Epochs of 100 ms, estimated by the estimator of this number.
pub(crate) fn config(estimator: u8) -> response_config {
    response_config {
        seed: 7,
        epoch: 100_000_000 >> 4,
        timeout: 180_000_000 >> 4,
        datagram_timeout: 180_000_000 >> 4,
        threshold: 1_000_000 >> 4,
        handshake_mask: HANDSHAKES - 1,
        estimator,
        has_tunnels: 1,
        ..response_config::default()
    }
}

/// Bytes that the estimator keeps.
pub(crate) fn gaps_size(estimator: u8) -> usize {
    match estimator.into() {
        RESPONSE_BY_MODES => size_of::<response_modes>(),
        RESPONSE_BY_FIXED => size_of::<response_batches>(),
        _ => size_of::<response_bins>(),
    }
}

/// What the kernel or this wrote.
pub(crate) fn epoch_of(bytes: &[u8], estimator: u8) -> Epoch {
    let own = std::mem::offset_of!(response_epoch, gaps);
    let gaps = own + gaps_size(estimator);
    (bytes[..own].to_vec(), bytes[own..gaps].to_vec())
}

/// All epochs that ended by a packet.
#[expect(unsafe_code, reason = "calls the shared C")]
pub(crate) fn run(packets: &[(u64, Vec<u8>)], config: &response_config) -> Vec<Epoch> {
    // The library has the C.
    let _ = fathom_measure::response::Estimator::ALL;
    let mut flows: HashMap<flow_key, (response_flow, response_gaps)> = HashMap::new();
    let mut places = [response_handshake::default(); HANDSHAKES as usize];
    let mut epochs = Vec::new();
    for (now, frame) in packets {
        let mut reading = fathom_reading::default();
        // SAFETY: the parser reads only within the given length, and keeps nothing.
        unsafe {
            bindings::fathom_response_read(
                frame.as_ptr(),
                frame.len() as u32,
                frame.len() as u32,
                PACKET_LINK_ETHERNET,
                INTERFACE,
                std::ptr::null(),
                config,
                &raw mut reading,
            );
        }
        if reading.verdict != PACKET_MEASURABLE
            || u32::from(reading.direction) == RESPONSE_DIRECTION_NONE
        {
            continue;
        }
        if let Some((flow, gaps)) = flows.get_mut(&reading.packet.key) {
            let (mut ended, mut left_out) = (response_epoch::default(), 0);
            // SAFETY: all pointers are valid and distinct, and there are as many places as the mask
            // says.
            let has_ended = unsafe {
                bindings::fathom_response_on_packet(
                    flow,
                    gaps,
                    places.as_mut_ptr(),
                    &raw const reading,
                    *now,
                    config,
                    &raw mut ended,
                    &raw mut left_out,
                )
            };
            if has_ended != 0 {
                epochs.push(epoch_of(bytes_of(&ended), config.estimator));
            }
        } else {
            let mut flow = response_flow::default();
            // SAFETY: as above.
            let has_begun = unsafe {
                bindings::fathom_response_without_flow(
                    &raw mut flow,
                    places.as_mut_ptr(),
                    &raw const reading,
                    *now,
                    config,
                )
            };
            if has_begun != 0 {
                flows.insert(reading.packet.key, (flow, response_gaps::default()));
            }
        }
    }
    epochs
}
