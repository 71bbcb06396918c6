//! What all that is measured in the kernel has in common: programs loaded, their events read, its clock, and structs shared with it.

mod attach;
mod egress;
mod entries;
mod groups;
mod interfaces;
mod janitor;
mod link;
mod programs;
mod table;

use fathom_record::Time;

pub(crate) use attach::{Devices, set_attach_type};
pub use egress::Egress;
pub(crate) use entries::for_each_flow;
pub(crate) use groups::{Group, group_root};
pub(crate) use interfaces::{Framing, Interface, InterfaceNames, local_addresses};
pub use interfaces::{examine, interface_names};
pub(crate) use link::{check_function, link};
pub(crate) use programs::{Programs, set_constants};
pub(crate) use table::Table;

/// The bytes of a struct that is shared with the kernel, and has no padding that is not its own field.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the generated structs hold only integers, and their padding is explicit.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct that the kernel wrote, and the bytes behind it.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub(crate) fn read_prefix<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (own, behind) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: the generated structs hold only integers: any bytes are valid, at any alignment.
    Some((
        unsafe { std::ptr::read_unaligned(own.as_ptr().cast()) },
        behind,
    ))
}

/// The clock that the kernel stamps events with.
pub(crate) fn monotonic_ns() -> u64 {
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

/// What makes the kernel's times count from 1970; read anew each time, since the wall clock is adjusted.
pub(crate) fn wall_clock_offset() -> u64 {
    Time::now().0.wrapping_sub(monotonic_ns())
}

/// A seed that nobody can guess, and so aim packets at one bucket of a hash table.
pub(crate) fn secret() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
