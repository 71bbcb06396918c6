//! What the kernel says, as the engine takes it.

use std::net::IpAddr;

use fathom_record::FlowKey;

use super::Quoted;
use crate::bytes::read_prefix;
use crate::flow::{address, flow_of};
use crate::hops::native::{
    self, hops_answer, hops_clue, hops_event, hops_followed, hops_header, hops_opening,
};
use crate::replay::Interfaces;

/// Something that happened in the kernel; times are ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A flow that will be probed.
    Opened(Opened),
    /// A probe was handed to the device.
    Sent(Sent),
    /// A router, or the destination, answered a probe.
    Answered(Box<Answered>),
    /// What the application's own packets say.
    Clue(Clue),
    /// What became of a packet of the application that the destination must answer.
    Followed(Followed),
    /// A FIN or RST was seen.
    Closed { flow: u32 },
}

/// The beginning of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Opened {
    pub(crate) time: u64,
    pub(crate) flow: u32,
    /// From this side to the other.
    pub(crate) key: FlowKey,
    /// That it leaves by.
    pub(crate) interface: &'static str,
}

/// A probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sent {
    pub(crate) time: u64,
    pub(crate) flow: u32,
    pub(crate) probe: u32,
    pub(crate) ttl: u8,
    /// Made from a stored header, while the application was silent.
    pub(crate) is_idle: bool,
    /// Bytes, from its IP header on, as handed to the device.
    pub(crate) length: u16,
    /// By the user's function.
    pub(crate) is_edited: bool,
}

/// An ICMP error that quotes a probe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    pub(crate) time: u64,
    pub(crate) flow: u32,
    pub(crate) probe: u32,
    pub(crate) ttl: u8,
    pub(crate) sent: u64,
    pub(crate) responder: IpAddr,
    /// TTL that the answer arrived with.
    pub(crate) reply_ttl: u8,
    pub(crate) is_repeated: bool,
    /// Modulo 256.
    pub(crate) cpu: u8,
    /// Identification of the answer's own IP header; 0 for IPv6.
    pub(crate) identification: u16,
    /// The probe as it was sent, but for its TTL and marks.
    pub(crate) header: hops_header,
    /// By the user's function, if there is one.
    pub(crate) extracted: Option<u64>,
    /// The ICMP message, as much of it as was kept.
    pub(crate) message: Vec<u8>,
}

/// What a reply of the application's own traffic says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clue {
    pub(crate) time: u64,
    pub(crate) flow: u32,
    /// Packets that left so far; trains of segments count as one.
    pub(crate) packets: u64,
    /// Those of them that are TCP without new data.
    pub(crate) retransmitted: u64,
    /// TTL of the reply.
    pub(crate) reply_ttl: u8,
    /// TSval and TSecr of the reply (RFC 7323).
    pub(crate) timestamps: Option<(u32, u32)>,
}

/// A packet of the application that the destination must answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Followed {
    pub(crate) flow: u32,
    pub(crate) sent: u64,
    /// When the answer came; `None`: it was sent again before, or its time was over.
    pub(crate) answered: Option<u64>,
}

impl Event {
    /// Reads the event at the start of `bytes`, and what is behind it.
    pub(crate) fn read<'a>(
        bytes: &'a [u8],
        interfaces: &impl Interfaces,
    ) -> Option<(Self, &'a [u8])> {
        let (event, behind) = read_prefix::<hops_event>(bytes)?;
        Some(match u32::from(event.type_) {
            native::HOPS_EVENT_FLOW => {
                let (opening, behind) = read_prefix::<hops_opening>(bytes)?;
                (Self::Opened(opened(&opening, interfaces)), behind)
            }
            native::HOPS_EVENT_SENT => (
                Self::Sent(Sent {
                    time: event.time,
                    flow: event.flow,
                    probe: event.probe,
                    ttl: event.ttl,
                    is_idle: event.is_idle != 0,
                    length: event.length,
                    is_edited: event.is_edited != 0,
                }),
                behind,
            ),
            native::HOPS_EVENT_ANSWER => {
                let (answer, behind) = read_prefix::<hops_answer>(bytes)?;
                (Self::Answered(Box::new(answered(&answer))), behind)
            }
            native::HOPS_EVENT_CLUE => {
                let (clue, behind) = read_prefix::<hops_clue>(bytes)?;
                (Self::Clue(self::clue(&clue)), behind)
            }
            native::HOPS_EVENT_FOLLOWED => {
                let (followed, behind) = read_prefix::<hops_followed>(bytes)?;
                (Self::Followed(self::followed(&followed)), behind)
            }
            native::HOPS_EVENT_CLOSED => (Self::Closed { flow: event.flow }, behind),
            _ => return None,
        })
    }
}

impl hops_header {
    /// What a router would quote if nothing were changed on the way.
    pub(super) fn as_sent(&self) -> Quoted {
        let is_ipv6 = self.is_ipv6 != 0;
        Quoted {
            source: address(&self.source),
            destination: address(&self.destination),
            source_port: self.source_port,
            destination_port: self.destination_port,
            service: (self.label >> if is_ipv6 { 20 } else { 0 }) as u8,
            ttl: self.ttl,
        }
    }
}

fn opened(opening: &hops_opening, interfaces: &impl Interfaces) -> Opened {
    Opened {
        time: opening.event.time,
        flow: opening.event.flow,
        key: flow_of(&opening.key, opening.direction),
        interface: interfaces.name(opening.key.interface),
    }
}

fn answered(answer: &hops_answer) -> Answered {
    let kept = (answer.length as usize).min(answer.bytes.len());
    Answered {
        time: answer.event.time,
        flow: answer.event.flow,
        probe: answer.event.probe,
        ttl: answer.event.ttl,
        sent: answer.sent,
        responder: address(&answer.responder),
        reply_ttl: answer.ttl,
        is_repeated: answer.is_repeated != 0,
        cpu: answer.event.cpu,
        identification: u16::from_be(answer.identification),
        header: answer.header,
        extracted: (answer.event.has_extracted != 0).then_some(answer.extracted),
        message: answer.bytes[..kept].to_vec(),
    }
}

fn clue(clue: &hops_clue) -> Clue {
    Clue {
        time: clue.event.time,
        flow: clue.event.flow,
        packets: clue.packets,
        retransmitted: clue.retransmitted,
        reply_ttl: clue.reply_ttl,
        timestamps: (clue.has_timestamp != 0).then_some((clue.tsval, clue.tsecr)),
    }
}

fn followed(followed: &hops_followed) -> Followed {
    Followed {
        flow: followed.event.flow,
        sent: followed.sent,
        answered: (followed.is_lost == 0).then_some(followed.event.time),
    }
}
