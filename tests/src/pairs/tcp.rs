//! Pairs of TCP segments.

use std::collections::HashMap;

use fathom_lab::{TcpFlags, Transport};

use super::Pair;
use crate::{Flow, Method, Passing};

/// A TCP segment, taken apart.
#[derive(Clone, Copy)]
struct Segment {
    time_ns: u64,
    flow: Flow,
    sequence: u32,
    acknowledgement: u32,
    flags: TcpFlags,
    timestamps: Option<(u32, u32)>,
    payload: u32,
}

impl Segment {
    /// The sequence number after it.
    fn end(&self) -> u32 {
        let mut end = self.sequence.wrapping_add(self.payload);
        for flag in [TcpFlags::SYN, TcpFlags::FIN] {
            end = end.wrapping_add(u32::from(self.flags.contains(flag)));
        }
        end
    }
}

fn segments(passings: &[Passing]) -> impl Iterator<Item = Segment> {
    passings
        .iter()
        .filter_map(|passing| match passing.header.transport {
            Transport::Tcp {
                sequence,
                acknowledgement,
                flags,
                timestamps,
            } => Some(Segment {
                time_ns: passing.time_ns,
                flow: passing.flow(),
                sequence,
                acknowledgement,
                flags,
                timestamps,
                payload: passing.header.payload_length,
            }),
            _ => None,
        })
}

/// Whether any segment carries timestamps.
pub(super) fn has_timestamps(passings: &[Passing]) -> bool {
    segments(passings).any(|segment| segment.timestamps.is_some())
}

/// Whether `number` is newer than `other` on a circle of 32 bits.
fn is_after(number: u32, other: u32) -> bool {
    (1..1 << 31).contains(&number.wrapping_sub(other))
}

/// What one direction of a connection did with its timestamps.
#[derive(Default)]
struct Timestamps {
    newest: Option<u32>,
    newest_echoed: Option<u32>,
    /// TSval of data that was not echoed yet, with the time of its first packet.
    open: HashMap<u32, u64>,
}

/// TCP timestamps: the first segment with a TSval, if it carries data, and the first that echoes it
/// (RFC 7323).
pub fn timestamp(passings: &[Passing]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut directions: HashMap<Flow, Timestamps> = HashMap::new();
    for segment in segments(passings) {
        let Some((value, echo)) = segment.timestamps else {
            continue;
        };
        let peer = directions.entry(segment.flow.reversed()).or_default();
        if segment.flags.contains(TcpFlags::ACK) {
            let is_newest = peer
                .newest_echoed
                .is_none_or(|newest| is_after(echo, newest));
            if let Some(packet) = peer.open.remove(&echo) {
                let flow = segment.flow.reversed();
                let pair = Pair::new(flow, Method::Timestamp, packet, segment.time_ns);
                pairs.push(Pair {
                    is_overtaken: !is_newest,
                    ..pair
                });
            }
            if is_newest {
                peer.newest_echoed = Some(echo);
            }
        }
        let own = directions.entry(segment.flow).or_default();
        if own.newest.is_none_or(|newest| is_after(value, newest)) {
            own.newest = Some(value);
            // A SYN is the business of the handshake.
            if segment.end() != segment.sequence && !segment.flags.contains(TcpFlags::SYN) {
                own.open.insert(value, segment.time_ns);
            }
        }
    }
    pairs
}

/// What one direction of a connection sent, by sequence numbers.
#[derive(Default)]
struct Sequences {
    next: Option<u32>,
    acknowledged: Option<u32>,
    /// End of segments that were sent once and not acknowledged yet, with the time.
    open: HashMap<u32, u64>,
}

/// TCP data and the acknowledgement of exactly it, of what was sent once and in order.
pub fn sequence(passings: &[Passing]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut directions: HashMap<Flow, Sequences> = HashMap::new();
    for segment in segments(passings) {
        if segment.flags.contains(TcpFlags::SYN) {
            let own = directions.entry(segment.flow).or_default();
            own.next = Some(segment.end());
            continue;
        }
        let peer = directions.entry(segment.flow.reversed()).or_default();
        let acknowledgement = segment.acknowledgement;
        let is_new = peer
            .acknowledged
            .is_none_or(|highest| is_after(acknowledgement, highest));
        if segment.flags.contains(TcpFlags::ACK) && is_new {
            peer.acknowledged = Some(acknowledgement);
            if let Some(packet) = peer.open.remove(&acknowledgement) {
                let flow = segment.flow.reversed();
                pairs.push(Pair::new(flow, Method::Sequence, packet, segment.time_ns));
            }
            peer.open.retain(|end, _| is_after(*end, acknowledgement));
        }
        let (start, end) = (segment.sequence, segment.end());
        if start == end {
            continue;
        }
        let own = directions.entry(segment.flow).or_default();
        if own.next.is_some_and(|next| is_after(next, start)) {
            // Sent again, or overtaken: what reaches beyond it has two possible causes.
            own.open.retain(|end, _| !is_after(*end, start));
        } else if own.next.is_some() {
            own.open.insert(end, segment.time_ns);
        }
        if own.next.is_none_or(|next| is_after(end, next)) {
            own.next = Some(end);
        }
    }
    pairs
}

/// TCP handshakes: SYN and SYN-ACK, SYN-ACK and ACK, where neither was sent twice.
pub fn handshake(passings: &[Passing]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    // When the segment passed, unless it is answered or was sent again, by what acknowledges it.
    let mut open: HashMap<(Flow, u32), Option<u64>> = HashMap::new();
    for segment in segments(passings) {
        if segment.flags.contains(TcpFlags::ACK) {
            let flow = segment.flow.reversed();
            let request = open.get_mut(&(flow, segment.acknowledgement));
            if let Some(packet) = request.and_then(Option::take) {
                pairs.push(Pair::new(flow, Method::Handshake, packet, segment.time_ns));
            }
        }
        if segment.flags.contains(TcpFlags::SYN) {
            open.entry((segment.flow, segment.end()))
                .and_modify(|time| *time = None)
                .or_insert(Some(segment.time_ns));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_lab::PacketHeader;

    /// A segment between two ports, with TSval and TSecr.
    fn segment(time_ns: u64, ports: (u16, u16), payload: u32, timestamps: (u32, u32)) -> Passing {
        Passing {
            time_ns,
            header: PacketHeader {
                protocol: 6,
                source_port: ports.0,
                destination_port: ports.1,
                payload_length: payload,
                transport: Transport::Tcp {
                    sequence: 1,
                    acknowledgement: 1,
                    flags: TcpFlags::ACK,
                    timestamps: Some(timestamps),
                },
                ..PacketHeader::default()
            },
        }
    }

    fn times(pairs: &[Pair]) -> Vec<(u64, u64, bool)> {
        let times = pairs
            .iter()
            .map(|pair| (pair.packet_ns, pair.answer_ns, pair.is_overtaken));
        times.collect()
    }

    #[test]
    fn first_tsval_is_answered_by_first_echo() {
        let (there, back) = ((1, 2), (2, 1));
        let passings = [
            segment(10, there, 100, (u32::MAX, 0)),
            segment(11, there, 100, (u32::MAX, 0)),
            segment(12, there, 0, (0, 0)),
            segment(13, there, 100, (0, 0)),
            segment(14, there, 100, (1, 0)),
            segment(20, back, 0, (50, u32::MAX)),
            segment(21, back, 0, (50, 0)),
            segment(22, back, 0, (50, 1)),
        ];
        assert_eq!(
            times(&timestamp(&passings)),
            [(10, 20, false), (14, 22, false)]
        );
    }

    #[test]
    fn overtaken_answers_are_marked() {
        let (there, back) = ((1, 2), (2, 1));
        let passings = [
            segment(10, there, 100, (1, 0)),
            segment(11, there, 100, (2, 0)),
            segment(20, back, 0, (50, 2)),
            segment(21, back, 0, (50, 1)),
        ];
        assert_eq!(
            times(&timestamp(&passings)),
            [(11, 20, false), (10, 21, true)]
        );
    }
}
