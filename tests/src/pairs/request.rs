//! Pairs of requests and responses.

use std::collections::HashMap;

use fathom_lab::Transport;

use super::Pair;
use crate::{Flow, Method, Passing};

/// ICMP echo requests and their replies.
pub fn echo(passings: &[Passing]) -> Vec<Pair> {
    let mut requests: HashMap<(Flow, u16), u64> = HashMap::new();
    let mut pairs = Vec::new();
    for passing in passings {
        let Transport::Echo {
            is_request,
            sequence,
            ..
        } = passing.header.transport
        else {
            continue;
        };
        if is_request {
            requests.insert((passing.flow(), sequence), passing.time_ns);
        } else if let Some(packet) = requests.remove(&(passing.flow().reversed(), sequence)) {
            let flow = passing.flow().reversed();
            pairs.push(Pair::new(flow, Method::Echo, packet, passing.time_ns));
        }
    }
    pairs
}

/// DNS queries and their responses at port 53, over UDP by identifier, over TCP the first data of
/// each side.
pub fn dns(passings: &[Passing]) -> Vec<Pair> {
    const PORT: u16 = 53;
    // `None` once answered.
    let mut queries: HashMap<(Flow, u16), Option<u64>> = HashMap::new();
    let mut pairs = Vec::new();
    for passing in passings {
        let (flow, time_ns) = (passing.flow(), passing.time_ns);
        let id = match passing.header.transport {
            Transport::Udp { dns_id, .. } => dns_id,
            Transport::Tcp { .. } if passing.header.payload_length > 0 => 0,
            _ => continue,
        };
        if flow.destination_port == PORT {
            queries.entry((flow, id)).or_insert(Some(time_ns));
        } else if flow.source_port == PORT {
            let query = queries.get_mut(&(flow.reversed(), id));
            if let Some(packet) = query.and_then(Option::take) {
                pairs.push(Pair::new(flow.reversed(), Method::Dns, packet, time_ns));
            }
        }
    }
    pairs
}
