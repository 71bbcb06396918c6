//! What all that is measured in the kernel has in common: programs loaded, their events read, and
//! its clock. What is public is for programs of other crates.

mod attach;
mod counters;
mod egress;
mod flow_table;
mod groups;
mod hooks;
mod interfaces;
mod janitor;
mod link;
mod links;
mod load;
mod places;
mod programs;
mod ring;
pub mod rtnetlink;
mod table;
mod wanted;

use fathom_record::Time;

pub(crate) use attach::choose_programs;
pub use counters::{OwnCounters, add_counters, of_each_cpu};
pub use egress::Egress;
pub use flow_table::{FlowTable, Slot};

pub(crate) use groups::{Group, group_root};
pub(crate) use hooks::Part;
pub use hooks::{Hooks, OfPackets, prepare, try_load};
pub(crate) use interfaces::{Framing, Interface, InterfaceNames, local_addresses};
pub use interfaces::{examine, interface_names};
pub(crate) use link::{check_function, link};
pub(crate) use load::set_variable;
pub use load::{decompress, load, map, program, set_constants};
pub use places::Options;
pub(crate) use places::Places;
pub(crate) use programs::Programs;
pub use ring::Ring;
pub(crate) use table::Table;
pub use wanted::any_interfaces;

/// The clock that the kernel stamps events with.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std has no clock that counts from boot")]
    // SAFETY: the pointer is valid; this clock always exists.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
    }
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// The resolution of the clock that goes forward by jiffies.
pub fn tick_ns() -> u64 {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std does not tell the resolution of clocks")]
    // SAFETY: the pointer is valid; this clock always exists.
    unsafe {
        libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution);
    }
    resolution.tv_nsec.cast_unsigned()
}

/// What makes the kernel's times count from 1970; read anew each time, since the wall clock is
/// adjusted.
pub fn wall_clock_offset() -> u64 {
    Time::now().0.wrapping_sub(monotonic_ns())
}
