//! Responses: what is left of waiting when the network is taken off.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::change::{LEAST_SIDE, Point, Rise, median, rise};
use super::explanation::{Cause, Confidence, Finding, duration};
use super::flows::{Flows, Place, shown};
use super::rtt;

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
    pub(super) community_id: String,
    pub(super) source: String,
    pub(super) source_port: u16,
    pub(super) destination: String,
    pub(super) destination_port: u16,
    pub(super) p50_ns: Option<u64>,
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
    pub(super) fn of(rows: &[Row], rtts: &[rtt::Row], flows: &Flows) -> Self {
        let network = Network::of(rtts, flows);
        let mut all = Moments::new();
        let mut each: BTreeMap<Place, Moments> = BTreeMap::new();
        let mut responses = 0.0;
        for row in rows {
            responses += row.responses.unwrap_or_default();
            let Some(latency) = row.p50_ns else { continue };
            let Some(flow) = flows.get(&row.community_id) else {
                continue;
            };
            let is_known = flow.server.0 == row.destination
                && flow.server.1 == row.destination_port
                && flows.is_established(&row.community_id, row.time_ns);
            if !is_known {
                continue;
            }
            // Without round trips it is the network's part, too.
            let rtt_ns = network.at(row, &flow.server).unwrap_or_default();
            let moment = ((latency as f64 - rtt_ns).max(0.0), latency as f64);
            all.entry(row.time_ns).or_default().push(moment);
            let server = each.entry(flow.server.clone()).or_default();
            server.entry(row.time_ns).or_default().push(moment);
        }
        let each = each
            .into_iter()
            .filter_map(|(place, moments)| Some((place, served(&moments)?)));
        Self {
            all: served(&all),
            each: each.collect(),
            responses,
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
    let rise = rise(&taken, LEAST_NS, LEAST_RATIO);
    let now = |points: &[Point]| {
        let is_now = |time| rise.is_none_or(|rise| time >= rise.since_ns);
        let values = points
            .iter()
            .filter(|(time, _)| is_now(*time))
            .map(|point| point.1);
        median(&values.collect::<Vec<_>>())
    };
    Some(Served {
        now_ns: now(&taken)?,
        rise,
        latency_ns: now(&series(|moment| moment.1))?,
    })
}

/// Round trips by flow and time, on both sides of the point of observation: what is waited for them
/// is no time of the server's.
struct Network<'a> {
    flows: HashMap<(&'a str, i64), f64>,
    /// Those towards clients, and the shorter ones of all flows at a time.
    clients: HashMap<(&'a str, i64), f64>,
    all_clients: HashMap<i64, f64>,
    /// By how much round trips were over the least ones.
    rises: HashMap<i64, f64>,
    least: HashMap<&'a Place, f64>,
}

impl<'a> Network<'a> {
    fn of(rtts: &[rtt::Row], flows: &'a Flows) -> Self {
        let (mut by_flow, mut clients) = (HashMap::new(), HashMap::new());
        let mut by_time: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        let mut clients_by_time: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
        let mut least: HashMap<&Place, f64> = HashMap::new();
        for row in rtts {
            let is_there =
                flows.is_server(&row.community_id, &row.destination, row.destination_port);
            let known = flows.entry(&row.community_id);
            let (Some((id, flow)), Some(min)) = (known, row.min_ns) else {
                continue;
            };
            let min = min as f64;
            if is_there == Some(false) {
                clients.insert((id, row.time_ns), min);
                clients_by_time.entry(row.time_ns).or_default().push(min);
            } else {
                by_flow.insert((id, row.time_ns), min);
                by_time.entry(row.time_ns).or_default().push(min);
                let least = least.entry(&flow.server).or_insert(f64::INFINITY);
                *least = least.min(min);
            }
        }
        let quick: Vec<Point> = rtt::quick(&by_time).collect();
        let values = quick.iter().map(|moment| moment.1);
        let shortest = values.fold(f64::INFINITY, f64::min);
        let rises = quick
            .into_iter()
            .map(|(time, value)| (time, value - shortest));
        Self {
            flows: by_flow,
            clients,
            all_clients: rtt::quick(&clients_by_time).collect(),
            rises: rises.collect(),
            least,
        }
    }

    /// That of the flow, or the least one to its server and what all round trips were longer at
    /// that time: where the server delays acknowledgements until it answers, that is less. With it
    /// the one towards the client: the answer has to get there before the next request.
    fn at(&self, row: &Row, server: &Place) -> Option<f64> {
        let flow = (row.community_id.as_str(), row.time_ns);
        let of_flow = self.flows.get(&flow).copied();
        let rise = self.rises.get(&row.time_ns).copied().unwrap_or_default();
        let of_all = self.least.get(server).map(|least| least + rise);
        let to_server = [of_flow, of_all].into_iter().flatten().reduce(f64::min);
        let of_flow = self.clients.get(&flow);
        let to_client = of_flow.or_else(|| self.all_clients.get(&row.time_ns));
        let to_client = to_client.copied().unwrap_or_default();
        to_server.map(|ns| ns + to_client)
    }
}

/// What is wrong with servers.
pub(super) fn judge(servers: &Servers, evidence: &str) -> Vec<Finding> {
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
            let (confidence, note) = match servers.alone_ns() {
                Some(_) => (Confidence::Low, "; its other clients wait no longer"),
                None => (Confidence::Medium, ""),
            };
            let text = format!(
                "the server takes {} to answer, {} before{note}",
                duration(rise.now as u64),
                duration(rise.before as u64)
            );
            let amount_ns = (rise.now - rise.before) as u64;
            let finding = Finding::new(Cause::ServerResponse, text, confidence, amount_ns);
            finding.since(Some(rise.since_ns))
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
        }
        None => return Vec::new(),
    };
    let place = servers.each.keys().next().map(shown);
    let place = place.filter(|_| servers.each.len() == 1);
    vec![Finding {
        place,
        ..finding.shown_by(evidence)
    }]
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
    fn a_slow_network_on_the_clients_side_is_no_slow_server() {
        let id = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
        let client = ("192.0.2.7", 40_000);
        let server = ("198.51.100.1", 443);
        let rtt = |time_ns, to: (&str, u16), from: (&str, u16), ns| rtt::Row {
            time_ns,
            community_id: id.to_owned(),
            source: from.0.to_owned(),
            source_port: from.1,
            destination: to.0.to_owned(),
            destination_port: to.1,
            min_ns: Some(ns),
        };
        // A point between both; from the sixth second on the client is 40 ms away, not 2 ms.
        let far = |second| if second < 6 { 2_000_000 } else { 40_000_000 };
        let times = || (0..12).map(|second| (second, second * 1_000_000_000));
        let responses: Vec<Row> = times()
            .map(|(second, time_ns)| Row {
                time_ns,
                community_id: id.to_owned(),
                source: client.0.to_owned(),
                source_port: client.1,
                destination: server.0.to_owned(),
                destination_port: server.1,
                p50_ns: Some(10_000_000 + 5_000_000 + far(second)),
                responses: Some(10.0),
            })
            .collect();
        let rtts: Vec<_> = times()
            .flat_map(|(second, time_ns)| {
                [
                    rtt(time_ns, server, client, 10_000_000),
                    rtt(time_ns, client, server, far(second)),
                ]
            })
            .collect();
        let flows = Flows::of(&responses, &[], &rtts);
        let all = Servers::of(&responses, &rtts, &flows).all.unwrap();
        assert_eq!((all.now_ns, all.rise), (5e6, None));
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
            (servers.alone_ns(), judge(&servers, "").remove(0).confidence)
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
        let findings = judge(&servers(&[5e6, 40e6, 6e6]), "");
        assert_eq!(findings[0].cause, Cause::OneServer);
        assert_eq!(findings[0].place.as_deref(), Some("192.0.2.2:80"));
        assert_eq!(findings[0].amount_ns, 34_000_000);
    }

    #[test]
    fn all_together_are_the_servers() {
        let findings = judge(&servers(&[30e6, 31e6]), "");
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
        assert_eq!(judge(&servers, ""), []);
    }
}
