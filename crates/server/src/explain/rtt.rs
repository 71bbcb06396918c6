//! Round trips: what the network takes on either side of the point of observation.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::change::{Point, Rise, median, quantile, rise};
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::Flows;

pub(super) const SQL: &str = include_str!("rtt.sql");

/// Shorter rises of round trips are told of nobody.
pub(super) const LEAST_NS: f64 = 2e6;
/// Receivers delay acknowledgements until they answer: the least round trip of an interval has
/// less of that, and flows that begin have none. So of flows at a time, those tell of the network
/// that have the shortest: this part of them.
const QUICK: f64 = 0.25;
/// From a client, its own acknowledgements take less than this.
const AT_CLIENT_NS: f64 = 2e5;
/// And those that are a smaller part of what was before.
const LEAST_RATIO: f64 = 0.2;

/// The round trips of a flow in one direction and interval.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) community_id: String,
    pub(super) source: String,
    pub(super) source_port: u16,
    pub(super) destination: String,
    pub(super) destination_port: u16,
    pub(super) min_ns: Option<u64>,
}

/// The network on one side of the point of observation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Half {
    /// The least round trip: propagation, at most.
    pub(super) least_ns: f64,
    /// The median now.
    pub(super) now_ns: f64,
    pub(super) rise: Option<Rise>,
}

/// The network on both sides.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Halves {
    pub(super) towards_server: Option<Half>,
    pub(super) towards_client: Option<Half>,
}

/// The round trips at each time that tell of the network.
pub(super) fn quick(moments: &BTreeMap<i64, Vec<f64>>) -> impl Iterator<Item = Point> {
    let of_moment = |(time, values): (&i64, &Vec<f64>)| Some((*time, quantile(values, QUICK)?));
    moments.iter().filter_map(of_moment)
}

impl Halves {
    pub(super) fn of(rows: &[Row], flows: &Flows) -> Self {
        let half = |is_server| {
            let mut moments: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
            let mut least_ns = f64::INFINITY;
            for row in rows {
                let is_there =
                    flows.is_server(&row.community_id, &row.destination, row.destination_port);
                if is_there != Some(is_server) {
                    continue;
                }
                if let Some(min) = row.min_ns {
                    moments.entry(row.time_ns).or_default().push(min as f64);
                    least_ns = least_ns.min(min as f64);
                }
            }
            let points: Vec<Point> = quick(&moments).collect();
            let all: Vec<f64> = points.iter().map(|point| point.1).collect();
            let rise = rise(&points, LEAST_NS, LEAST_RATIO);
            let now_ns = rise.map_or_else(|| median(&all), |rise| Some(rise.now))?;
            Some(Half {
                least_ns,
                now_ns,
                rise,
            })
        };
        Self {
            towards_server: half(true),
            towards_client: half(false),
        }
    }

    /// Whether flows were observed at the client, or beside it: not at a router on their way.
    pub(super) fn is_at_client(&self) -> bool {
        let side = self.towards_client.as_ref();
        side.is_none_or(|half| half.least_ns < AT_CLIENT_NS)
    }

    /// Propagation on both sides together.
    pub(super) fn least_ns(&self) -> Option<f64> {
        let sides = [&self.towards_server, &self.towards_client];
        let least = sides.into_iter().flatten().map(|half| half.least_ns);
        least.reduce(|one, other| one + other)
    }

    /// The round trip from client to server now.
    pub(super) fn now_ns(&self) -> Option<f64> {
        let sides = [&self.towards_server, &self.towards_client];
        let now = sides.into_iter().flatten().map(|half| half.now_ns);
        now.reduce(|one, other| one + other)
    }
}

/// What is wrong by round trips alone.
pub(super) fn judge(halves: &Halves, evidence: &str) -> Vec<Finding> {
    let sides = [
        (
            &halves.towards_server,
            Cause::NetworkQueue,
            "towards the server",
        ),
        (
            &halves.towards_client,
            Cause::ClientSide,
            "towards the client",
        ),
    ];
    let findings = sides.into_iter().filter_map(|(half, cause, side)| {
        let half = half.as_ref()?;
        let excess_ns = half.now_ns - half.least_ns;
        let (before_ns, confidence) = match half.rise {
            Some(rise) => (rise.before, Confidence::Medium),
            // So long as it was never shorter, it may be what the network is like.
            None if excess_ns > half.least_ns.max(5.0 * LEAST_NS) => {
                (half.least_ns, Confidence::Low)
            }
            None => return None,
        };
        let amount_ns = (half.now_ns - before_ns) as u64;
        let text = format!(
            "round trips {side} take {}, {} before: packets wait, or go a longer way",
            duration(half.now_ns as u64),
            duration(before_ns as u64)
        );
        let since = half.rise.map(|rise| rise.since_ns);
        Some(
            Finding::new(cause, text, confidence, amount_ns)
                .since(since)
                .shown_by(evidence),
        )
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(before: f64, now: f64) -> Half {
        let rise = (before < now).then_some(Rise {
            since_ns: 7,
            before,
            now,
        });
        Half {
            least_ns: before,
            now_ns: now,
            rise,
        }
    }

    #[test]
    fn a_rise_is_told_on_its_side() {
        let halves = Halves {
            towards_server: Some(half(20e6, 20e6)),
            towards_client: Some(half(1e6, 31e6)),
        };
        let findings = judge(&halves, "SELECT 1");
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].cause, Cause::ClientSide);
        assert_eq!(findings[0].amount_ns, 30_000_000);
        assert_eq!(findings[0].confidence, Confidence::Medium);
        assert_eq!(halves.least_ns(), Some(21e6));
    }

    #[test]
    fn steady_round_trips_are_nothing() {
        let halves = Halves {
            towards_server: Some(half(20e6, 20e6)),
            towards_client: None,
        };
        assert_eq!(judge(&halves, ""), []);
    }
}
