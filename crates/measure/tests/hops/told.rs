//! Events of the kernel in words.

use fathom_measure::bytes::read_prefix;

use crate::native::bindings::{
    HOPS_EVENT_ANSWER, HOPS_EVENT_CLOSED, HOPS_EVENT_CLUE, HOPS_EVENT_FLOW, HOPS_EVENT_FOLLOWED,
    HOPS_EVENT_SENT, hops_answer, hops_clue, hops_event,
};

/// What an event says; a probe that was sent is told by itself, and what is followed to the
/// destination is no probe.
pub(crate) fn event(bytes: &[u8]) -> Option<String> {
    let (event, _) = read_prefix::<hops_event>(bytes).unwrap();
    Some(match u32::from(event.type_) {
        HOPS_EVENT_FLOW => "flow".to_owned(),
        HOPS_EVENT_SENT | HOPS_EVENT_FOLLOWED => return None,
        HOPS_EVENT_ANSWER => {
            let (answer, _) = read_prefix::<hops_answer>(bytes).unwrap();
            assert_eq!(answer.is_repeated, 0);
            answered(event.ttl, event.time - answer.sent)
        }
        HOPS_EVENT_CLUE => {
            let (clue, _) = read_prefix::<hops_clue>(bytes).unwrap();
            self::clue(clue.packets, clue.retransmitted)
        }
        HOPS_EVENT_CLOSED => "closed".to_owned(),
        other => panic!("an event of type {other}"),
    })
}

pub(crate) fn answered(ttl: u8, rtt_ns: u64) -> String {
    format!("answer ttl {ttl} after {} ms", rtt_ns / 1_000_000)
}

pub(crate) fn clue(packets: u64, retransmitted: u64) -> String {
    format!("clue: {packets} left, {retransmitted} again")
}
