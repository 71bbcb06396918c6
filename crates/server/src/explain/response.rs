//! Responses: what is left of waiting when the network is taken off.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::change::{LEAST_SIDE, Point, Rise, median, rise};
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::{Flows, Place, shown};
use super::network::{Network, Think, Way};

pub(super) const SQL: &str = include_str!("response.sql");
pub(super) const OTHERS: &str = include_str!("other_response.sql");

/// Smaller rises are told of nobody.
const LEAST_NS: f64 = 3e6;
const LEAST_RATIO: f64 = 0.3;
/// A server that takes so long, and longer than the network, is worth a word though it always did.
const LONG_NS: f64 = 50e6;
/// One of several is slow where it takes so many times as long as the others.
const SLOWER: f64 = 1.6;
/// Other clients wait for the same where they wait for this part of it.
const SHARED: f64 = 0.5;

/// What a client waited in an interval.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Row {
    pub(super) time_ns: i64,
    pub(super) duration_ns: i64,
    pub(super) community_id: String,
    pub(super) source: String,
    pub(super) source_port: u16,
    pub(super) destination: String,
    pub(super) destination_port: u16,
    pub(super) p50_ns: Option<u64>,
    pub(super) think_ns: Option<u64>,
    pub(super) responses: Option<f64>,
}

/// What another client of the same servers waited in an interval, with the network.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Other {
    time_ns: i64,
    client: String,
    p50_ns: f64,
}

/// How much longer other clients wait since a moment: the median of them. None of those is known
/// that were not seen three times before it and three times after.
pub(super) fn others_rise_ns(others: &[Other], since_ns: i64) -> Option<f64> {
    let mut sides: HashMap<&str, [Vec<f64>; 2]> = HashMap::new();
    for row in others {
        let sides = sides.entry(&row.client).or_default();
        sides[usize::from(row.time_ns >= since_ns)].push(row.p50_ns);
    }
    let rises = sides.values().filter_map(|[before, since]| {
        let is_known = before.len().min(since.len()) >= LEAST_SIDE;
        is_known.then_some(median(since)? - median(before)?)
    });
    median(&rises.collect::<Vec<_>>())
}

/// What a server took, of established flows: the first request of a connection may wait for other
/// things.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Served {
    /// Without the network.
    pub(super) now_ns: f64,
    pub(super) rise: Option<Rise>,
    /// With the network.
    pub(super) latency_ns: f64,
}

/// What servers took.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// All together; absent without responses.
    pub(super) all: Option<Served>,
    each: BTreeMap<Place, Served>,
    /// Responses that were waited for.
    pub(super) responses: f64,
    /// How much longer other clients wait since `all` rose.
    others_rise_ns: Option<f64>,
}

/// A moment of a server: what it took, and what the client waited.
type Moments = BTreeMap<i64, Vec<(f64, f64)>>;

impl Servers {
    pub(super) fn of(rows: &[Row], network: &Network, flows: &Flows) -> Self {
        let known = rows.iter().filter_map(|row| {
            let id = &row.community_id;
            let is_known = flows.is_server(id, &row.destination, row.destination_port)?
                && flows.is_established(id, row.time_ns);
            let server = &flows.get(id).filter(|_| is_known)?.server;
            // Without round trips it is the network's part, too.
            Some((row, server, network.at(row, server).unwrap_or_default()))
        });
        let known: Vec<(&Row, &Place, Way)> = known.collect();
        let think = Think::of(known.iter().map(|(row, _, way)| (*row, way.queue_ns)));
        let mut all = Moments::new();
        let mut each: BTreeMap<Place, Moments> = BTreeMap::new();
        for (row, server, way) in known {
            let Some(latency) = row.p50_ns else { continue };
            let latency_ns = latency as f64 + think.more_ns(row, way.queue_ns);
            let moment = ((latency_ns - way.rtt_ns).max(0.0), latency_ns);
            all.entry(row.time_ns).or_default().push(moment);
            let server = each.entry(server.clone()).or_default();
            server.entry(row.time_ns).or_default().push(moment);
        }
        let each = each
            .into_iter()
            .filter_map(|(place, moments)| Some((place, served(&moments)?)));
        Self {
            all: served(&all),
            each: each.collect(),
            responses: rows.iter().filter_map(|row| row.responses).sum(),
            others_rise_ns: None,
        }
    }

    /// By what all take longer, if they do.
    pub(super) fn rise(&self) -> Option<Rise> {
        self.all.as_ref()?.rise
    }

    /// Holds a rise against what other clients of the same servers waited.
    pub(super) fn hold_against(&mut self, others: &[Other]) {
        let rise = self.rise();
        self.others_rise_ns = rise.and_then(|rise| others_rise_ns(others, rise.since_ns));
    }

    /// What they take longer for the subject alone: other clients do not wait for it.
    pub(super) fn alone_ns(&self) -> Option<f64> {
        let rise = self.rise()?;
        let amount_ns = rise.now - rise.before;
        (self.others_rise_ns? < SHARED * amount_ns).then_some(amount_ns)
    }

    /// The one of several that is slower than all others.
    fn slow_one(&self) -> Option<(&Place, f64, f64)> {
        let (place, slow) = self
            .each
            .iter()
            .max_by(|one, other| one.1.now_ns.total_cmp(&other.1.now_ns))?;
        let others = self.each.iter().filter(|(other, _)| *other != place);
        let others = others.map(|(_, served)| served.now_ns).reduce(f64::max)?;
        let is_slow = slow.now_ns > others * SLOWER && slow.now_ns - others > LEAST_NS;
        is_slow.then_some((place, slow.now_ns, others))
    }
}

fn served(moments: &Moments) -> Option<Served> {
    let series = |pick: fn(&(f64, f64)) -> f64| -> Vec<Point> {
        let middle =
            |moment: &Vec<(f64, f64)>| median(&moment.iter().map(pick).collect::<Vec<_>>());
        moments
            .iter()
            .filter_map(|(time, moment)| Some((*time, middle(moment)?)))
            .collect()
    };
    let taken = series(|moment| moment.0);
    let risen = |points: &[Point]| rise(points, LEAST_NS, LEAST_RATIO);
    let rise = risen(&taken);
    let waited = series(|moment| moment.1);
    let now = |points: &[Point], rise: Option<Rise>| {
        let is_now = |time| rise.is_none_or(|rise| time >= rise.since_ns);
        let values = points
            .iter()
            .filter(|(time, _)| is_now(*time))
            .map(|point| point.1);
        median(&values.collect::<Vec<_>>())
    };
    Some(Served {
        now_ns: now(&taken, rise)?,
        rise,
        // It may be the network that clients wait longer for.
        latency_ns: now(&waited, rise.or_else(|| risen(&waited)))?,
    })
}

/// What is wrong with servers. `others` is the statement on their other clients.
pub(super) fn judge(servers: &Servers, evidence: &str, others: Option<&str>) -> Vec<Finding> {
    if let Some((place, slow, others)) = servers.slow_one() {
        let text = format!(
            "{} takes {} to answer, the {} other servers at most {}",
            shown(place),
            duration(slow as u64),
            servers.each.len() - 1,
            duration(others as u64)
        );
        let since = servers.each[place].rise.map(|rise| rise.since_ns);
        let amount_ns = (slow - others) as u64;
        let finding = Finding::new(Cause::OneServer, text, Confidence::Medium, amount_ns);
        return vec![finding.at(shown(place)).since(since).shown_by(evidence)];
    }
    let Some(all) = &servers.all else {
        return Vec::new();
    };
    let network_ns = all.latency_ns - all.now_ns;
    let finding = match all.rise {
        Some(rise) => {
            let (confidence, note, others) = match servers.alone_ns() {
                Some(_) => (
                    Confidence::Low,
                    "; its other clients wait no longer",
                    others,
                ),
                None => (Confidence::Medium, "", None),
            };
            let text = format!(
                "the server takes {} to answer, {} before{note}",
                duration(rise.now as u64),
                duration(rise.before as u64)
            );
            let amount_ns = (rise.now - rise.before) as u64;
            let finding = Finding::new(Cause::ServerResponse, text, confidence, amount_ns)
                .since(Some(rise.since_ns))
                .shown_by(evidence);
            others.into_iter().fold(finding, Finding::shown_by)
        }
        None if all.now_ns > network_ns.max(LONG_NS) => {
            let text = format!(
                "the server takes {} to answer, and did so all the time",
                duration(all.now_ns as u64)
            );
            Finding::new(
                Cause::ServerResponse,
                text,
                Confidence::Low,
                all.now_ns as u64,
            )
            .shown_by(evidence)
        }
        None => return Vec::new(),
    };
    let place = servers.each.keys().next().map(shown);
    let place = place.filter(|_| servers.each.len() == 1);
    vec![Finding { place, ..finding }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(now_ns: f64, before: f64) -> Served {
        let rise = (now_ns > before).then_some(Rise {
            since_ns: 7,
            before,
            now: now_ns,
        });
        Served {
            now_ns,
            rise,
            latency_ns: now_ns + 10e6,
        }
    }

    fn servers(each: &[f64]) -> Servers {
        let each = (1..)
            .zip(each)
            .map(|(number, now)| ((format!("192.0.2.{number}"), 80), served(*now, 5e6)));
        Servers {
            all: Some(served(30e6, 5e6)),
            each: each.collect(),
            responses: 100.0,
            others_rise_ns: None,
        }
    }

    #[test]
    fn what_other_clients_do_not_wait_for_is_not_sure_to_be_the_servers() {
        let other = |client: &str, since_ns: f64| {
            let rows = (0..12).map(|time_ns| Other {
                time_ns,
                client: client.to_owned(),
                p50_ns: if time_ns < 7 { 40e6 } else { since_ns },
            });
            rows.collect::<Vec<_>>()
        };
        let judged = |others: &[Other]| {
            let servers = Servers {
                others_rise_ns: others_rise_ns(others, 7),
                ..servers(&[30e6, 31e6])
            };
            (
                servers.alone_ns(),
                judge(&servers, "", None).remove(0).confidence,
            )
        };
        assert_eq!(judged(&[]), (None, Confidence::Medium));
        assert_eq!(judged(&other("a", 64e6)), (None, Confidence::Medium));
        let alone = (Some(25e6), Confidence::Low);
        assert_eq!(judged(&other("a", 41e6)), alone);
        // One of three has a fault of its own.
        let three = [other("a", 90e6), other("b", 41e6), other("c", 40e6)].concat();
        assert_eq!(judged(&three), alone);
        // Whom nobody saw before says nothing.
        assert_eq!(judged(&other("a", 41e6)[6..]), (None, Confidence::Medium));
    }

    #[test]
    fn one_of_several_is_told_by_its_address() {
        let findings = judge(&servers(&[5e6, 40e6, 6e6]), "", None);
        assert_eq!(findings[0].cause, Cause::OneServer);
        assert_eq!(findings[0].place.as_deref(), Some("192.0.2.2:80"));
        assert_eq!(findings[0].amount_ns, 34_000_000);
    }

    #[test]
    fn all_together_are_the_servers() {
        let findings = judge(&servers(&[30e6, 31e6]), "", None);
        assert_eq!(findings[0].cause, Cause::ServerResponse);
        assert_eq!(findings[0].amount_ns, 25_000_000);
        assert!(findings[0].since.is_some());
    }

    #[test]
    fn a_server_that_answers_as_ever_is_nothing() {
        let servers = Servers {
            all: Some(served(5e6, 5e6)),
            ..Servers::default()
        };
        assert_eq!(judge(&servers, "", None), []);
    }
}
