//! The kernel's table of flows, seen by both sides: user space writes plans into it.

use super::schedule::Plan;
use crate::Error;
use crate::hops::native::{HOPS_FLOWS, hops_flow};
use crate::kernel::{Programs, Table};

pub(super) struct Flows(Table<hops_flow>);

impl Flows {
    /// Shares the table.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be had.
    pub(super) fn open(programs: &Programs) -> Result<Self, Error> {
        Table::open(&programs.map("hops_flows")?).map(Self)
    }

    /// When the flow's application last sent something, ns of `CLOCK_MONOTONIC`; `None` if the flow
    /// has lost its slot.
    #[expect(unsafe_code, reason = "reads what the kernel writes")]
    pub(super) fn seen(&self, number: u32) -> Option<u64> {
        let flow = self.entry(number);
        // SAFETY: the entry is within the table; the kernel writes whole words.
        unsafe {
            let seen = (&raw const (*flow).seen).read_volatile();
            ((&raw const (*flow).number).read_volatile() == number).then_some(seen)
        }
    }

    /// Has the kernel follow a plan, if the flow is still in its slot. Its next packet takes the
    /// turns that have come.
    #[expect(unsafe_code, reason = "writes what the kernel reads")]
    pub(super) fn apply(&self, number: u32, plan: &Plan) {
        let flow = self.entry(number);
        // SAFETY: the entry is within the table. The kernel reads and writes other fields
        // meanwhile, and these as whole words, so that each is seen as it was or as it is.
        unsafe {
            if (&raw const (*flow).number).read_volatile() != number {
                return;
            }
            for (index, interval) in plan.intervals_us.iter().enumerate() {
                let turn = &raw mut (*flow).turns[index];
                (&raw mut (*turn).interval).write_volatile(*interval);
                if let Some(dues) = &plan.dues {
                    (&raw mut (*turn).due).write_volatile(dues[index]);
                }
                if plan.is_hurried {
                    (&raw mut (*turn).due).write_volatile(0);
                }
            }
            (&raw mut (*flow).known).write_volatile(plan.known);
            (&raw mut (*flow).ceiling).write_volatile(plan.ceiling);
            (&raw mut (*flow).due).write_volatile(0);
        }
    }

    /// Forgets the flows that left by an interface that is no more: the next packet of each, by
    /// another one, opens it anew.
    #[expect(unsafe_code, reason = "writes what the kernel reads")]
    pub(super) fn forget(&self, interface: u32) {
        for slot in 0..HOPS_FLOWS {
            let flow = self.entry(slot);
            // SAFETY: the entry is within the table, and both sides write whole words.
            unsafe {
                if (&raw const (*flow).interface).read_volatile() == interface {
                    (&raw mut (*flow).number).write_volatile(0);
                }
            }
        }
    }

    fn entry(&self, number: u32) -> *mut hops_flow {
        self.0.entry((number & (HOPS_FLOWS - 1)) as usize)
    }
}
