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
/// Of a way, round trips are compared in so many intervals at least,
const LEAST_INTERVALS: usize = 3;
/// and of so many flows, if there are.
const LEAST_QUICK: usize = 3;

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

/// Flows to a server that part at a hop, by the router there: slow where the quick ones of one way
/// have longer round trips than those of all others.
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
        let mut ways: BTreeMap<&str, Way> = BTreeMap::new();
        for (flow, router) in routers {
            if let Some(rtts) = times.get(*flow) {
                ways.entry(router).or_default().push((flow, rtts));
            }
        }
        // One interval may be chance.
        let intervals = |way: &Way| way.iter().map(|flow| flow.1.len()).sum::<usize>();
        ways.retain(|_, way| intervals(way) >= LEAST_INTERVALS);
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

/// Flows that take the same way, with the round trips of each by interval.
type Way<'a> = Vec<(&'a str, &'a [f64])>;

/// The round trips of flows that tell of the network, the shortest first: receivers delay their
/// acknowledgements in the others.
fn quick(way: &Way) -> Vec<f64> {
    let mut times: Vec<f64> = way.iter().filter_map(|(_, rtts)| median(rtts)).collect();
    times.sort_by(f64::total_cmp);
    times.truncate(times.len().div_ceil(2).max(LEAST_QUICK));
    times
}

fn middle(way: &Way) -> f64 {
    median(&quick(way)).unwrap_or_default()
}

/// Flows that take a slow way, and those that take another.
#[derive(Debug, Default)]
struct Ways<'a> {
    slow: Way<'a>,
    fast: Way<'a>,
}

impl Ways<'_> {
    fn finding(&self, ttl: u8, router: &str, evidence: &str) -> Option<SlowPath> {
        let Self { slow, fast } = self;
        let (slow_ns, fast_ns) = (middle(slow), middle(fast));
        let all = slow.len() + fast.len();
        if all < 3 {
            return None;
        }
        let is_sure = slow.len() >= 2 && fast.len() >= 2;
        let confidence = if is_sure {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let text = format!(
            "{} of {all} flows go by {router} (hop {ttl}) and take {}, the others {}",
            slow.len(),
            duration(slow_ns as u64),
            duration(fast_ns as u64)
        );
        let amount_ns = (slow_ns - fast_ns).max(0.0) as u64;
        let finding = Finding::new(Cause::SlowPath, text, confidence, amount_ns);
        let others = fast.iter().map(|(flow, _)| (*flow).to_owned());
        Some(SlowPath {
            finding: finding.at(router).shown_by(evidence),
            others: others.collect(),
        })
    }
}

/// The router whose flows have longer round trips than all others, if there is one.
fn slowest<'a>(ways: &BTreeMap<&'a str, Way<'a>>) -> Option<(&'a str, Ways<'a>)> {
    let (router, slow) = ways
        .iter()
        .max_by(|one, other| middle(one.1).total_cmp(&middle(other.1)))?;
    let others = ways.iter().filter(|(it, _)| *it != router);
    let fast: Way = others.flat_map(|way| way.1.clone()).collect();
    let (slow_times, fast_times) = (quick(slow), quick(&fast));
    let (slow_ns, fast_ns) = (median(&slow_times)?, median(&fast_times)?);
    let is_apart = slow_times.first()? > fast_times.last()?;
    let is_slow = is_apart && slow_ns - fast_ns > (fast_ns * APART_RATIO).max(APART_NS);
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

/// The round trips of each flow towards its server since then, by interval.
fn round_trips<'a>(
    rtts: &'a [rtt::Row],
    since_ns: i64,
    flows: &Flows,
) -> HashMap<&'a str, Vec<f64>> {
    let mut all: HashMap<&str, Vec<f64>> = HashMap::new();
    for row in rtts.iter().filter(|row| row.time_ns >= since_ns) {
        let is_there = flows.is_server(&row.community_id, &row.destination, row.destination_port);
        if let (Some(true), Some(min)) = (is_there, row.min_ns) {
            all.entry(&row.community_id).or_default().push(min as f64);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows to one server, each by a router, with the round trips of its intervals in ms.
    fn told(all: &[(&str, &[u64])]) -> Option<Finding> {
        let mut rtts = Vec::new();
        let mut paths = Vec::new();
        for (port, (router, times)) in (40_000..).zip(all) {
            let id = format!("1:{port}");
            rtts.extend((0..).zip(*times).map(|(time_ns, ms)| rtt::Row {
                time_ns,
                community_id: id.clone(),
                source: "192.0.2.7".to_owned(),
                source_port: port,
                destination: "198.51.100.1".to_owned(),
                destination_port: 443,
                min_ns: Some(ms * 1_000_000),
            }));
            paths.push(OnPath {
                community_id: id,
                ttl: 2,
                responder: (*router).to_owned(),
                last_ns: 0,
            });
        }
        let flows = Flows::of(&[], &[], &rtts);
        slow_path(&paths, &rtts, 0, &flows, "").map(|path| path.finding)
    }

    #[test]
    fn short_flows_and_long_ones_tell_of_a_slow_way() {
        let found = told(&[
            ("r1", &[28, 28, 29, 28]),
            ("r1", &[28]),
            ("r2", &[53, 53]),
            ("r2", &[53]),
        ])
        .unwrap();
        assert_eq!(
            (found.place.as_deref(), found.amount_ns),
            (Some("r2"), 25_000_000)
        );
        assert_eq!(
            found.text,
            "2 of 4 flows go by r2 (hop 2) and take 53 ms, the others 28 ms"
        );
        // A way that was measured twice may be slow by chance.
        assert_eq!(
            told(&[("r1", &[28, 28, 28]), ("r1", &[28]), ("r2", &[53, 53])]),
            None
        );
    }

    #[test]
    fn acknowledgements_that_servers_delay_hide_no_slow_way() {
        let late: &[u64] = &[75, 75, 75];
        let mut all = vec![("r1", late), ("r1", late), ("r2", late), ("r2", late)];
        assert_eq!(told(&all), None);
        for _ in 0..4 {
            all.extend([("r1", &[28][..]), ("r2", &[40][..])]);
        }
        assert_eq!(told(&all).unwrap().amount_ns, 12_000_000);
    }
}
