//! Packets that a capture has more than once: of a mirror of both directions or of several ports,
//! of all interfaces of a host, of a bridge and its ports. Each is measured once, where it was seen
//! first.
//!
//! A copy has the same flow, length, identification and content as a packet a moment before it.
//! That is proof where the sender numbers its packets (IPv4), and where the copy came another way:
//! another TTL or other link-layer addresses. What has no number (IPv6, and IPv4 with the
//! identification 0 that atomic datagrams may have) and came the same way could as well be a
//! retransmission or another acknowledgement: it is a copy where copies are the rule in this
//! capture.

use super::Dissected;
use crate::native::{PACKET_COPY, PACKET_MEASURABLE};

/// How far apart copies are at most, in nanoseconds, of packets that are numbered.
const NUMBERED_NS: u64 = 20_000_000;
/// The same, of others. A retransmission takes at least a round trip.
const UNNUMBERED_NS: u64 = 4_000_000;

/// Packets are looked for among the last four of one of so many sets: 256 KiB, or 20 ms of 800,000
/// packets a second.
const SETS: usize = 4096;
const WAYS: usize = 4;
/// Directions of flows whose last number is known.
const SENDERS: usize = 4096;

/// Copies are the rule where there are at least so many, …
const RULE_COPIES: u32 = 4;
/// … and one for so many packets at least.
const RULE_PACKETS: u32 = 3;
/// After so many packets older ones count half, so that a capture may change.
const RULE_MEMORY: u32 = 8192;

/// A packet that was seen; all zeros: none.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    time: u64,
    tag: u32,
    way: u32,
}

/// One direction of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    tag: u32,
    number: u16,
    /// It gives all packets the same number.
    is_constant: bool,
}

enum Finding {
    New,
    Copy,
    /// If copies are the rule.
    Perhaps,
}

/// What has passed lately.
pub(super) struct Copies {
    seen: Box<[[Seen; WAYS]]>,
    senders: Box<[Sender]>,
    /// Packets, of those that tell something, and copies among them.
    packets: u32,
    copied: u32,
    /// Indexes in the present batch.
    perhaps: Vec<usize>,
}

impl Copies {
    pub(super) fn new() -> Self {
        Self {
            seen: vec![[Seen::default(); WAYS]; SETS].into_boxed_slice(),
            senders: vec![Sender::default(); SENDERS].into_boxed_slice(),
            packets: 0,
            copied: 0,
            perhaps: Vec::new(),
        }
    }

    /// Marks the copies among packets that follow each other, by their verdict. Whether copies are
    /// the rule is decided for all together, so that it holds from the first packet on. Returns how
    /// many there are.
    pub(super) fn mark(&mut self, packets: &mut [Dissected]) -> u64 {
        let mut found = 0;
        self.perhaps.clear();
        for (index, packet) in packets.iter_mut().enumerate() {
            let reading = &packet.reading;
            let likeness = &reading.likeness;
            let is_measured = reading.verdict == PACKET_MEASURABLE && reading.is_selected != 0;
            if !is_measured || likeness.print == 0 {
                continue;
            }
            let is_telling = u32::from(likeness.is_telling);
            let is_numbered = u32::from(likeness.number != 0);
            match self.find(packet) {
                Finding::New => self.packets += is_telling | is_numbered,
                Finding::Copy => {
                    packet.reading.verdict = PACKET_COPY;
                    self.copied += 1;
                    found += 1;
                }
                Finding::Perhaps => {
                    self.copied += is_telling;
                    self.perhaps.push(index);
                }
            }
        }
        if self.is_rule() {
            for &index in &self.perhaps {
                packets[index].reading.verdict = PACKET_COPY;
            }
            found += self.perhaps.len() as u64;
        }
        if self.packets > RULE_MEMORY {
            self.packets /= 2;
            self.copied /= 2;
        }
        found
    }

    fn is_rule(&self) -> bool {
        self.copied >= RULE_COPIES && self.copied.saturating_mul(RULE_PACKETS) >= self.packets
    }

    fn find(&mut self, packet: &Dissected) -> Finding {
        let likeness = &packet.reading.likeness;
        let (set, tag) = (
            likeness.print as usize % SETS,
            (likeness.print >> 32) as u32,
        );
        let own = Seen {
            time: packet.time,
            tag,
            way: likeness.way,
        };
        let apart = |seen: &Seen| packet.time.abs_diff(seen.time);
        let known = self.seen[set]
            .iter()
            .position(|seen| seen.tag == tag && apart(seen) <= NUMBERED_NS);
        if let Some(known) = known {
            let seen = self.seen[set][known];
            if self.is_numbered(packet) {
                return Finding::Copy;
            }
            if apart(&seen) <= UNNUMBERED_NS {
                return if seen.way == own.way {
                    Finding::Perhaps
                } else {
                    Finding::Copy
                };
            }
            self.seen[set][known] = own;
        } else if let Some(oldest) = self.seen[set].iter_mut().min_by_key(|seen| seen.time) {
            *oldest = own;
        }
        self.learn_number(packet);
        Finding::New
    }

    /// Does its sender number its packets?
    fn is_numbered(&mut self, packet: &Dissected) -> bool {
        let tag = (packet.reading.hash >> 32) as u32;
        let sender = self.sender(packet);
        packet.reading.likeness.number != 0 && !(sender.is_constant && sender.tag == tag)
    }

    /// Learns of a packet that is no copy whether it has a number of its own.
    fn learn_number(&mut self, packet: &Dissected) {
        let number = packet.reading.likeness.number;
        let tag = (packet.reading.hash >> 32) as u32;
        let sender = self.sender(packet);
        *sender = Sender {
            tag,
            number,
            is_constant: sender.tag == tag && sender.number == number,
        };
    }

    fn sender(&mut self, packet: &Dissected) -> &mut Sender {
        let reading = &packet.reading;
        let direction = usize::from(reading.packet.direction);
        &mut self.senders[(reading.hash as usize)
            .wrapping_mul(2)
            .wrapping_add(direction)
            % SENDERS]
    }
}
