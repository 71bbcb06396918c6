//! Hops: which way packets take.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::change::median;
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::{Flows, Place};
use super::rtt::{self, Half};

pub(super) const ROUTE_CHANGE: &str = include_str!("route_change.sql");
pub(super) const PATH: &str = include_str!("path.sql");

const SECOND_NS: i64 = 1_000_000_000;
/// Between a change of route and what it did to round trips, at most.
const SAME_MOMENT_NS: i64 = 3 * SECOND_NS;
/// Ways differ by so much at least: in ns, and as a part of the faster.
const APART_NS: f64 = 2e6;
const APART_RATIO: f64 = 0.15;

/// Another way than before.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RouteChange {
    pub(super) time_ns: i64,
    pub(super) ttl: u8,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

/// A router on the path of a flow.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct OnPath {
    pub(super) community_id: String,
    pub(super) ttl: u8,
    pub(super) responder: String,
    pub(super) last_ns: i64,
}

/// A way that is longer than the one before: told where round trips rose as it was taken.
pub(super) fn route(
    changes: &[RouteChange],
    half: Option<&Half>,
    evidence: &str,
) -> Option<Finding> {
    let rise = half?.rise?;
    let distance = |change: &&RouteChange| change.time_ns.abs_diff(rise.since_ns);
    let change = changes.iter().min_by_key(distance)?;
    if distance(&change) > SAME_MOMENT_NS.unsigned_abs() {
        return None;
    }
    let router = |it: &Option<String>| it.clone().unwrap_or_else(|| "another router".to_owned());
    let (old, new) = (router(&change.old), router(&change.new));
    let text = format!(
        "packets go by {new} instead of {old} (hop {}): round trips take {}, {} before",
        change.ttl,
        duration(rise.now as u64),
        duration(rise.before as u64)
    );
    let amount_ns = (rise.now - rise.before) as u64;
    let finding = Finding::new(Cause::RouteChange, text, Confidence::High, amount_ns);
    Some(
        finding
            .at(new)
            .since(Some(change.time_ns))
            .shown_by(evidence),
    )
}

/// The last third of the time in which round trips were measured.
pub(super) fn last_third_ns(rtts: &[rtt::Row]) -> i64 {
    let times = || rtts.iter().map(|row| row.time_ns);
    let (first, last) = (
        times().min().unwrap_or_default(),
        times().max().unwrap_or_default(),
    );
    last - (last - first) / 3
}

/// One of several ways to a server, and how its flows do.
#[derive(Debug)]
pub(super) struct SlowPath {
    pub(super) finding: Finding,
    /// Those that go another way.
    pub(super) others: BTreeSet<String>,
}

/// Flows to a server that part at a hop, by the router there: slow where all flows of one way have
/// longer round trips than all of the others.
pub(super) fn slow_path(
    paths: &[OnPath],
    rtts: &[rtt::Row],
    since_ns: i64,
    flows: &Flows,
    evidence: &str,
) -> Option<SlowPath> {
    let times = round_trips(rtts, since_ns, flows);
    let newest = paths.iter().map(|row| row.last_ns).max()?;
    let mut parting: BTreeMap<(&Place, u8), BTreeMap<&str, &str>> = BTreeMap::new();
    for row in paths
        .iter()
        .filter(|row| newest - row.last_ns < 5 * SECOND_NS)
    {
        let Some(flow) = flows.get(&row.community_id) else {
            continue;
        };
        // The newest router of a flow at a hop is the last row.
        let at = parting.entry((&flow.server, row.ttl)).or_default();
        at.insert(row.community_id.as_str(), row.responder.as_str());
    }
    let mut slow: BTreeMap<(u8, &str), Ways> = BTreeMap::new();
    for ((_, ttl), routers) in &parting {
        let mut ways: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
        for (flow, router) in routers {
            if let Some(rtt) = times.get(*flow) {
                ways.entry(router).or_default().push((flow, *rtt));
            }
        }
        // Servers may be at different distances: only flows to the same one are compared.
        if let Some((router, found)) = slowest(&ways) {
            let all = slow.entry((*ttl, router)).or_default();
            all.slow.extend(found.slow);
            all.fast.extend(found.fast);
        }
    }
    let most = slow.into_iter().max_by_key(|(_, ways)| ways.slow.len())?;
    let ((ttl, router), ways) = most;
    ways.finding(ttl, router, evidence)
}

/// Flows that take a slow way, and those that take another.
#[derive(Debug, Default)]
struct Ways<'a> {
    slow: Vec<(&'a str, f64)>,
    fast: Vec<(&'a str, f64)>,
}

impl Ways<'_> {
    fn finding(&self, ttl: u8, router: &str, evidence: &str) -> Option<SlowPath> {
        let Self { slow, fast } = self;
        let (slow_ns, fast_ns) = (middle(slow), middle(fast));
        if slow.len() + fast.len() < 3 {
            return None;
        }
        let is_sure = slow.len() >= 2 && fast.len() >= 2;
        let confidence = if is_sure {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let text = format!(
            "{} of {} flows go by {router} (hop {ttl}) and take {}, the others {}",
            slow.len(),
            slow.len() + fast.len(),
            duration(slow_ns as u64),
            duration(fast_ns as u64)
        );
        let amount_ns = (slow_ns - fast_ns).max(0.0) as u64;
        let finding = Finding::new(Cause::SlowPath, text, confidence, amount_ns);
        Some(SlowPath {
            finding: finding.at(router).shown_by(evidence),
            others: fast.iter().map(|(flow, _)| (*flow).to_owned()).collect(),
        })
    }
}

fn middle(way: &[(&str, f64)]) -> f64 {
    median(&way.iter().map(|flow| flow.1).collect::<Vec<_>>()).unwrap_or_default()
}

/// The router whose flows all have longer round trips than all others, if there is one.
fn slowest<'a>(ways: &BTreeMap<&'a str, Vec<(&'a str, f64)>>) -> Option<(&'a str, Ways<'a>)> {
    let (router, slow) = ways
        .iter()
        .max_by(|one, other| middle(one.1).total_cmp(&middle(other.1)))?;
    let others = ways.iter().filter(|(it, _)| *it != router);
    let fast: Vec<_> = others.flat_map(|way| way.1.clone()).collect();
    let most = fast.iter().map(|flow| flow.1).reduce(f64::max)?;
    let least = slow.iter().map(|flow| flow.1).reduce(f64::min)?;
    let (slow_ns, fast_ns) = (middle(slow), middle(&fast));
    let is_slow = least > most && slow_ns - fast_ns > (fast_ns * APART_RATIO).max(APART_NS);
    is_slow.then(|| {
        (
            *router,
            Ways {
                slow: slow.clone(),
                fast,
            },
        )
    })
}

/// The median round trip of each flow towards its server since then.
fn round_trips<'a>(rtts: &'a [rtt::Row], since_ns: i64, flows: &Flows) -> HashMap<&'a str, f64> {
    let mut all: HashMap<&str, Vec<f64>> = HashMap::new();
    for row in rtts.iter().filter(|row| row.time_ns >= since_ns) {
        let is_there = flows.is_server(&row.community_id, &row.destination, row.destination_port);
        if let (Some(true), Some(min)) = (is_there, row.min_ns) {
            all.entry(&row.community_id).or_default().push(min as f64);
        }
    }
    // One interval may be chance.
    let all = all.into_iter().filter(|(_, values)| values.len() >= 3);
    all.filter_map(|(flow, values)| Some((flow, median(&values)?)))
        .collect()
}
