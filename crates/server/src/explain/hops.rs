//! Hops: where on the path packets wait, and which way they take.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::change::median;
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::{Flows, Place};
use super::rtt::{self, Half};

pub(super) const CONGESTION: &str = include_str!("congestion.sql");
pub(super) const ROUTE_CHANGE: &str = include_str!("route_change.sql");
pub(super) const PATH: &str = include_str!("path.sql");

const SECOND_NS: i64 = 1_000_000_000;
/// Seconds in which packets waited for a link, at least; and so many are no chance.
const LEAST_SECONDS: usize = 3;
const SURE_SECONDS: usize = 4;
/// Links with less waiting than this part of the worst one are its echo.
const ECHO: f64 = 0.3;
/// Of a queue the application's own round trips show this part at least.
const FELT: f64 = 0.3;
/// Between a change of route and what it did to round trips, at most.
const SAME_MOMENT_NS: i64 = 3 * SECOND_NS;
/// Ways differ by so much at least: in ns, and as a part of the faster.
const APART_NS: f64 = 2e6;
const APART_RATIO: f64 = 0.15;

/// A link that packets waited for in a second.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Congestion {
    pub(super) time_ns: i64,
    pub(super) community_id: String,
    pub(super) ttl: u8,
    pub(super) near: Option<String>,
    pub(super) far: Option<String>,
    pub(super) direction: String,
    pub(super) queue_ns: u64,
}

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

/// A link, and what was told of it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) ttl: u8,
    pub(super) near: Option<String>,
    pub(super) far: Option<String>,
    pub(super) direction: String,
    pub(super) queue_ns: f64,
    pub(super) seconds: BTreeSet<i64>,
    pub(super) flows: BTreeSet<String>,
}

impl Link {
    /// Links that packets waited for, without those that only echo a worse one.
    pub(super) fn all(rows: &[Congestion]) -> Vec<Self> {
        let mut links: BTreeMap<(u8, Option<&str>), Vec<&Congestion>> = BTreeMap::new();
        for row in rows {
            links
                .entry((row.ttl, row.far.as_deref()))
                .or_default()
                .push(row);
        }
        let mut links: Vec<Self> = links
            .into_values()
            .filter_map(|rows| Self::of(&rows))
            .collect();
        let waited = |link: &Self| link.queue_ns * link.seconds.len() as f64;
        let worst = links.iter().map(waited).fold(0.0, f64::max);
        links.retain(|link| waited(link) >= ECHO * worst && link.seconds.len() >= LEAST_SECONDS);
        // While routers before it were silent, a link began nearer: it is the one that is known.
        let begins: Vec<_> = links
            .iter()
            .map(|link| (link.near.clone(), link.ttl))
            .collect();
        links.retain(|link| {
            let is_shorter =
                |(near, ttl): &(Option<String>, u8)| *near == link.near && *ttl < link.ttl;
            !begins.iter().any(is_shorter)
        });
        links
    }

    fn of(rows: &[&Congestion]) -> Option<Self> {
        let queues: Vec<f64> = rows.iter().map(|row| row.queue_ns as f64).collect();
        let mut directions: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            *directions.entry(&row.direction).or_default() += 1;
        }
        let (direction, _) = directions.into_iter().max_by_key(|(_, count)| *count)?;
        Some(Self {
            ttl: rows[0].ttl,
            near: rows[0].near.clone(),
            far: rows[0].far.clone(),
            direction: direction.to_owned(),
            queue_ns: median(&queues)?,
            seconds: rows.iter().map(|row| row.time_ns / SECOND_NS).collect(),
            flows: rows.iter().map(|row| row.community_id.clone()).collect(),
        })
    }

    /// The first second of it.
    pub(super) fn since_ns(&self) -> Option<i64> {
        self.seconds.first().map(|second| second * SECOND_NS)
    }

    /// Whether nearly all of these moments are among its seconds, or next to them.
    pub(super) fn covers(&self, times_ns: &[i64]) -> bool {
        let near = |time: &&i64| {
            let second = *time / SECOND_NS;
            self.seconds.range(second - 2..=second + 2).next().is_some()
        };
        times_ns.iter().filter(near).count() * 10 >= times_ns.len() * 8
    }

    /// How much longer round trips of its own flows were around its seconds than their least ones;
    /// absent where none were measured.
    fn felt_ns(&self, rtts: &[rtt::Row]) -> Option<f64> {
        let mut flows: HashMap<_, Vec<(i64, f64)>> = HashMap::new();
        for row in rtts
            .iter()
            .filter(|row| self.flows.contains(&row.community_id))
        {
            let way = (
                row.community_id.as_str(),
                row.destination.as_str(),
                row.destination_port,
            );
            let min = row.min_ns.map(|min| (row.time_ns / SECOND_NS, min as f64));
            flows.entry(way).or_default().extend(min);
        }
        let mut felt = Vec::new();
        for values in flows.values() {
            let least = values
                .iter()
                .map(|value| value.1)
                .fold(f64::INFINITY, f64::min);
            let is_there = |second: i64| {
                self.seconds.contains(&second) || self.seconds.contains(&(second - 1))
            };
            let there = values.iter().filter(|value| is_there(value.0));
            // The side where nothing waits says nothing.
            let excess = median(&there.map(|value| value.1 - least).collect::<Vec<_>>());
            felt.extend(excess.filter(|excess| *excess > 0.0));
        }
        if flows.is_empty() {
            None
        } else {
            Some(median(&felt).unwrap_or_default())
        }
    }

    /// What is wrong with it; nothing where the application's own round trips do not show it.
    pub(super) fn finding(&self, rtts: &[rtt::Row], evidence: &str) -> Option<Finding> {
        let far = self.far.as_deref().unwrap_or("the next router");
        let near = self.near.as_deref().unwrap_or("the router before");
        let cause = if self.ttl == 1 {
            Cause::ClientSide
        } else {
            Cause::HopQueue
        };
        let way = match self.direction.as_str() {
            "forward" => "on the way there",
            "reverse" => "on the way back",
            "both" => "in both directions",
            _ => "in a direction that is not known",
        };
        let text = format!(
            "packets wait {} for the link {near} - {far} (hop {}), {way}, in {} seconds",
            duration(self.queue_ns as u64),
            self.ttl,
            self.seconds.len()
        );
        let felt_ns = self.felt_ns(rtts);
        if felt_ns.is_some_and(|felt| felt < FELT * self.queue_ns) {
            return None;
        }
        let confidence = if felt_ns.is_some() && self.seconds.len() >= SURE_SECONDS {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let finding = Finding::new(cause, text, confidence, self.queue_ns as u64);
        Some(finding.at(far).since(self.since_ns()).shown_by(evidence))
    }
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
