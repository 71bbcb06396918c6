//! DNS: what the processes of the subject waited for names.

use std::collections::BTreeMap;

use serde::Deserialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::change::{Point, rise};
use super::explanation::{Cause, Confidence, Finding, duration};

pub(super) const SQL: &str = include_str!("dns.sql");

/// A part of queries that are asked again or not answered: worth a word.
const LEAST_PART: f64 = 0.04;
const LEAST_QUERIES: usize = 2;
const SURE_QUERIES: usize = 3;
/// A lossy network makes so many bad queries less often than this.
const CHANCE: f64 = 0.01;
/// A rise of what answers take.
const LEAST_NS: f64 = 20e6;

/// A query and what became of it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) resolver: Option<String>,
    pub(super) retries: u64,
    pub(super) end_state: Option<String>,
    pub(super) waited_ns: Option<i64>,
}

impl Row {
    fn is_bad(&self) -> bool {
        self.retries > 0 || matches!(self.end_state.as_deref(), Some("UNREACHABLE" | "BROKEN"))
    }

    fn waited_ns(&self) -> f64 {
        self.waited_ns.unwrap_or_default() as f64
    }
}

/// What a lookup takes on average, and what one that goes well takes.
pub(super) fn usual_ns(rows: &[Row]) -> Option<(f64, f64)> {
    let mean = |rows: Vec<f64>| {
        Some(rows.iter().sum::<f64>() / rows.len() as f64).filter(|it| it.is_finite())
    };
    let all = mean(rows.iter().map(Row::waited_ns).collect())?;
    let good = mean(
        rows.iter()
            .filter(|row| !row.is_bad())
            .map(Row::waited_ns)
            .collect(),
    );
    Some((all, good.unwrap_or_default()))
}

/// What the network does to queries, too.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Network {
    /// By how much round trips are longer.
    pub(super) more_ns: u64,
    /// The part of packets that is lost, 0 to 1.
    pub(super) loss: f64,
}

impl Network {
    /// Whether so many bad queries of all are more than a lossy network makes. It may lose the
    /// query or the answer; `loss` was seen on a few packets, so it may be twice as much.
    fn is_exceeded(self, bad: usize, all: usize) -> bool {
        let reached = (1.0 - 2.0 * self.loss).max(0.0).powi(2);
        let fewer = (bad as u64).checked_sub(1);
        let by_chance = Binomial::new(1.0 - reached, all as u64);
        match (by_chance, fewer) {
            (Ok(by_chance), Some(fewer)) => by_chance.sf(fewer) < CHANCE,
            _ => false,
        }
    }
}

/// What is wrong with names, beyond what the network does.
pub(super) fn judge(rows: &[Row], network: Network, evidence: &str) -> Option<Finding> {
    let bad: Vec<&Row> = rows.iter().filter(|row| row.is_bad()).collect();
    let since_ns = bad.iter().map(|row| row.time_ns).min();
    let since = rows
        .iter()
        .filter(|row| since_ns.is_none_or(|ns| row.time_ns >= ns));
    let since: Vec<_> = since.cloned().collect();
    let (all_ns, _) = usual_ns(&since)?;
    let (_, good_ns) = usual_ns(rows)?;
    let part = bad.len() as f64 / since.len().max(1) as f64;
    let is_more = network.is_exceeded(bad.len(), since.len());
    if is_more && bad.len() >= LEAST_QUERIES && part >= LEAST_PART {
        let lost = bad
            .iter()
            .filter(|row| row.end_state.as_deref() == Some("UNREACHABLE"))
            .count();
        let text = format!(
            "{} of {} DNS queries were asked again or failed, {lost} had no answer at all: a lookup takes {} on average",
            bad.len(),
            since.len(),
            duration(all_ns as u64)
        );
        let is_sure = bad.len() >= SURE_QUERIES && network.loss == 0.0;
        let confidence = if is_sure {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let amount_ns = (all_ns - good_ns).max(0.0) as u64;
        let finding = Finding::new(Cause::Dns, text, confidence, amount_ns);
        let place = resolver(&bad);
        return Some(Finding {
            place,
            ..finding.since(since_ns).shown_by(evidence)
        });
    }
    // Those that were asked again are judged above.
    let good = rows.iter().filter(|row| !row.is_bad());
    let points: Vec<Point> = good.map(|row| (row.time_ns, row.waited_ns())).collect();
    let least_ns = LEAST_NS.max(2.0 * network.more_ns as f64);
    let rise = rise(&points, least_ns, 0.5)?;
    let text = format!(
        "DNS answers take {}, {} before",
        duration(rise.now as u64),
        duration(rise.before as u64)
    );
    let amount_ns = (rise.now - rise.before) as u64;
    let finding = Finding::new(Cause::Dns, text, Confidence::High, amount_ns);
    let place = resolver(&rows.iter().collect::<Vec<_>>());
    Some(Finding {
        place,
        ..finding.since(Some(rise.since_ns)).shown_by(evidence)
    })
}

/// Whom most of them asked.
fn resolver(rows: &[&Row]) -> Option<String> {
    let mut resolvers: BTreeMap<&str, usize> = BTreeMap::new();
    for resolver in rows.iter().filter_map(|row| row.resolver.as_deref()) {
        *resolvers.entry(resolver).or_default() += 1;
    }
    let most = resolvers.into_iter().max_by_key(|(_, count)| *count)?;
    Some(most.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_ns: i64, retries: u64, waited_ns: i64) -> Row {
        Row {
            time_ns,
            resolver: Some("192.0.2.53".to_owned()),
            retries,
            end_state: Some("FINISHED".to_owned()),
            waited_ns: Some(waited_ns),
        }
    }

    #[test]
    fn queries_that_are_asked_again_are_told_with_what_they_cost() {
        let mut rows: Vec<_> = (0..20).map(|time| row(time, 0, 10_000_000)).collect();
        assert_eq!(judge(&rows, Network::default(), ""), None);
        for row in rows.iter_mut().skip(15) {
            *row = self::row(row.time_ns, 1, 1_010_000_000);
        }
        let finding = judge(&rows, Network::default(), "").unwrap();
        assert_eq!(
            (finding.cause, finding.confidence),
            (Cause::Dns, Confidence::High)
        );
        assert_eq!(finding.place.as_deref(), Some("192.0.2.53"));
        assert_eq!(finding.amount_ns, 1_000_000_000);
        let lossy = Network {
            more_ns: 0,
            loss: 0.2,
        };
        assert_eq!(judge(&rows, lossy, ""), None);
        let lossy = Network {
            more_ns: 0,
            loss: 0.02,
        };
        let finding = judge(&rows, lossy, "").unwrap();
        assert_eq!(finding.confidence, Confidence::Medium);
    }

    #[test]
    fn a_resolver_that_became_slow_is_told() {
        let taken = |time| if time < 6 { 5_000_000 } else { 80_000_000 };
        let rows: Vec<_> = (0..12).map(|time| row(time, 0, taken(time))).collect();
        let finding = judge(&rows, Network::default(), "").unwrap();
        assert_eq!(finding.amount_ns, 75_000_000);
        let longer = Network {
            more_ns: 75_000_000,
            loss: 0.0,
        };
        assert_eq!(judge(&rows, longer, ""), None);
    }
}
