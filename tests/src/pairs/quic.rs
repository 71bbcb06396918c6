//! Pairs of QUIC packets.

use std::collections::HashMap;

use fathom_lab::Transport;

use super::Pair;
use crate::{Flow, Method, Passing};

/// The port of the QUIC servers.
const QUIC_PORT: u16 = 443;
/// What a server sends later than this after its first packet, before the client has answered, may
/// be the same again.
const FLIGHT_NS: u64 = 10_000_000;

/// QUIC packets: first byte and time.
fn quic_packets(passings: &[Passing]) -> impl Iterator<Item = (Flow, u8, u64)> {
    passings
        .iter()
        .filter_map(|passing| match passing.header.transport {
            Transport::Udp { first_byte, .. } => {
                let flow = passing.flow();
                let is_quic = [flow.source_port, flow.destination_port].contains(&QUIC_PORT);
                is_quic.then_some((flow, first_byte, passing.time_ns))
            }
            _ => None,
        })
}

/// QUIC handshakes: the client's Initial and the server's first packet, that and the client's next;
/// not where the Initial was sent again, or the server may have repeated itself.
pub fn quic_handshake(passings: &[Passing]) -> Vec<Pair> {
    enum Step {
        Asked(u64),
        AskedAgain,
        Answered(u64),
        Done,
    }
    let mut steps: HashMap<Flow, Step> = HashMap::new();
    let mut pairs = Vec::new();
    for (flow, first_byte, time_ns) in quic_packets(passings) {
        let is_long = first_byte & 0x80 != 0;
        if flow.destination_port == QUIC_PORT {
            match steps.get_mut(&flow) {
                None if is_long => drop(steps.insert(flow, Step::Asked(time_ns))),
                Some(step @ Step::Asked(_)) => *step = Step::AskedAgain,
                Some(step @ Step::Answered(_)) => {
                    if let Step::Answered(packet) = std::mem::replace(step, Step::Done) {
                        let flow = flow.reversed();
                        pairs.push(Pair::new(flow, Method::Handshake, packet, time_ns));
                    }
                }
                _ => {}
            }
        } else if let Some(step) = steps.get_mut(&flow.reversed()) {
            match *step {
                Step::Asked(packet) => {
                    let flow = flow.reversed();
                    pairs.push(Pair::new(flow, Method::Handshake, packet, time_ns));
                    *step = Step::Answered(time_ns);
                }
                Step::AskedAgain => *step = Step::Answered(time_ns),
                Step::Answered(packet) if time_ns - packet > FLIGHT_NS => *step = Step::Done,
                Step::Answered(_) | Step::Done => {}
            }
        }
    }
    pairs
}

/// Spin edges: the server reflects the client's, the client inverts the server's (RFC 9000, section
/// 17.4).
pub fn spin(passings: &[Passing]) -> Vec<Pair> {
    // The value of a direction and when it came to have it.
    let mut values: HashMap<Flow, (bool, u64)> = HashMap::new();
    let mut pairs = Vec::new();
    for (flow, first_byte, time_ns) in quic_packets(passings) {
        let (is_short, value) = (first_byte & 0x80 == 0, first_byte & 0x20 != 0);
        let before = values.get(&flow);
        if !is_short || before.is_some_and(|(before, _)| *before == value) {
            continue;
        }
        let is_edge = before.is_some();
        values.insert(flow, (value, time_ns));
        let is_reflected = flow.source_port == QUIC_PORT;
        if let Some((peer_value, packet)) = values.get(&flow.reversed())
            && is_edge
            && (*peer_value == value) == is_reflected
        {
            pairs.push(Pair::new(flow.reversed(), Method::Spin, *packet, time_ns));
        }
    }
    pairs
}
