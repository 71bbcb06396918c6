//! The C of hops, and the structs it shares with the kernel, as Rust sees them.

#[rustfmt::skip]
mod bindings;

use crate::native::bindings as shared;
use crate::native::names;
#[cfg(test)]
pub(crate) use bindings::{
    HOPS_BURST, HOPS_BYTES_MAX, HOPS_READ, fathom_hops_build, fathom_hops_is_reply,
    fathom_hops_on_packet, fathom_hops_read, fathom_hops_watch,
};
pub(crate) use bindings::{
    HOPS_COUNT_FLOWS_OPENED, HOPS_COUNT_PACKETS_WATCHED, HOPS_COUNT_PROBES_SENT,
    HOPS_COUNTER_COUNT, HOPS_EVENT_ANSWER, HOPS_EVENT_CLOSED, HOPS_EVENT_CLUE, HOPS_EVENT_FLOW,
    HOPS_EVENT_FOLLOWED, HOPS_EVENT_SENT, HOPS_FLOWS, HOPS_TTL_MAX, hops_answer, hops_budget,
    hops_clue, hops_config, hops_event, hops_flow, hops_followed, hops_header, hops_opening,
};

names! {
    /// What is counted.
    counter_names: fathom_hops_counter_names[HOPS_COUNTER_COUNT];
}
