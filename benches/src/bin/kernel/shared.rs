//! The structs that the kernel and user space share, as the library has them.

#[expect(
    non_camel_case_types,
    unreachable_pub,
    unsafe_code,
    clippy::pedantic,
    clippy::all,
    reason = "generated; the library has the same file"
)]
#[allow(dead_code, reason = "the headers declare more than is needed here")]
#[rustfmt::skip]
#[path = "../../../../crates/measure/src/native/bindings.rs"]
mod bindings;

pub(crate) use bindings::{rtt_config, rtt_flow, rtt_pending};

/// The bytes of the configuration, as the programs read them.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub(crate) fn bytes_of(config: &rtt_config) -> &[u8] {
    // SAFETY: the struct holds only integers, and its padding is a field.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(config).cast(), size_of::<rtt_config>())
    }
}
