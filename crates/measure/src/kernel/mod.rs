//! What all that is measured in the kernel has in common: programs loaded, their events read, and
//! its clock. What is public is for programs of other crates.

mod attach;
mod counters;
mod egress;
mod filter;
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

pub(crate) use groups::{Group, NO_GROUPS, group_root};
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
    offset(|| [monotonic_ns(), Time::now().0, monotonic_ns()])
}

/// How far the wall clock is ahead of the other, which each look reads before and after it. A
/// thread may have to wait in the middle of a look, so the shortest of three counts.
fn offset(mut look: impl FnMut() -> [u64; 3]) -> u64 {
    let mut shortest = (u64::MAX, 0);
    for _ in 0..3 {
        let [before, wall, after] = look();
        let found = (after - before, wall.wrapping_sub(before.midpoint(after)));
        shortest = shortest.min(found);
    }
    shortest.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the thread waited in, before the wall clock was read or after it.
    #[test]
    fn a_look_that_was_interrupted_does_not_count() {
        let whole = [1_000, 501_010, 1_020];
        for waited in [
            [1_000, 90_501_000, 90_001_000],
            [1_000, 501_000, 90_001_000],
        ] {
            for at in 0..3 {
                let mut looks = [waited; 3];
                looks[at] = whole;
                let mut looks = looks.into_iter();
                assert_eq!(offset(|| looks.next().unwrap()), 500_000);
            }
        }
    }
}
