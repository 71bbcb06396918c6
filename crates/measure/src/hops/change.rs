//! Which routers a flow passes, when that changes, and what only looks like a change: routers that
//! take turns packet by packet.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Answers of a hop that are looked at.
const RECENT: usize = 32;
/// Turns (an answer or two of one router between those of others) among these that make a hop
/// balanced. Of two routers that are chosen at random per packet, three of four runs are so short;
/// of one that has a tenth of the packets, all of its three.
const TURNS: usize = 3;
const TURN_ANSWERS: usize = 2;
/// A router that gave so many answers in a row is believed to be replaced after three of another,
/// one with half of it after five; by chance, of two routers that take turns, the former happens in
/// one of 1024 cases. Who gave fewer was never believed. Where a turn was seen, it takes more.
const LONG_RUN: usize = 8;
const SHORT_RUN: usize = 4;
const CONFIRMED_LONG: usize = 3;
const CONFIRMED_SHORT: usize = 5;
const CONFIRMED_DOUBTFUL: usize = 8;
/// After a change was confirmed at one hop, the others are waited for at most so long.
const SETTLE_NS: u64 = 700_000_000;
/// All hops are probed at once for so long after a router that was not expected, and not again for
/// as long as it takes to be no burden.
const HURRY_NS: u64 = 1_200_000_000;
const HURRY_PAUSE_NS: u64 = 5_000_000_000;
/// A router that comes back within it flaps.
const FLAP_NS: u64 = 60_000_000_000;

/// What a change was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Another way.
    Route,
    /// The way that was left less than a minute ago.
    Flap,
}

impl Kind {
    /// The word in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Flap => "flap",
        }
    }
}

/// A change of route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// When the first probe was sent that took the new way, ns.
    pub(super) time: u64,
    /// The first hop that is another.
    pub(super) ttl: u8,
    pub(super) old: IpAddr,
    pub(super) new: IpAddr,
    /// Routers that were known to be on the way, and are now.
    pub(super) old_length: u8,
    pub(super) new_length: u8,
    pub(super) kind: Kind,
}

/// What is known of a hop.
#[derive(Debug, Default)]
struct Router {
    /// When answered probes were sent, and who answered.
    recent: VecDeque<(u64, IpAddr)>,
    /// Who is believed to be there, and since when by the first probe that he answered.
    settled: Option<IpAddr>,
    since: u64,
    /// Who was before, and until when.
    before: Option<(IpAddr, u64)>,
    is_balanced: bool,
    /// What is believed is from before a change at another hop.
    is_stale: bool,
}

impl Router {
    /// How many of the newest answers are of the same router.
    fn run(&self) -> usize {
        let newest = self.recent.back().map(|(_, address)| *address);
        let answers = self.recent.iter().rev();
        answers
            .take_while(|(_, address)| Some(*address) == newest)
            .count()
    }

    /// How many answers before that run were in a row of the router that is believed to be there.
    fn run_before(&self, run: usize) -> usize {
        let answers = self.recent.iter().rev().skip(run);
        answers
            .take_while(|(_, address)| Some(*address) == self.settled)
            .count()
    }

    /// Turns between the first and the last run.
    fn turns(&self) -> usize {
        let mut runs: Vec<(IpAddr, usize)> = Vec::new();
        for (_, address) in &self.recent {
            match runs.last_mut() {
                Some((last, count)) if last == address => *count += 1,
                _ => runs.push((*address, 1)),
            }
        }
        let inner = runs.get(1..runs.len().saturating_sub(1));
        let inner = inner.unwrap_or_default().iter();
        inner.filter(|(_, count)| *count <= TURN_ANSWERS).count()
    }

    /// Did this one answer before the newest run?
    fn is_member(&self, address: IpAddr, run: usize) -> bool {
        let mut before = self.recent.iter().rev().skip(run);
        before.any(|(_, other)| *other == address)
    }

    /// Takes an answer. Returns whether somebody else is now known to be there.
    fn take(&mut self, sent: u64, address: IpAddr) -> bool {
        if self.recent.back().is_some_and(|(newest, _)| sent < *newest) {
            return false;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((sent, address));
        if self.is_stale || self.settled.is_none() {
            self.is_stale = false;
            self.believe(address, sent);
            return false;
        }
        let turns = self.turns();
        self.is_balanced = turns >= TURNS;
        if self.settled == Some(address) {
            return false;
        }
        let run = self.run();
        if self.is_balanced {
            return run >= CONFIRMED_SHORT && !self.is_member(address, run);
        }
        match self.run_before(run) {
            _ if turns > 0 => run >= CONFIRMED_DOUBTFUL,
            LONG_RUN.. => run >= CONFIRMED_LONG,
            SHORT_RUN.. => run >= CONFIRMED_SHORT,
            _ => {
                if run >= CONFIRMED_SHORT {
                    self.believe(address, sent);
                }
                false
            }
        }
    }

    /// From now on this router is there; answers of others are of the past.
    fn believe(&mut self, address: IpAddr, since: u64) {
        self.settled = Some(address);
        self.since = since;
        self.recent.retain(|(_, other)| *other == address);
    }

    /// Who was believed to be there before that time.
    fn old(&self, time: u64) -> Option<IpAddr> {
        self.settled.filter(|_| self.since < time)
    }

    /// Somebody else than expected has answered, and it is not known what that means.
    fn is_surprising(&self) -> bool {
        let newest = self.recent.back().map(|(_, address)| *address);
        !self.is_balanced && newest.is_some() && newest != self.settled
    }
}

/// The route of a flow.
#[derive(Debug, Default)]
pub(super) struct Route {
    hops: Vec<Router>,
    /// A change is known: when the first probe that showed it was sent, and until when others are
    /// waited for.
    pending: Option<(u64, u64)>,
    /// Until when all hops are to be probed, and from when on that may begin anew.
    hurry: Option<(u64, u64)>,
}

impl Route {
    /// Takes the answer of a router to a probe sent at `sent`.
    pub(super) fn answer(&mut self, ttl: u8, sent: u64, address: IpAddr, now: u64) {
        let index = usize::from(ttl.max(1)) - 1;
        if self.hops.len() <= index {
            self.hops.resize_with(index + 1, Router::default);
        }
        let hop = &mut self.hops[index];
        let is_confirmed = hop.take(sent, address);
        if hop.is_surprising() && self.hurry.is_none_or(|(_, again)| now >= again) {
            self.hurry = Some((now + HURRY_NS, now + HURRY_PAUSE_NS));
        }
        if is_confirmed && self.pending.is_none() {
            let run = hop.run();
            let first = hop.recent[hop.recent.len() - run].0;
            self.pending = Some((first, now + SETTLE_NS));
        }
    }

    /// Should all hops be probed at once, to see what has changed?
    pub(super) fn is_hurried(&self, now: u64) -> bool {
        self.hurry.is_some_and(|(until, _)| now < until)
            && self.hops.iter().any(Router::is_surprising)
    }

    /// Do routers take turns at this hop?
    pub(super) fn is_balanced(&self, ttl: u8) -> bool {
        let hop = self.hops.get(usize::from(ttl.max(1)) - 1);
        hop.is_some_and(|hop| hop.is_balanced)
    }

    /// Who is at TTL 1, 2, …: nobody known where routers take turns, or nothing was heard.
    pub(super) fn routers(&self) -> Vec<Option<IpAddr>> {
        let hops = self.hops.iter();
        hops.map(|hop| hop.settled.filter(|_| !hop.is_balanced && !hop.is_stale))
            .collect()
    }

    /// The change that is now known as a whole.
    pub(super) fn changed(&mut self, now: u64) -> Option<Change> {
        let (since, until) = self.pending?;
        let is_heard = |hop: &Router| hop.recent.back().is_none_or(|(sent, _)| *sent >= since);
        if now < until && !self.hops.iter().all(is_heard) {
            return None;
        }
        self.pending = None;
        self.hurry = None;
        let ttl = self.hops.iter().position(Router::is_surprising)?;
        let old_length = self.length(|hop| hop.old(since).is_some());
        let new_length = self.new_length(since, ttl, old_length);
        let (old, (_, new)) = (self.hops[ttl].settled?, *self.hops[ttl].recent.back()?);
        let run = self.hops[ttl].run();
        let time = self.hops[ttl].recent[self.hops[ttl].recent.len() - run].0;
        let before = self.hops[ttl].before;
        let is_back = before.is_some_and(|(back, left)| back == new && time < left + FLAP_NS);
        self.hops
            .truncate(usize::from(new_length.max(ttl as u8 + 1)));
        for hop in &mut self.hops {
            let newest = hop.recent.back().map(|(_, address)| *address);
            if let Some(newest) = newest.filter(|_| hop.is_surprising()) {
                hop.before = hop.settled.map(|old| (old, time));
                hop.believe(newest, since);
            }
            hop.is_stale = hop.recent.back().is_none_or(|(sent, _)| *sent < since);
        }
        Some(Change {
            time,
            ttl: ttl as u8 + 1,
            old,
            new,
            old_length,
            new_length,
            kind: if is_back { Kind::Flap } else { Kind::Route },
        })
    }

    fn length(&self, is_there: impl Fn(&Router) -> bool) -> u8 {
        self.hops
            .iter()
            .rposition(is_there)
            .map_or(0, |index| index as u8 + 1)
    }

    /// A router behind the change that was on the old way too says by how much the way has become
    /// longer or shorter; otherwise the deepest one heard of says how long it is at least.
    fn new_length(&self, since: u64, changed: usize, old_length: u8) -> u8 {
        let heard = |hop: &Router| {
            let newest = hop.recent.back()?;
            (newest.0 >= since).then_some(newest.1)
        };
        for (index, hop) in self.hops.iter().enumerate().skip(changed).rev() {
            let was = heard(hop).and_then(|address| {
                self.hops
                    .iter()
                    .rposition(|hop| hop.old(since) == Some(address))
            });
            if let Some(was) = was {
                return (usize::from(old_length) + index - was) as u8;
            }
        }
        self.length(|hop| heard(hop).is_some())
    }
}

#[cfg(test)]
mod tests;
