//! How often which router is asked: pure decisions from what is known of a path.
//!
//! A path is explored from this side. TCP's probes do no harm where they arrive, so several TTLs
//! beyond the last router are tried at a time; of other transports one is, and never one that may
//! be the destination's by the TTL of its replies. A hop's rate grows while its answers keep
//! coming, and falls by half where answers are missing while routers behind it answer: that is what
//! a limit of ICMP errors looks like.

use std::time::Duration;

use super::path::Path;
use super::share::{Destination, ProbingRole};
use crate::hops::native::HOPS_TTL_MAX;

/// TTLs beyond the deepest router that answered, of TCP.
pub(super) const AHEAD: u8 = 4;
/// A TTL that was silent so often in a row is asked rarely.
pub(super) const SILENT: usize = 5;
const RARELY: Duration = Duration::from_secs(30);
/// Probes a second to a TTL that has not answered yet: there may be no router, and what is beyond
/// the last one is nobody's business.
pub(super) const EXPLORING: f64 = 2.0;
/// Fates that a decision about a rate looks at.
const LOOKED_AT: usize = 8;

/// How fast to probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Probes a second to a router, to begin with.
    pub first: f64,
    /// The most.
    pub most: f64,
    /// All hops of a flow together share it.
    pub is_shared: bool,
    /// The user asked for it: each flow is asked at this rate. Otherwise flows share what is known,
    /// and probes are few beside packets.
    pub is_asked: bool,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            first: 1.0,
            most: 10.0,
            is_shared: false,
            is_asked: false,
        }
    }
}

/// What the kernel is told about a flow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Highest TTL that is probed; 0: none.
    pub(crate) ceiling: u8,
    /// Routers answer up to this TTL: probes with a lower one, or it, do not reach the destination.
    pub(crate) known: u8,
    /// Microseconds between probes, of TTL 1, 2, …
    pub(crate) intervals_us: [u32; HOPS_TTL_MAX as usize],
    /// All of them are to be probed at once, whenever their turns are.
    pub(crate) is_hurried: bool,
    /// When the first turns come, ns of `CLOCK_MONOTONIC`, if that is to be set.
    pub(crate) dues: Option<Box<[u64; HOPS_TTL_MAX as usize]>>,
}

impl Plan {
    /// Probes a second, while packets leave.
    pub(super) fn per_second(&self) -> f64 {
        let asked = self.intervals_us.iter().take(usize::from(self.ceiling));
        asked.map(|interval| 1e6 / f64::from(*interval)).sum()
    }
}

/// What is known of a flow's path from other flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outlook {
    /// For whom it is asked.
    pub(super) role: ProbingRole,
    /// What flows to its destination have learnt, where they share it.
    pub(super) destination: Option<Destination>,
    /// How many routers there seem to be before the destination.
    pub(super) routers: Option<u8>,
    /// Flows to its destination that are asked.
    pub(super) peers: u32,
}

/// The rates of a flow's hops.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Probes a second, of TTL 1, 2, …
    rates: [f64; HOPS_TTL_MAX as usize],
    /// Fates that were known at the last decision about a rate.
    looked_at: [u64; HOPS_TTL_MAX as usize],
    highest_ttl: u8,
    is_safe: bool,
    rate: Rate,
}

impl Schedule {
    /// `is_safe`: probes may reach the destination.
    pub(super) fn new(rate: Rate, highest_ttl: u8, is_safe: bool) -> Self {
        Self {
            rates: [rate.first; HOPS_TTL_MAX as usize],
            looked_at: [0; HOPS_TTL_MAX as usize],
            highest_ttl: highest_ttl.min(HOPS_TTL_MAX as u8),
            is_safe,
            rate,
        }
    }

    /// The highest TTL to probe. One flow to a destination looks for routers behind the last; the
    /// others, where there is none, now and then for one.
    pub(super) fn ceiling(&self, path: &Path, outlook: &Outlook) -> u8 {
        let deepest = path.deepest();
        let limit = match &outlook.destination {
            _ if !self.is_safe => self.unsafe_ceiling(path, deepest, outlook.routers),
            Some(destination) if outlook.role != ProbingRole::Leader => {
                let deepest = deepest.max(destination.deepest());
                deepest + u8::from(destination.is_end(deepest))
            }
            Some(destination) => deepest.max(destination.deepest()) + AHEAD,
            None => deepest + AHEAD,
        };
        limit.min(self.highest_ttl)
    }

    /// One TTL beyond the deepest router, or beyond silent ones that must be routers since there
    /// are so many.
    fn unsafe_ceiling(&self, path: &Path, deepest: u8, routers: Option<u8>) -> u8 {
        let mut ceiling = deepest + 1;
        if let Some(routers) = routers {
            while is_silent(path, ceiling) && ceiling < self.highest_ttl {
                ceiling += 1;
            }
            ceiling = ceiling.min(routers);
        }
        ceiling
    }

    /// Decides anew. `share` is this flow's part in all that the router of a TTL is asked.
    pub(super) fn plan(
        &mut self,
        path: &Path,
        outlook: &Outlook,
        share: impl Fn(u8) -> f64,
    ) -> Plan {
        let ceiling = self.ceiling(path, outlook);
        let is_silent = |ttl: u8| {
            let destination = outlook.destination.as_ref();
            is_silent(path, ttl) || destination.is_some_and(|known| known.is_silent(ttl))
        };
        self.adapt(path);
        let mut intervals_us = [u32::MAX; HOPS_TTL_MAX as usize];
        for ttl in 1..=ceiling {
            let index = usize::from(ttl) - 1;
            let mut rate = self.rates[index];
            if self.rate.is_shared {
                rate = self.rate.most / f64::from(ceiling);
            }
            rate = rate.min(self.rate.most * share(ttl));
            if path.hops.get(index).is_none_or(|hop| hop.answered == 0) {
                rate = rate.min(EXPLORING);
            }
            if is_silent(ttl) {
                rate = rate.min(1.0 / RARELY.as_secs_f64() / f64::from(outlook.peers.max(1)));
            }
            intervals_us[index] = interval_us(rate);
        }
        Plan {
            ceiling,
            known: path.answering().min(outlook.routers.unwrap_or(u8::MAX)),
            intervals_us,
            is_hurried: false,
            dues: None,
        }
    }

    fn adapt(&mut self, path: &Path) {
        for (index, hop) in path.hops.iter().enumerate().take(self.rates.len()) {
            if hop.known < self.looked_at[index] + LOOKED_AT as u64 {
                continue;
            }
            self.looked_at[index] = hop.known;
            let rate = &mut self.rates[index];
            match hop.lost_of_last(LOOKED_AT) {
                Some(0) => *rate = (*rate + 1.0).min(self.rate.most),
                Some(lost) if lost >= 2 && has_witness(path, index) => {
                    *rate = (*rate / 2.0).max(self.rate.first.min(0.5));
                }
                _ => {}
            }
        }
    }
}

/// Microseconds between probes at so many a second.
pub(super) fn interval_us(rate: f64) -> u32 {
    let interval = Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX);
    u32::try_from(interval.as_micros()).unwrap_or(u32::MAX)
}

/// Nothing came back from a TTL for a while, or ever.
fn is_silent(path: &Path, ttl: u8) -> bool {
    path.hops
        .get(usize::from(ttl) - 1)
        .is_some_and(|hop| hop.lost_of_last(SILENT) == Some(SILENT))
}

/// A router behind this one answers nearly always: so probes pass here, and answers come back.
fn has_witness(path: &Path, index: usize) -> bool {
    path.hops[index + 1..].iter().any(|hop| {
        hop.lost_of_last(LOOKED_AT)
            .is_some_and(|lost| lost <= LOOKED_AT / 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::Outcome;

    fn answer(path: &mut Path, ttl: u8, count: usize) {
        let router = std::net::IpAddr::from([10, 0, 0, ttl]);
        for sent in 0..count {
            let hop = path.hop_mut(ttl);
            hop.answer(sent as u64, 1_000_000, router, 64 - ttl, Outcome::Answered);
        }
    }

    fn seeing(routers: Option<u8>) -> Outlook {
        Outlook {
            routers,
            ..Outlook::default()
        }
    }

    fn lose(path: &mut Path, ttl: u8, count: usize) {
        for sent in 0..count {
            path.hop_mut(ttl).lose(sent as u64);
        }
    }

    #[test]
    fn tcp_is_explored_some_ttls_ahead() {
        let mut path = Path::default();
        let schedule = Schedule::new(Rate::default(), 30, true);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 4);
        answer(&mut path, 3, 1);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 7);
        answer(&mut path, 29, 1);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 30);
    }

    #[test]
    fn udp_never_goes_beyond_what_replies_say() {
        let mut path = Path::default();
        let schedule = Schedule::new(Rate::default(), 30, false);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 1);
        path.reply_ttl = Some(64);
        assert_eq!(
            schedule.ceiling(&path, &seeing(path.routers_back())),
            0,
            "there is no router"
        );
        path.reply_ttl = Some(61);
        answer(&mut path, 1, 1);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 2);
        lose(&mut path, 2, SILENT);
        assert_eq!(
            schedule.ceiling(&path, &seeing(path.routers_back())),
            3,
            "a silent router is passed"
        );
        answer(&mut path, 3, 1);
        assert_eq!(
            schedule.ceiling(&path, &seeing(path.routers_back())),
            3,
            "the next is the destination"
        );
    }

    #[test]
    fn what_another_flow_learnt_bounds_one_that_hears_nothing() {
        let mut path = Path::default();
        let schedule = Schedule::new(Rate::default(), 30, false);
        answer(&mut path, 2, 1);
        assert_eq!(schedule.ceiling(&path, &seeing(None)), 3);
        assert_eq!(schedule.ceiling(&path, &seeing(Some(2))), 2);
        lose(&mut path, 3, SILENT);
        assert_eq!(schedule.ceiling(&path, &seeing(Some(9))), 4);
    }

    #[test]
    fn a_silent_router_is_not_passed_without_a_hint() {
        let mut path = Path::default();
        let schedule = Schedule::new(Rate::default(), 30, false);
        lose(&mut path, 1, 100);
        assert_eq!(schedule.ceiling(&path, &seeing(path.routers_back())), 1);
    }

    #[test]
    fn rates_grow_with_answers_and_fall_where_deeper_routers_answer() {
        let mut path = Path::default();
        let mut schedule = Schedule::new(Rate::default(), 30, true);
        let interval = |schedule: &mut Schedule, path: &Path, ttl: usize| {
            schedule.plan(path, &seeing(None), |_| 1.0).intervals_us[ttl - 1]
        };
        assert_eq!(interval(&mut schedule, &path, 1), 1_000_000);
        answer(&mut path, 1, LOOKED_AT);
        answer(&mut path, 2, LOOKED_AT);
        assert_eq!(interval(&mut schedule, &path, 1), 500_000);
        for _ in 0..20 {
            answer(&mut path, 2, LOOKED_AT);
            interval(&mut schedule, &path, 2);
        }
        assert_eq!(interval(&mut schedule, &path, 2), 100_000, "the most");
        lose(&mut path, 1, 3);
        answer(&mut path, 1, LOOKED_AT - 3);
        assert_eq!(interval(&mut schedule, &path, 1), 1_000_000, "half of two");
        lose(&mut path, 2, LOOKED_AT);
        assert_eq!(interval(&mut schedule, &path, 2), 30_000_000, "silent");
    }

    #[test]
    fn where_nobody_has_answered_is_asked_seldom() {
        let mut path = Path::default();
        answer(&mut path, 1, 1);
        let fast = Rate {
            first: 100.0,
            most: 100.0,
            is_shared: false,
            is_asked: true,
        };
        let plan = Schedule::new(fast, 30, true).plan(&path, &seeing(None), |_| 1.0);
        assert_eq!(plan.intervals_us[..3], [10_000, 500_000, 500_000]);
    }

    #[test]
    fn flows_share_a_router() {
        let mut path = Path::default();
        answer(&mut path, 1, 1);
        let mut schedule = Schedule::new(Rate::default(), 30, true);
        let plan = schedule.plan(
            &path,
            &seeing(None),
            |ttl| if ttl == 1 { 0.025 } else { 1.0 },
        );
        assert_eq!(plan.intervals_us[..2], [4_000_000, 1_000_000]);
    }
}
