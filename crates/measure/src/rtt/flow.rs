//! What the reader of capture files keeps of a flow.

use crate::rtt::native::{self, FlowState, rtt_config, rtt_flow, rtt_pending};
use crate::table::State;

/// Slots of a direction that a flow starts with.
const FIRST_SLOTS: usize = 2;
/// A connection that both sides closed may still see a late packet; after this many nanoseconds it
/// will not.
const CLOSED_NS: u64 = 10_000_000_000;
/// A flow without packets for this many nanoseconds is over.
const IDLE_NS: u64 = 300_000_000_000;

/// A flow, with room for what is pending.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) flow: rtt_flow,
    pending: Box<[rtt_pending]>,
}

impl State for Flow {
    fn is_over(&self, now: u64) -> bool {
        let idle = now.saturating_sub(self.flow.last_seen);
        idle > IDLE_NS || (self.is_closed() && idle > CLOSED_NS)
    }
}

impl Flow {
    /// What the algorithm works on.
    pub(super) fn state(&mut self) -> FlowState<'_> {
        FlowState {
            flow: &mut self.flow,
            pending: &mut self.pending,
        }
    }

    /// Did both ends close it, or one abort it?
    pub(super) fn is_closed(&self) -> bool {
        u32::from(self.flow.flags) & native::RTT_FLOW_IS_CLOSED != 0
    }
}

/// Slots of flows: as many as are needed, up to a bound of each and of all together.
pub(super) struct Slots {
    config: rtt_config,
    /// Entries of a flow, with all its slots.
    most: usize,
    /// Entries that all flows together may still grow by.
    left: usize,
}

impl Slots {
    /// As many a flow and direction as `config` says.
    pub(super) fn new(config: rtt_config) -> Self {
        Self {
            config,
            most: native::pending_entries(config.slots.max(1) as usize, config.has_bytes != 0),
            left: 8 << 20,
        }
    }

    fn first(&self) -> usize {
        native::pending_entries(FIRST_SLOTS, self.config.has_bytes != 0).min(self.most)
    }

    /// A zeroed flow.
    pub(super) fn flow(&self) -> Flow {
        Flow {
            flow: rtt_flow::default(),
            pending: vec![rtt_pending::default(); self.first()].into_boxed_slice(),
        }
    }

    /// Makes room for one more pending packet in `direction`, if there may be more.
    pub(super) fn make_room(&mut self, flow: &mut Flow, direction: u8) {
        let half = &flow.flow.half[usize::from(direction & 1)];
        let pending = half.newest.wrapping_sub(half.oldest) as usize;
        let entries = flow.pending.len();
        let slots = native::slots_in(entries, self.config.has_bytes != 0);
        if pending >= slots && entries < self.most && entries <= self.left {
            flow.pending = native::grown(&flow.flow, &flow.pending, &self.config);
            self.left -= flow.pending.len() - entries;
        }
    }

    /// A flow is no more.
    pub(super) fn take_back(&mut self, flow: &Flow) {
        self.left += flow.pending.len() - self.first().min(flow.pending.len());
    }
}
