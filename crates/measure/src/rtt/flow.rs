//! What the reader of capture files keeps of a flow.

use crate::native::{self, FlowState, rtt_flow, rtt_pending};
use crate::table::State;

/// Slots a flow starts with, of both directions together.
const FIRST_SLOTS: usize = 4;
/// A connection that both sides closed may still see a late packet; after this many nanoseconds it will not.
const CLOSED_NS: u64 = 10_000_000_000;
/// A flow without packets for this many nanoseconds is over.
const IDLE_NS: u64 = 300_000_000_000;

/// A flow, with room for what is pending.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) flow: rtt_flow,
    slots: Box<[rtt_pending]>,
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
            slots: &mut self.slots,
        }
    }

    /// Did both ends close it, or one abort it?
    pub(super) fn is_closed(&self) -> bool {
        u32::from(self.flow.flags) & native::RTT_FLOW_IS_CLOSED != 0
    }
}

/// Slots of flows: as many as are needed, up to a bound of each and of all together.
pub(super) struct Slots {
    /// Of a flow, both directions together.
    most: usize,
    /// That all flows together may still grow by.
    left: usize,
}

impl Slots {
    /// At most `most` a flow and direction.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1) * 2,
            left: 8 << 20,
        }
    }

    fn first(&self) -> usize {
        FIRST_SLOTS.min(self.most)
    }

    /// A zeroed flow.
    pub(super) fn flow(&self) -> Flow {
        Flow {
            flow: rtt_flow::default(),
            slots: vec![rtt_pending::default(); self.first()].into_boxed_slice(),
        }
    }

    /// Makes room for one more pending packet in `direction`, if there may be more.
    pub(super) fn make_room(&mut self, flow: &mut Flow, direction: u8) {
        let half = &flow.flow.half[usize::from(direction & 1)];
        let pending = half.newest.wrapping_sub(half.oldest) as usize;
        let slots = flow.slots.len();
        if pending * 2 >= slots && slots < self.most && slots <= self.left {
            flow.slots = native::grown(&flow.flow, &flow.slots);
            self.left -= slots;
        }
    }

    /// A flow is no more.
    pub(super) fn take_back(&mut self, flow: &Flow) {
        self.left += flow.slots.len() - self.first().min(flow.slots.len());
    }
}
