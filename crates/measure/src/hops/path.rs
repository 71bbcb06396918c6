//! What is known of the routers on the path of a flow.

use std::collections::VecDeque;
use std::net::IpAddr;

use fathom_record::{Histogram, Squares};

use super::{Marks, Outcome};
use crate::hops::native::HOPS_TTL_MAX;

/// Fates that a hop remembers: at 100 probes a second the last ten seconds.
const FATES_MAX: usize = 1024;
/// Routers that are told apart at one TTL.
const RESPONDERS_MAX: usize = 16;

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fate {
    /// When it was sent, ns of `CLOCK_MONOTONIC`.
    pub(super) sent: u64,
    /// Whether it was answered, and after how long.
    pub(super) rtt_ns: Option<u64>,
    /// Who answered: an index in [`Hop::responders`].
    pub(super) responder: u8,
}

/// Somebody who answers at a TTL.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Responder {
    pub(super) address: IpAddr,
    /// Answers so far.
    pub(super) answers: u64,
    /// When the last answered probe was sent.
    pub(super) last: u64,
    /// TTL that its answers arrive with.
    pub(super) reply_ttl: u8,
}

/// The router, or routers, that a TTL reaches.
#[derive(Debug, Default)]
pub(super) struct Hop {
    /// At most [`RESPONDERS_MAX`]; the first ones stay.
    pub(super) responders: Vec<Responder>,
    /// The last fates, in the order in which they became known.
    pub(super) fates: VecDeque<Fate>,
    /// Probes whose fate is known.
    pub(super) known: u64,
    pub(super) answered: u64,
    /// Answers came from the destination, or refused the probe.
    pub(super) refused: u64,
    /// When the last probe that was lost was sent; 0: none was.
    pub(super) last_lost: u64,
    pub(super) last_ns: Option<u64>,
    pub(super) minimum_ns: Option<u64>,
    /// The counts of the current interval.
    pub(super) interval: Interval,
    /// Who answered last.
    pub(super) current: Option<u8>,
}

/// What happened since the last summary.
#[derive(Debug, Default)]
pub(super) struct Interval {
    pub(super) known: u64,
    pub(super) lost: u64,
    pub(super) rtts: Histogram,
    pub(super) squares: Squares,
    /// What its answers showed.
    pub(super) marks: Marks,
}

impl Interval {
    /// Takes a round trip.
    pub(super) fn answer(&mut self, rtt_ns: u64) {
        self.rtts.record(rtt_ns);
        self.squares.record(rtt_ns);
    }
}

impl Hop {
    /// The index of a responder; `None` when there are too many.
    fn responder_index(&mut self, address: IpAddr) -> Option<u8> {
        let known = self
            .responders
            .iter()
            .position(|responder| responder.address == address);
        if let Some(index) = known {
            return Some(index as u8);
        }
        if self.responders.len() == RESPONDERS_MAX {
            return None;
        }
        self.responders.push(Responder {
            address,
            answers: 0,
            last: 0,
            reply_ttl: 0,
        });
        Some(self.responders.len() as u8 - 1)
    }

    /// Takes an answer.
    pub(super) fn answer(
        &mut self,
        sent: u64,
        rtt_ns: u64,
        address: IpAddr,
        reply_ttl: u8,
        outcome: Outcome,
    ) {
        let index = self.responder_index(address);
        if let Some(index) = index {
            let responder = &mut self.responders[usize::from(index)];
            responder.answers += 1;
            responder.last = sent;
            responder.reply_ttl = reply_ttl;
            self.current = Some(index);
        }
        self.answered += 1;
        self.refused += u64::from(outcome == Outcome::Refused);
        self.last_ns = Some(rtt_ns);
        self.minimum_ns = Some(self.minimum_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        self.interval.answer(rtt_ns);
        self.remember(Fate {
            sent,
            rtt_ns: Some(rtt_ns),
            responder: index.unwrap_or(u8::MAX),
        });
    }

    /// Takes note that no answer came.
    pub(super) fn lose(&mut self, sent: u64) {
        self.interval.lost += 1;
        self.last_lost = sent;
        self.remember(Fate {
            sent,
            rtt_ns: None,
            responder: u8::MAX,
        });
    }

    fn remember(&mut self, fate: Fate) {
        self.known += 1;
        self.interval.known += 1;
        if self.fates.len() == FATES_MAX {
            self.fates.pop_front();
        }
        self.fates.push_back(fate);
    }

    /// Who answers here most of the time.
    pub(super) fn usual(&self) -> Option<IpAddr> {
        self.responders
            .iter()
            .max_by_key(|responder| responder.answers)
            .map(|responder| responder.address)
    }

    /// How many routers the answers of who usually answers seem to pass on the way back.
    pub(super) fn routers_back(&self) -> Option<u8> {
        let usual = self.usual()?;
        let mut responders = self.responders.iter();
        let responder = responders.find(|responder| responder.address == usual)?;
        routers_passed(responder.reply_ttl)
    }

    /// Who answered last.
    pub(super) fn latest(&self) -> Option<IpAddr> {
        let index = usize::from(self.current?);
        Some(self.responders.get(index)?.address)
    }

    /// How many of the last `count` fates are losses, if there are so many.
    pub(super) fn lost_of_last(&self, count: usize) -> Option<usize> {
        if self.fates.len() < count {
            return None;
        }
        let last = self.fates.iter().rev().take(count);
        Some(last.filter(|fate| fate.rtt_ns.is_none()).count())
    }
}

/// The path of a flow, by TTL.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The hop of TTL 1 is first.
    pub(super) hops: Vec<Hop>,
    /// TTL of the last packet of the application that came back.
    pub(super) reply_ttl: Option<u8>,
}

impl Path {
    /// The hop that a TTL reaches; TTL 0 is none.
    pub(super) fn hop_mut(&mut self, ttl: u8) -> &mut Hop {
        let ttl = usize::from(ttl.max(1));
        if self.hops.len() < ttl {
            self.hops.resize_with(ttl, Hop::default);
        }
        &mut self.hops[ttl - 1]
    }

    /// From this TTL on there are other routers than before, so many in all.
    pub(super) fn forget(&mut self, ttl: u8, length: u8) {
        self.hops.truncate(usize::from(length.max(ttl)));
        for hop in self.hops.iter_mut().skip(usize::from(ttl) - 1) {
            *hop = Hop {
                interval: std::mem::take(&mut hop.interval),
                ..Hop::default()
            };
        }
    }

    /// The largest TTL that a router answered for; 0: none.
    pub(super) fn deepest(&self) -> u8 {
        self.hops
            .iter()
            .rposition(|hop| hop.answered > hop.refused)
            .map_or(0, |index| index as u8 + 1)
    }

    /// The largest TTL whose last known probe a router answered; 0: none. A path that has become
    /// shorter loses the probes of the last ones.
    pub(super) fn answering(&self) -> u8 {
        let answers = |hop: &Hop| hop.answered > hop.refused && hop.lost_of_last(1) == Some(0);
        self.hops
            .iter()
            .rposition(answers)
            .map_or(0, |index| index as u8 + 1)
    }

    /// How many routers there are before the host that refuses most probes: the destination, or a
    /// router that lets nothing pass.
    pub(super) fn routers_there(&self) -> Option<u8> {
        let refused = self
            .hops
            .iter()
            .position(|hop| hop.refused * 2 > hop.answered);
        refused.map(|index| index as u8)
    }

    /// The TTL that seems to reach the destination: by that of replies, since probes tell nothing,
    /// but beyond the last router that answers.
    pub(super) fn destination_ttl(&self) -> u8 {
        let back = self.routers_back();
        let back = back.filter(|routers| u32::from(*routers) < HOPS_TTL_MAX);
        self.deepest().max(back.unwrap_or(0)) + 1
    }

    /// How many routers replies seem to pass: systems start with a TTL of 64, 128 or 255. A hint,
    /// since the way back may be another.
    pub(super) fn routers_back(&self) -> Option<u8> {
        routers_passed(self.reply_ttl?)
    }
}

/// How many routers a packet has passed that arrives with this TTL.
fn routers_passed(ttl: u8) -> Option<u8> {
    let start = [64, 128, 255].into_iter().find(|start| *start >= ttl)?;
    Some(start - ttl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_tell_how_many_routers_there_are() {
        let mut path = Path::default();
        assert_eq!(path.routers_back(), None);
        for (ttl, routers) in [(64, 0), (61, 3), (128, 0), (65, 63), (250, 5)] {
            path.reply_ttl = Some(ttl);
            assert_eq!(path.routers_back(), Some(routers), "{ttl}");
        }
    }

    #[test]
    fn the_usual_router_tells_how_far_back_it_is() {
        let mut hop = Hop::default();
        assert_eq!(hop.routers_back(), None);
        for (router, reply_ttl) in [(1, 62), (1, 61), (2, 255)] {
            let address = IpAddr::from([192, 0, 2, router]);
            hop.answer(1, 5, address, reply_ttl, Outcome::Answered);
        }
        assert_eq!(hop.routers_back(), Some(3));
    }

    #[test]
    fn the_deepest_router_is_one_that_answered() {
        let mut path = Path::default();
        let router = "192.0.2.1".parse().unwrap();
        assert_eq!(path.deepest(), 0);
        path.hop_mut(4).lose(1);
        path.hop_mut(2).answer(1, 5, router, 63, Outcome::Answered);
        path.hop_mut(3).answer(1, 5, router, 62, Outcome::Refused);
        assert_eq!(path.deepest(), 2);
        assert_eq!(path.answering(), 2);
        path.hop_mut(1).answer(2, 5, router, 64, Outcome::Answered);
        path.hop_mut(2).lose(2);
        assert_eq!((path.deepest(), path.answering()), (2, 1));
    }
}
