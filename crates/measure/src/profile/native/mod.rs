//! The C of profiles, and the structs it shares with the kernel, as Rust sees them.

#[rustfmt::skip]
mod bindings;

use crate::native::bindings as shared;
use crate::native::names;
pub(crate) use bindings::{
    DNS_ANSWER, DNS_COUNT_EVENTS_LOST, DNS_NAME_BYTES, DNS_QUERY, PROFILE_ACCEPTED,
    PROFILE_ATTEMPT, PROFILE_CLOSED, PROFILE_CONNECT, PROFILE_COUNT_MOMENTS_LOST,
    PROFILE_ESTABLISHED, PROFILE_FAILED, PROFILE_LOSSY, PROFILE_META_ADDED, PROFILE_META_CLOSED,
    PROFILE_META_CONNECT, PROFILE_META_ESTABLISHED, PROFILE_META_LOSSY, PROFILE_META_RECOVERED,
    PROFILE_META_REMOVED, PROFILE_META_SEEN, PROFILE_RECOVERED, PROFILE_SEEN, PROFILE_SLOTS,
    dns_config, dns_event, lookup_config, lookup_event, profile_attempt, profile_config,
    profile_meta, profile_moment_of, profile_slot, profile_snapshot,
};
#[cfg(test)]
pub(crate) use bindings::{
    DNS_BYTES_MAX, DNS_ERROR, DNS_PROCESS_BYTES, dns_message, profile_disorder,
};

/// All counters as increases since `before`. Those of a first look count from the beginning, and
/// are increases as they are.
#[expect(unsafe_code, reason = "calls shared C without side effects")]
pub(crate) fn increase(before: &profile_snapshot, now: &profile_snapshot) -> profile_snapshot {
    let mut found = *now;
    // SAFETY: both are valid and distinct, and nothing is kept.
    unsafe { bindings::fathom_profile_increase(&raw mut found, before) };
    found
}

/// What a DNS message says, if it is one.
#[cfg(test)]
#[expect(unsafe_code, reason = "calls the shared C parser")]
pub(crate) fn read_dns(bytes: &[u8]) -> Option<dns_message> {
    let mut message = dns_message::default();
    // SAFETY: the reader reads only within the given length, and nothing is kept.
    let is_one =
        unsafe { bindings::fathom_dns_read(bytes.as_ptr(), bytes.len() as u32, &raw mut message) };
    (is_one != 0).then_some(message)
}

names! {
    /// What is counted when profiles are taken.
    counter_names: fathom_profile_counter_names[PROFILE_COUNTER_COUNT];
    /// What is counted of DNS messages.
    dns_counter_names: fathom_dns_counter_names[DNS_COUNTER_COUNT];
    /// What is counted of lookups.
    lookup_counter_names: fathom_lookup_counter_names[LOOKUP_COUNTER_COUNT];
}
