//! Links that packets wait for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;

use super::change::{median, quantile};
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::Flows;
use super::hops::OnPath;
use super::rtt;

pub(super) const SQL: &str = include_str!("congestion.sql");

const SECOND_NS: i64 = 1_000_000_000;
/// Seconds in which packets waited for a link, at least; and so many are no chance.
const LEAST_SECONDS: usize = 3;
const SURE_SECONDS: usize = 4;
/// Links with less waiting than this part of the worst one are its echo.
const ECHO: f64 = 0.3;
/// Of a queue the application's own round trips show this part at least.
const FELT: f64 = 0.3;
/// The direction where it was not told.
const UNKNOWN: &str = "unknown";

/// A link that packets waited for in a second.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Congestion {
    pub(super) time_ns: i64,
    pub(super) community_id: String,
    pub(super) destination: Option<String>,
    /// Echo requests have none.
    pub(super) destination_port: Option<u16>,
    pub(super) ttl: u8,
    pub(super) near: Option<String>,
    pub(super) far: Option<String>,
    pub(super) direction: String,
    pub(super) queue_ns: u64,
}

/// What packets of flows waited at the worst link of their way, by the second. Routers are asked
/// for it, so it has nothing of a server in it.
#[derive(Debug, Default)]
pub(super) struct Queues<'a>(HashMap<&'a str, BTreeMap<i64, f64>>);

impl<'a> Queues<'a> {
    /// Those on the way to servers.
    pub(super) fn towards_servers(rows: &'a [Congestion], flows: &Flows) -> Self {
        let mut queues = Self::default();
        for row in rows {
            let id = &row.community_id;
            let end = row.destination.as_deref().zip(row.destination_port);
            if end.and_then(|(address, port)| flows.is_server(id, address, port)) == Some(true) {
                let seconds = queues.0.entry(id).or_default();
                let worst = seconds.entry(row.time_ns).or_default();
                *worst = worst.max(row.queue_ns as f64);
            }
        }
        queues
    }

    /// The median over the seconds of an interval of a flow: in those that nothing was told of,
    /// packets waited for nothing.
    pub(super) fn median_ns(&self, flow: &str, end_ns: i64, duration_ns: i64) -> f64 {
        let Some(seconds) = self.0.get(flow) else {
            return 0.0;
        };
        let told = seconds.range(end_ns - duration_ns + 1..=end_ns);
        let mut waited: Vec<f64> = told.map(|second| *second.1).collect();
        let all = (duration_ns / SECOND_NS).max(1) as usize;
        waited.resize(all.max(waited.len()), 0.0);
        median(&waited).unwrap_or_default()
    }
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
    pub(super) fn all(rows: &[Congestion], paths: &[OnPath]) -> Vec<Self> {
        let mut links: Vec<Span> = Vec::new();
        for span in Span::all(rows, paths) {
            // Where routers between were silent, it was one of the links between.
            let between = links.iter_mut().filter(|link| link.is_in(&span));
            match between.max_by(|one, other| one.waited_ns().total_cmp(&other.waited_ns())) {
                Some(link) => link.rows.extend(span.rows),
                None => links.push(span),
            }
        }
        let worst = links.iter().map(Span::waited_ns).fold(0.0, f64::max);
        links.retain(|link| {
            link.waited_ns() >= ECHO * worst && link.seconds().len() >= LEAST_SECONDS
        });
        links.iter().filter_map(Self::of).collect()
    }

    fn of(span: &Span<'_>) -> Option<Self> {
        let queues: Vec<f64> = span.rows.iter().map(|row| row.queue_ns as f64).collect();
        let mut directions: BTreeMap<&str, usize> = BTreeMap::new();
        let known = |row: &&&Congestion| row.direction != UNKNOWN;
        for row in span.rows.iter().filter(known) {
            *directions.entry(&row.direction).or_default() += 1;
        }
        let direction = directions.into_iter().max_by_key(|(_, count)| *count);
        Some(Self {
            ttl: span.ttl,
            near: span.rows[0].near.clone(),
            far: span.rows[0].far.clone(),
            direction: direction
                .map_or(UNKNOWN, |(direction, _)| direction)
                .to_owned(),
            queue_ns: median(&queues)?,
            seconds: span.seconds(),
            flows: span.flows().map(str::to_owned).collect(),
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

    /// How much longer round trips of its own flows were around its seconds than their least ones
    /// at other times; absent where none can be compared.
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
        let is_there =
            |second: i64| self.seconds.contains(&second) || self.seconds.contains(&(second - 1));
        // Of a flow's two sides, that where packets wait.
        let mut excesses: HashMap<&str, f64> = HashMap::new();
        for ((flow, ..), values) in flows {
            let (there, elsewhen): (Vec<_>, Vec<_>) =
                values.into_iter().partition(|value| is_there(value.0));
            let there: Vec<_> = there.iter().map(|value| value.1).collect();
            // Who talked only meanwhile says nothing.
            let least = elsewhen.iter().map(|value| value.1).reduce(f64::min);
            // A queue comes and goes within its seconds.
            if let (Some(there), Some(least)) = (quantile(&there, 0.75), least) {
                let excess = excesses.entry(flow).or_default();
                *excess = excess.max(there - least);
            }
        }
        median(&excesses.into_values().collect::<Vec<_>>())
    }

    /// What is wrong with it; nothing where the application's own round trips do not show it. The
    /// first link is the client's own where flows were observed at the client.
    pub(super) fn finding(
        &self,
        rtts: &[rtt::Row],
        is_at_client: bool,
        evidence: &str,
    ) -> Option<Finding> {
        let far = self.far.as_deref().unwrap_or("the next router");
        let near = self.near.as_deref().unwrap_or("the router before");
        let cause = if self.ttl == 1 && is_at_client {
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

/// Where packets waited, from one router that answered to the next that did.
struct Span<'a> {
    /// Hops before it.
    begin: u8,
    ttl: u8,
    rows: Vec<&'a Congestion>,
}

impl<'a> Span<'a> {
    /// The shortest first.
    fn all(rows: &'a [Congestion], paths: &[OnPath]) -> Vec<Self> {
        let responders = paths.iter().map(|row| (row.responder.as_str(), row.ttl));
        let ttls: HashMap<&str, u8> = responders.collect();
        let mut spans: BTreeMap<_, Self> = BTreeMap::new();
        for row in rows {
            let near = row.near.as_deref();
            // Before the first router is the host itself.
            let begin = near.and_then(|near| ttls.get(near).copied()).unwrap_or(0);
            let span = Self {
                begin,
                ttl: row.ttl,
                rows: Vec::new(),
            };
            let length = row.ttl.saturating_sub(begin);
            let span = spans
                .entry((length, row.ttl, near, row.far.as_deref()))
                .or_insert(span);
            span.rows.push(row);
        }
        spans.into_values().collect()
    }

    fn waited_ns(&self) -> f64 {
        self.rows.iter().map(|row| row.queue_ns as f64).sum()
    }

    fn seconds(&self) -> BTreeSet<i64> {
        self.rows
            .iter()
            .map(|row| row.time_ns / SECOND_NS)
            .collect()
    }

    fn flows(&self) -> impl Iterator<Item = &'a str> {
        self.rows.iter().map(|row| row.community_id.as_str())
    }

    /// Is it a part of the other, at about the same time? Routers answer in one second, and are
    /// silent in the next.
    fn is_in(&self, other: &Self) -> bool {
        let seconds = self.seconds();
        let near = |second: i64| seconds.range(second - 1..=second + 1).next().is_some();
        self.begin >= other.begin && self.ttl <= other.ttl && other.seconds().into_iter().any(near)
    }
}

#[cfg(test)]
mod tests {
    use super::super::response;
    use super::*;

    /// What was told in each of five seconds of two flows.
    fn told(near: &str, (ttl, far): (u8, &str), queue_ms: u64) -> Vec<Congestion> {
        let one = |number: i64| Congestion {
            time_ns: number / 2 * SECOND_NS,
            community_id: format!("1:{}", number % 2),
            destination: Some("198.51.100.1".to_owned()),
            destination_port: Some(443),
            ttl,
            near: Some(near.to_owned()),
            far: Some(far.to_owned()),
            direction: if number == 3 { "forward" } else { UNKNOWN }.to_owned(),
            queue_ns: queue_ms * 1_000_000,
        };
        (0..10).map(one).collect()
    }

    fn paths() -> Vec<OnPath> {
        let on_path = |ttl: u8| OnPath {
            community_id: "1:0".to_owned(),
            ttl,
            responder: format!("r{ttl}"),
            last_ns: 0,
        };
        (1..=3).map(on_path).collect()
    }

    #[test]
    fn a_queue_in_less_than_half_of_an_interval_is_none_of_its_median() {
        let mut rows = told("host", (1, "r1"), 5);
        rows.extend(told("r1", (2, "r2"), 30));
        let flows = || {
            let responses: Vec<response::Row> = serde_json::from_value(serde_json::json!([{
                "time_ns": 0, "duration_ns": SECOND_NS, "community_id": "1:0",
                "source": "192.0.2.7", "source_port": 40_000,
                "destination": "198.51.100.1", "destination_port": 443,
                "p50_ns": 7, "responses": 1.0
            }]))
            .unwrap();
            Flows::of(&responses, &[], &[])
        };
        let queues = Queues::towards_servers(&rows, &flows());
        let median_ns =
            |flow, end, seconds| queues.median_ns(flow, end * SECOND_NS, seconds * SECOND_NS);
        // Told of the seconds 0 to 4, the worst link of each.
        let (all, last, half) = (
            median_ns("1:0", 4, 5),
            median_ns("1:0", 4, 1),
            median_ns("1:0", 6, 5),
        );
        assert_eq!((all, last, half), (30e6, 30e6, 30e6));
        // Which end of the other is the server is not known.
        let (seldom, unknown) = (median_ns("1:0", 12, 10), median_ns("1:1", 4, 5));
        assert_eq!((seldom, unknown), (0.0, 0.0));
    }

    #[test]
    fn of_links_behind_silent_routers_the_one_that_is_known_is_meant() {
        let mut rows = told("host", (3, "r3"), 50);
        rows.extend(told("host", (1, "r1"), 45));
        rows.extend(told("r1", (2, "r2"), 5));
        rows.extend(told("host", (2, "r2"), 50));
        let links = Link::all(&rows, &paths());
        let [link] = &links[..] else {
            panic!("{links:?}");
        };
        assert_eq!((link.ttl, link.far.as_deref()), (1, Some("r1")));
        assert_eq!((link.direction.as_str(), link.queue_ns), ("forward", 50e6));
        assert_eq!((link.seconds.len(), link.flows.len()), (5, 2));
    }

    #[test]
    fn the_first_link_is_the_clients_where_flows_were_observed_there() {
        let links = Link::all(&told("host", (1, "r1"), 45), &paths());
        let cause = |is_at_client| links[0].finding(&[], is_at_client, "").unwrap().cause;
        assert_eq!(cause(true), Cause::ClientSide);
        assert_eq!(cause(false), Cause::HopQueue);
    }

    #[test]
    fn two_links_may_both_be_full() {
        let mut rows = told("host", (1, "r1"), 45);
        rows.extend(told("r1", (2, "r2"), 30));
        let links = Link::all(&rows, &paths());
        assert_eq!(
            links.iter().map(|link| link.ttl).collect::<Vec<_>>(),
            [1, 2]
        );
    }
}
