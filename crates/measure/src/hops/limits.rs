//! Routers that limit their answers (as RFC 1812, section 4.3.2.8, and RFC 4443, section 2.4, ask
//! them to): what all flows that pass a router showed of it is taken together.

use std::collections::HashMap;
use std::net::IpAddr;

use super::path::{Fate, Hop};

/// What is looked at: long enough for some answers of a router that gives one a second, and for a
/// loss of some percent at ten probes a second.
pub(super) const WINDOW_NS: u64 = 30_000_000_000;
/// Fewer fates say nothing.
pub(super) const LEAST_FATES: usize = 5;
/// Standard deviations between two shares of losses that are not the same: 0.05 % by chance, since
/// it is asked every second of every pair of routers.
const DEVIATIONS: f64 = 3.3;
/// Losses that deeper routers would show if they shared this router's share: with 5 expected, none
/// at all happens in 0.7 % of cases (Poisson).
const EXPECTED_WITNESSED: f64 = 5.0;
/// Intervals between answers (or losses, whichever are fewer) that tell a steady pace from chance.
const INTERVALS: usize = 16;
/// Their variance, in probes², as a share of that of chance. A token bucket has at most 1/4, chance
/// at least 2; this is in between for all shares, with room for probes that are a little early or
/// late.
const STEADY: f64 = 0.25;
/// Their mean; nearer to 1 they are one run, of a router that just stopped answering.
const LEAST_DISTANCE: f64 = 1.5;
/// A router that was found to limit its answers goes on doing so.
const REMEMBERED_NS: u64 = 60_000_000_000;
/// A pace may be there by chance: it is looked for anew with each summary.
const PACED_NS: u64 = 1_000_000_000;

/// Which routers do.
#[derive(Debug, Default)]
pub(super) struct Limits {
    until: HashMap<IpAddr, u64>,
}

/// Fates of a hop within the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) known: usize,
    pub(super) lost: usize,
}

impl Share {
    pub(super) fn of(hop: &Hop, until: u64) -> Self {
        let mut share = Self { known: 0, lost: 0 };
        for fate in within(hop, until) {
            share.known += 1;
            share.lost += usize::from(fate.rtt_ns.is_none());
        }
        share
    }

    pub(super) fn lost_share(self) -> f64 {
        self.lost as f64 / self.known.max(1) as f64
    }
}

/// Two routers, the second behind the first, in all flows that pass both: Cochran's test (1954),
/// with Mantel and Haenszel's variance, of whether the first loses more. Each flow is compared with
/// itself alone, as flows lose differently and are probed at different rates.
#[derive(Debug, Default)]
struct Pair {
    excess: f64,
    variance: f64,
}

impl Pair {
    fn add(&mut self, own: Share, other: Share) {
        let (known, others) = (own.known as f64, other.known as f64);
        let all = known + others;
        let lost = (own.lost + other.lost) as f64;
        self.excess += own.lost as f64 - known * lost / all;
        self.variance += known * others * lost * (all - lost) / (all * all * (all - 1.0));
    }

    fn is_significant(&self) -> bool {
        self.excess > DEVIATIONS * self.variance.sqrt()
    }
}

/// What routers behind one would have lost if they shared its losses, where they lost nothing in
/// any flow.
#[derive(Debug, Default)]
struct Clean {
    expected: f64,
    is_refuted: bool,
}

impl Limits {
    /// Looks at what became of probes sent in the window before `until`, on all paths.
    pub(super) fn learn<'a>(&mut self, paths: impl Iterator<Item = &'a [Hop]>, until: u64) {
        let mut pairs: HashMap<(IpAddr, IpAddr), Pair> = HashMap::new();
        let mut clean: HashMap<IpAddr, Clean> = HashMap::new();
        self.until.retain(|_, limited| until < *limited);
        let from = until.saturating_sub(WINDOW_NS);
        for hops in paths.filter(|hops| hops.iter().any(|hop| hop.last_lost >= from)) {
            let routers: Vec<(IpAddr, Share, &Hop)> = hops
                .iter()
                .filter_map(|hop| Some((hop.usual()?, Share::of(hop, until), hop)))
                .filter(|(_, share, _)| share.known >= LEAST_FATES && share.lost < share.known)
                .collect();
            for (index, (router, own, hop)) in routers.iter().enumerate() {
                if own.lost == 0 {
                    continue;
                }
                if is_steady(hop, until) {
                    self.note(*router, until + PACED_NS);
                }
                let clean = clean.entry(*router).or_default();
                for (deeper, share, _) in &routers[index + 1..] {
                    pairs
                        .entry((*router, *deeper))
                        .or_default()
                        .add(*own, *share);
                    clean.expected += own.lost_share() * share.known as f64;
                    clean.is_refuted |= share.lost > 0;
                }
            }
        }
        let worse = pairs.iter().filter(|(_, pair)| pair.is_significant());
        let witnessed = clean
            .iter()
            .filter(|(_, clean)| !clean.is_refuted && clean.expected > EXPECTED_WITNESSED);
        let limited = worse.map(|((router, _), _)| *router);
        for router in limited.chain(witnessed.map(|(router, _)| *router)) {
            self.note(router, until + REMEMBERED_NS);
        }
    }

    /// Is this router known to limit its answers, as of `until`?
    pub(super) fn has(&self, router: IpAddr, until: u64) -> bool {
        self.until
            .get(&router)
            .is_some_and(|limited| until < *limited)
    }

    fn note(&mut self, router: IpAddr, limited: u64) {
        let known = self.until.entry(router).or_default();
        *known = limited.max(*known);
    }
}

/// A token bucket that is asked at an even pace answers at an even pace: of answers and losses, the
/// rarer ones are always equally many probes apart, give or take one. Of chance losses the
/// distances vary as much as their mean (a geometric distribution).
pub(super) fn is_steady(hop: &Hop, until: u64) -> bool {
    let mut fates: Vec<&Fate> = within(hop, until).collect();
    fates.sort_unstable_by_key(|fate| fate.sent);
    let lost = fates.iter().filter(|fate| fate.rtt_ns.is_none()).count();
    let is_loss_rarer = lost * 2 <= fates.len();
    let indexes = fates.iter().enumerate();
    let indexes: Vec<usize> = indexes
        .filter(|(_, fate)| fate.rtt_ns.is_none() == is_loss_rarer)
        .map(|(index, _)| index)
        .collect();
    let Some(start) = indexes.len().checked_sub(INTERVALS + 1) else {
        return false;
    };
    let distances: Vec<f64> = indexes[start..]
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64)
        .collect();
    let count = distances.len() as f64;
    let mean = distances.iter().sum::<f64>() / count;
    let variance = distances
        .iter()
        .map(|distance| (distance - mean).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let by_chance = mean * (mean - 1.0);
    mean >= LEAST_DISTANCE && variance <= STEADY * by_chance
}

fn within(hop: &Hop, until: u64) -> impl Iterator<Item = &Fate> {
    let from = until.saturating_sub(WINDOW_NS);
    let fates = hop.fates.iter();
    fates.filter(move |fate| fate.sent >= from && fate.sent < until)
}
