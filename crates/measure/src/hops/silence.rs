//! Why probes to a hop are not answered: the routers behind it, the pace of its answers and the
//! application's own packets are witnesses.

use std::collections::VecDeque;

use super::limits::{LEAST_FATES, Limits, Share, WINDOW_NS};
use super::path::Hop;

/// A TTL that never answered is called silent from so many probes on.
const LEAST_SILENT: u64 = 3;
/// Retransmissions that the application would have made if its packets were lost as probes are:
/// with 5 expected, at most 1 happens in 4 %.
const EXPECTED_RETRANSMITTED: f64 = 5.0;
/// Of these, how many say that its packets are lost, and how few that they are not. A train of
/// segments counts as one packet, hence less than all.
const LOST_FORWARD: f64 = 0.25;
const NOT_FORWARD: f64 = 0.1;
/// Between samples of the application's counters.
const SAMPLE_NS: u64 = 1_000_000_000;

/// Why probes are not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nobody ever answers at this TTL.
    Silent,
    /// The router answers fewer probes than arrive.
    RateLimited,
    /// Packets are lost on the way out.
    Forward,
    /// Answers are lost on the way back.
    Reverse,
    /// Something is lost somewhere.
    Unknown,
}

impl Silence {
    /// The words in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::RateLimited => "rate limited",
            Self::Forward => "forward loss",
            Self::Reverse => "reverse loss",
            Self::Unknown => "loss",
        }
    }
}

/// What the application's own packets went through, over the window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) retransmitted: u64,
}

/// Counters of the application's packets, by time. A sample exists only because a reply came.
#[derive(Debug, Default)]
pub(super) struct Application {
    samples: VecDeque<(u64, Traffic)>,
}

impl Application {
    /// Takes the counters as of a reply.
    pub(super) fn take(&mut self, time: u64, counted: Traffic) {
        let newest = self.samples.back();
        if newest.is_some_and(|(newest, _)| time < newest + SAMPLE_NS) {
            return;
        }
        self.samples.push_back((time, counted));
        // One that is older than the window is needed for the difference.
        while self
            .samples
            .get(1)
            .is_some_and(|(second, _)| second + WINDOW_NS < time)
        {
            self.samples.pop_front();
        }
    }

    /// What happened in the window that ends at `until`; `None` without replies in it.
    fn before(&self, until: u64) -> Option<Traffic> {
        let from = until.saturating_sub(WINDOW_NS);
        let (newest, last) = self.samples.back()?;
        let (_, first) = self.samples.front()?;
        (*newest >= from).then(|| Traffic {
            packets: last.packets - first.packets,
            retransmitted: last.retransmitted - first.retransmitted,
        })
    }
}

/// Why the hop at `index` did not answer some of the probes sent in the window before `until`,
/// which must be so long ago that what was not answered is known to be lost: `None` if it answered
/// all, or there are too few to tell.
pub(super) fn silence(
    hops: &[Hop],
    index: usize,
    application: &Application,
    limits: &Limits,
    until: u64,
) -> Option<Silence> {
    let hop = hops.get(index)?;
    if hop.answered == 0 {
        return (hop.known >= LEAST_SILENT).then_some(Silence::Silent);
    }
    let own = Share::of(hop, until);
    if own.known < LEAST_FATES || own.lost == 0 {
        return None;
    }
    let deeper: Vec<Share> = hops[index + 1..]
        .iter()
        .map(|hop| Share::of(hop, until))
        .filter(|share| share.known >= LEAST_FATES && share.lost < share.known)
        .collect();
    let traffic = application.before(until);
    if own.lost == own.known {
        // It used to answer. If packets pass, it is the router that is silent, or the destination
        // has come nearer.
        let is_passed = !deeper.is_empty() || traffic.is_some();
        return Some(if is_passed {
            Silence::Silent
        } else {
            Silence::Unknown
        });
    }
    if hop.usual().is_some_and(|router| limits.has(router, until)) {
        return Some(Silence::RateLimited);
    }
    // A loss that nobody behind has had yet may be this router's alone.
    let is_shared = deeper.is_empty() || deeper.iter().any(|share| share.lost > 0);
    let traffic = traffic.filter(|_| is_shared);
    Some(direction(own, traffic))
}

/// This hop and all behind it lose alike: the application tells whether its packets are among what
/// is lost.
fn direction(own: Share, traffic: Option<Traffic>) -> Silence {
    let Some(traffic) = traffic else {
        return Silence::Unknown;
    };
    let expected = own.lost_share() * traffic.packets as f64;
    let retransmitted = traffic.retransmitted as f64;
    if expected < EXPECTED_RETRANSMITTED {
        Silence::Unknown
    } else if retransmitted >= LOST_FORWARD * expected {
        Silence::Forward
    } else if retransmitted <= NOT_FORWARD * expected {
        Silence::Reverse
    } else {
        Silence::Unknown
    }
}

#[cfg(test)]
mod tests;
