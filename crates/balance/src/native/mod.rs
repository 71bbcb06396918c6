//! The structs that the balancer's programs share with user space, as Rust sees them, and what user
//! space calls of their C.

#[rustfmt::skip]
mod bindings;
#[cfg(test)]
mod table;

pub use bindings::{
    BALANCE_ANSWERS_ECHO, BALANCE_BUCKET_SLOTS, BALANCE_BY_GUE, BALANCE_BY_IPIP, BALANCE_BY_LAYER2,
    BALANCE_BY_NONE, BALANCE_COUNT_EPOCHS, BALANCE_COUNT_EPOCHS_LOST, BALANCE_COUNT_HITS,
    BALANCE_COUNT_MEASURED, BALANCE_COUNT_MISSES, BALANCE_COUNT_MOVED, BALANCE_COUNT_OPENED,
    BALANCE_COUNTER_COUNT, BALANCE_ENCAPSULATION_COUNT, BALANCE_ENTRY_IS_FRESH,
    BALANCE_ENTRY_IS_SETTLED, BALANCE_ENTRY_MARKS, BALANCE_HAS_QUIC_IDS, BALANCE_IS_BY_CLIENT,
    BALANCE_IS_CLOSING, BALANCE_IS_CONFIRMED, BALANCE_IS_GONE, BALANCE_IS_MEASURED,
    BALANCE_NETWORK_PREFIX, BALANCE_NO_SERVER, BALANCE_QUIC_ID_MAX, BALANCE_RING_LANES,
    BALANCE_SERVERS_MAX, BALANCE_TIME_SHIFT, BALANCE_WAS_MEASURED, balance_bucket,
    balance_checks_config, balance_config, balance_connection, balance_epoch, balance_measured,
    balance_network_key, balance_quic_id, balance_ring_element, balance_server, balance_service,
    balance_service_key, balance_traffic,
};

use std::ffi::{CStr, c_char};

use fathom_measure::response::native as shared;

/// Where the flow of a connection in the table stands in a ring of so many entries.
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub fn ring_entry(connection: &balance_connection, ring_size: u32) -> u32 {
    // SAFETY: a function of numbers.
    unsafe { bindings::fathom_balance_ring_entry(connection.word, ring_size) }
}

impl balance_connection {
    /// The number of its server.
    pub fn server(&self) -> u16 {
        self.word as u16
    }
}

/// What is counted, in the order of the counters.
#[expect(unsafe_code, reason = "reads constants of the C side")]
pub fn counter_names() -> impl Iterator<Item = &'static str> {
    // SAFETY: initialised constants.
    unsafe { names(&bindings::fathom_balance_counter_names) }
}

/// What is counted of packets of checks, in the order of the counters.
#[expect(unsafe_code, reason = "reads constants of the C side")]
pub fn check_counter_names() -> impl Iterator<Item = &'static str> {
    // SAFETY: initialised constants.
    unsafe { names(&bindings::fathom_balance_check_counter_names) }
}

/// The ways to send packets to a server, as users write them, in the order of `BALANCE_BY_*`.
#[expect(unsafe_code, reason = "reads constants of the C side")]
pub fn encapsulation_names() -> impl Iterator<Item = &'static str> {
    // SAFETY: initialised constants.
    unsafe { names(&bindings::fathom_balance_encapsulation_names) }
}

#[expect(unsafe_code, reason = "reads constants of the C side")]
fn names(table: &'static [*const c_char]) -> impl Iterator<Item = &'static str> {
    table.iter().map(|&name| {
        // SAFETY: each is a string constant.
        let text = unsafe { CStr::from_ptr(name) };
        text.to_str().unwrap_or("?")
    })
}
