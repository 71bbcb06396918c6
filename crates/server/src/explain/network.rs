//! What clients wait for the network in a response.

use std::collections::{BTreeMap, HashMap};

use super::change::{Point, median, quantile};
use super::flows::{Flows, Place};
use super::links::Queues;
use super::{response, rtt};

/// What clients of flows thought, or what was taken for it: `response` sees answers that wait on
/// their way to it as thinking.
pub(super) struct Think<'a>(HashMap<&'a str, f64>);

/// In so many of a flow's intervals, those with the shortest queue, its client thinks as usual.
const USUAL: f64 = 0.25;

impl<'a> Think<'a> {
    /// Of rows with the queue at that time, in nanoseconds.
    pub(super) fn of(rows: impl Iterator<Item = (&'a response::Row, f64)>) -> Self {
        let mut flows: HashMap<&str, Vec<(f64, f64)>> = HashMap::new();
        for (row, queue_ns) in rows {
            let told = flows.entry(&row.community_id).or_default();
            told.extend(row.think_ns.map(|think| (queue_ns, think as f64)));
        }
        let usual = flows.into_iter().filter_map(|(id, told)| {
            let queues: Vec<f64> = told.iter().map(|it| it.0).collect();
            let short = quantile(&queues, USUAL)?;
            let usual = told.iter().filter(|it| it.0 <= short).map(|it| it.1);
            Some((id, median(&usual.collect::<Vec<_>>())?))
        });
        Self(usual.collect())
    }

    /// By how much it is more than usual, or less, as far as a queue may be that: what differs from
    /// interval to interval without one is no more on average.
    pub(super) fn more_ns(&self, row: &response::Row, queue_ns: f64) -> f64 {
        let usual = self.0.get(row.community_id.as_str());
        let more = row
            .think_ns
            .zip(usual)
            .map(|(think, usual)| think as f64 - usual);
        more.unwrap_or_default().clamp(-queue_ns, queue_ns)
    }
}

/// The network's part of a response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    pub(super) rtt_ns: f64,
    /// By how much that is over the least one.
    pub(super) queue_ns: f64,
}

/// Round trips by flow and time, on both sides of the point of observation: what is waited for them
/// is no time of the server's.
pub(super) struct Network<'a> {
    flows: HashMap<(&'a str, i64), f64>,
    /// Those towards clients, and the shorter ones of all flows at a time.
    clients: HashMap<(&'a str, i64), f64>,
    all_clients: HashMap<i64, f64>,
    /// The least one of all clients.
    least_client: f64,
    /// By how much round trips were over the least ones.
    rises: HashMap<i64, f64>,
    least: HashMap<&'a Place, f64>,
    queues: Queues<'a>,
}

impl<'a> Network<'a> {
    pub(super) fn of(rtts: &[rtt::Row], queues: Queues<'a>, flows: &'a Flows) -> Self {
        let (mut by_flow, mut clients) = (HashMap::new(), HashMap::new());
        let mut least_client = f64::INFINITY;
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
                least_client = least_client.min(min);
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
            least_client,
            rises: rises.collect(),
            least,
            queues,
        }
    }

    /// That of the flow, or the least one to its server and what all round trips were longer at
    /// that time: where the server delays acknowledgements until it answers, that is less. It is no
    /// less than the least one and what packets waited at a link by then. With it the one towards
    /// the client: the answer has to get there before the next request.
    pub(super) fn at(&self, row: &response::Row, server: &Place) -> Option<Way> {
        let flow = (row.community_id.as_str(), row.time_ns);
        let of_flow = self.flows.get(&flow).copied();
        let rise = self.rises.get(&row.time_ns).copied().unwrap_or_default();
        let least = self.least.get(server)?;
        let of_all = least + rise;
        let by_rtt = of_flow.map_or(of_all, |of_flow| of_flow.min(of_all));
        let id = &row.community_id;
        let queue = self.queues.median_ns(id, row.time_ns, row.duration_ns);
        let to_server = by_rtt.max(least + queue);
        let of_flow = self.clients.get(&flow);
        let to_client = of_flow.or_else(|| self.all_clients.get(&row.time_ns));
        let (to_client, least_client) = match to_client {
            Some(ns) => (*ns, self.least_client),
            None => (0.0, 0.0),
        };
        Some(Way {
            rtt_ns: to_server + to_client,
            queue_ns: to_server - least + to_client - least_client,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::Congestion;
    use super::super::response::{Served, Servers};
    use super::*;

    const ID: &str = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
    const CLIENT: (&str, u16) = ("192.0.2.7", 40_000);
    const SERVER: (&str, u16) = ("198.51.100.1", 443);
    const SECOND_NS: i64 = 1_000_000_000;

    fn waited(second: i64, p50_ns: u64) -> response::Row {
        response::Row {
            time_ns: second * SECOND_NS,
            duration_ns: SECOND_NS,
            community_id: ID.to_owned(),
            source: CLIENT.0.to_owned(),
            source_port: CLIENT.1,
            destination: SERVER.0.to_owned(),
            destination_port: SERVER.1,
            p50_ns: Some(p50_ns),
            think_ns: None,
            responses: Some(10.0),
        }
    }

    fn round_trip(second: i64, to: (&str, u16), from: (&str, u16), ns: u64) -> rtt::Row {
        rtt::Row {
            time_ns: second * SECOND_NS,
            community_id: ID.to_owned(),
            source: from.0.to_owned(),
            source_port: from.1,
            destination: to.0.to_owned(),
            destination_port: to.1,
            min_ns: Some(ns),
        }
    }

    /// Those to the server in so many seconds, in milliseconds.
    fn round_trips(seconds: i64, ms: impl Fn(i64) -> u64) -> Vec<rtt::Row> {
        (0..seconds)
            .map(|second| round_trip(second, SERVER, CLIENT, ms(second) * 1_000_000))
            .collect()
    }

    fn told(responses: &[response::Row], rtts: &[rtt::Row], congestion: &[Congestion]) -> Served {
        let flows = Flows::of(responses, &[], rtts);
        let queues = Queues::towards_servers(congestion, &flows);
        let network = Network::of(rtts, queues, &flows);
        Servers::of(responses, &network, &flows).all.unwrap()
    }

    #[test]
    fn a_slow_network_on_the_clients_side_is_no_slow_server() {
        // A point between both; from the sixth second on the client is 40 ms away, not 2 ms.
        let far = |second| if second < 6 { 2_000_000 } else { 40_000_000 };
        let of_second = |second| waited(second, 15_000_000 + far(second));
        let responses: Vec<response::Row> = (0..12).map(of_second).collect();
        let rtts: Vec<_> = (0..12)
            .flat_map(|second| {
                [
                    round_trip(second, SERVER, CLIENT, 10_000_000),
                    round_trip(second, CLIENT, SERVER, far(second)),
                ]
            })
            .collect();
        let all = told(&responses, &rtts, &[]);
        assert_eq!((all.now_ns, all.rise), (5e6, None));
    }

    #[test]
    fn a_queue_that_is_empty_once_in_an_interval_is_no_slow_server() {
        // From the sixth second on packets wait 30 ms, but not those of the least round trip.
        let queue = |second| if second < 6 { 0 } else { 30_000_000 };
        let of_second = |second| waited(second, 15_000_000 + queue(second));
        let responses: Vec<response::Row> = (0..12).map(of_second).collect();
        let rtts = round_trips(12, |_| 10);
        let congestion: Vec<Congestion> = (6..12)
            .map(|second| Congestion {
                time_ns: second * SECOND_NS,
                community_id: ID.to_owned(),
                destination: Some(SERVER.0.to_owned()),
                destination_port: Some(SERVER.1),
                ttl: 2,
                near: None,
                far: None,
                direction: "forward".to_owned(),
                queue_ns: queue(second),
            })
            .collect();
        let judged = |rows: &[Congestion]| {
            let all = told(&responses, &rtts, rows);
            (all.now_ns, all.rise.is_some())
        };
        assert_eq!(judged(&[]), (35e6, true));
        assert_eq!(judged(&congestion), (5e6, false));
    }

    #[test]
    fn answers_that_wait_on_their_way_back_are_no_thinking() {
        // From the sixth second on answers wait 40 ms, and the server takes 25 ms, not 5.
        let is_now = |second| second >= 6;
        let of_second = |second| response::Row {
            think_ns: Some(if is_now(second) {
                60_000_000
            } else {
                20_000_000
            }),
            ..waited(
                second,
                if is_now(second) {
                    35_000_000
                } else {
                    15_000_000
                },
            )
        };
        let mut responses: Vec<response::Row> = (0..12).map(of_second).collect();
        let rtts = round_trips(12, |second| 10 + 40 * u64::from(is_now(second)));
        let judged = |responses: &[response::Row]| {
            let all = told(responses, &rtts, &[]);
            (all.now_ns, all.latency_ns, all.rise.map(|rise| rise.before))
        };
        assert_eq!(judged(&responses), (25e6, 75e6, Some(5e6)));
        // A client that thinks for longer without a queue waits for no longer.
        for row in &mut responses {
            row.think_ns = row.think_ns.map(|think| think * 4);
        }
        assert_eq!(judged(&responses), (25e6, 75e6, Some(5e6)));
    }

    #[test]
    fn thinking_that_varies_is_no_server_that_waits_beside_a_queue() {
        // A client thinks for 60 ms, or for 20; of what it waits later, 30 ms are a queue's.
        let is_now = |second| second >= 9;
        let responses: Vec<response::Row> = (0..18)
            .map(|second| response::Row {
                think_ns: Some(if second % 3 == 0 { 20 } else { 60 } * 1_000_000),
                ..waited(second, 15_000_000 + 30_000_000 * u64::from(is_now(second)))
            })
            .collect();
        let rtts = round_trips(18, |second| 10 + 30 * u64::from(is_now(second)));
        let all = told(&responses, &rtts, &[]);
        assert_eq!(
            (all.now_ns, all.latency_ns, all.rise.is_some()),
            (5e6, 45e6, false)
        );
    }
}
