//! The C of responses, and the structs it shares with the kernel, as Rust sees them.

#[rustfmt::skip]
mod bindings;

/// For tables of others that hold flows of requests.
pub use crate::flow::address;
use crate::native::bindings as shared;
pub use crate::native::bindings::{__u8, __u16, __u32, __u64, flow_address, flow_key};
use crate::native::{Frame, fathom_reading, names, read_by, selection};
#[cfg(test)]
pub(crate) use bindings::response_state;
pub(crate) use bindings::{
    RESPONSE_BINS, RESPONSE_COUNT_EPOCHS, RESPONSE_COUNT_FILTERED, RESPONSE_COUNT_FLOWS_DELETED,
    RESPONSE_COUNT_FLOWS_OPENED, RESPONSE_COUNT_NOT_SAMPLED, RESPONSE_COUNT_UNDIRECTED,
    RESPONSE_COUNTER_COUNT, RESPONSE_COUNTS_FLIGHT, RESPONSE_DIRECTION_NONE,
    RESPONSE_ECHO_DRIFT_SHIFT, RESPONSE_ECHO_FIRST, RESPONSE_ECHO_FIRST_SHIFT,
    RESPONSE_ECHO_IS_PROMPT, RESPONSE_ECHO_SHIFT, RESPONSE_HAS_FLIGHT, RESPONSE_HAS_SHORT,
    RESPONSE_HOLDS_BACK, RESPONSE_IS_SEALED, RESPONSE_IS_USED, RESPONSE_LATE_SHIFT,
    RESPONSE_NO_LEAST, RESPONSE_QUIC_REQUEST_FROM, RESPONSE_STARTS_OVER, RESPONSE_TICK_SHIFT,
    response_batches, response_counter, response_echoes, response_gaps, response_handshake,
    response_mode, response_modes, response_sizes, response_triggers,
};
pub use bindings::{response_bins, response_config, response_epoch, response_flow, response_tcp};

/// Reads a frame for the measurement of responses.
pub(crate) fn read(
    frame: &Frame<'_>,
    selection: Option<&selection>,
    config: &response_config,
) -> fathom_reading {
    read_by(bindings::fathom_response_read, frame, selection, config)
}

impl response_flow {
    /// The direction of packets with requests.
    pub(crate) fn direction(&self) -> u8 {
        u8::from(u32::from(self.flags) & bindings::RESPONSE_TO_LOW != 0)
    }

    /// What a flow of segments remembers; of others it means nothing.
    #[expect(unsafe_code, reason = "reads a union of plain numbers")]
    pub fn tcp(&self) -> response_tcp {
        // SAFETY: all members are plain numbers, and any bytes are valid ones.
        unsafe { self.state.tcp }
    }

    /// What a flow of datagrams remembers; of segments it means nothing.
    #[expect(unsafe_code, reason = "reads a union of plain numbers")]
    pub(crate) fn sizes(&self) -> response_sizes {
        // SAFETY: as above.
        unsafe { self.state.sizes }
    }
}

/// A flow of requests with what the estimator keeps of it.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    pub(crate) flow: response_flow,
    pub(crate) gaps: response_gaps,
}

/// Requests as the C side works on them: with their handshakes, and the configuration of all.
#[expect(unsafe_code, reason = "calls the shared C algorithm")]
impl Requests {
    /// As they lie in a table of the kernel's: the flow, and behind it what the estimator keeps.
    /// `None` where that is too long.
    #[cfg(feature = "live")]
    pub(crate) fn of_bytes(flow: response_flow, gaps: &[u8]) -> Option<Self> {
        let mut requests = Self {
            flow,
            gaps: response_gaps::default(),
        };
        if gaps.len() > size_of::<response_gaps>() {
            return None;
        }
        // SAFETY: both are valid for so many bytes, and any bytes are valid numbers.
        unsafe {
            std::ptr::from_mut(&mut requests.gaps)
                .cast::<u8>()
                .copy_from_nonoverlapping(gaps.as_ptr(), gaps.len());
        }
        Some(requests)
    }

    /// Takes a packet in. Returns the epoch that ended before it, if one did, and what the packet
    /// is counted as if it is no part of the flow. There are as many handshakes as `config` says.
    pub(crate) fn on_packet(
        &mut self,
        handshakes: &mut [response_handshake],
        reading: &fathom_reading,
        now: u64,
        config: &response_config,
    ) -> (Option<response_epoch>, Option<response_counter>) {
        assert!(handshakes.len() > config.handshake_mask as usize);
        let mut ended = response_epoch::default();
        let mut left_out = 0;
        // SAFETY: all pointers are valid and distinct, the index of a handshake is at most the
        // mask, and nothing is kept.
        let has_ended = unsafe {
            bindings::fathom_response_on_packet(
                &raw mut self.flow,
                &raw mut self.gaps,
                handshakes.as_mut_ptr(),
                reading,
                now,
                config,
                &raw mut ended,
                &raw mut left_out,
            )
        };
        let left_out = (left_out < RESPONSE_COUNTER_COUNT).then_some(left_out);
        ((has_ended != 0).then_some(ended), left_out)
    }

    /// Takes a packet in that has no flow. Returns the flow if it begins one.
    pub(crate) fn begin(
        handshakes: &mut [response_handshake],
        reading: &fathom_reading,
        now: u64,
        config: &response_config,
    ) -> Option<Self> {
        assert!(handshakes.len() > config.handshake_mask as usize);
        let mut begun = Self::default();
        let handshakes = handshakes.as_mut_ptr();
        // SAFETY: as above.
        let has_begun = unsafe {
            bindings::fathom_response_without_flow(
                &raw mut begun.flow,
                handshakes,
                reading,
                now,
                config,
            )
        };
        (has_begun != 0).then_some(begun)
    }

    /// Ends the epoch if it is over at `now`, or `at_once`, and it had a packet.
    pub(crate) fn end_epoch(
        &mut self,
        key: &flow_key,
        now: u64,
        at_once: bool,
        config: &response_config,
    ) -> Option<response_epoch> {
        let is_used = u32::from(self.flow.flags) & RESPONSE_IS_USED != 0;
        let mut ended = response_epoch::default();
        // SAFETY: all pointers are valid and distinct, and nothing is kept.
        unsafe {
            if !is_used
                || !(at_once
                    || bindings::fathom_response_is_over(&raw const self.flow, now, config) != 0)
            {
                return None;
            }
            bindings::fathom_response_end_epoch(
                &raw mut self.flow,
                &raw mut self.gaps,
                key,
                now,
                config,
                &raw mut ended,
            );
        }
        Some(ended)
    }
}

/// All members of the union are plain numbers, and any bytes are valid ones.
#[expect(unsafe_code, reason = "reads a union of plain numbers")]
impl response_gaps {
    /// What `split` keeps, and `acknowledged` of all but TCP.
    pub(crate) fn bins(&self) -> response_bins {
        // SAFETY: see above.
        unsafe { self.bins }
    }

    /// What `acknowledged` keeps of TCP.
    pub(crate) fn triggers(&self) -> response_triggers {
        // SAFETY: see above.
        unsafe { self.triggers }
    }

    /// What `modes` keeps.
    pub(crate) fn modes(&self) -> response_modes {
        // SAFETY: see above.
        unsafe { self.modes }
    }

    /// What `fixed` keeps.
    pub(crate) fn batches(&self) -> response_batches {
        // SAFETY: see above.
        unsafe { self.batches }
    }
}

names! {
    /// Of estimators.
    estimator_names: fathom_response_estimator_names[RESPONSE_ESTIMATOR_COUNT];
    /// What is counted.
    counter_names: fathom_response_counter_names[RESPONSE_COUNTER_COUNT];
}
