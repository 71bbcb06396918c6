//! Clients, a balancer that sees only what they send, and servers that are queues: in virtual time,
//! seeded.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use fathom_balance::controller::{
    Bounds, Candidate, Collected, Measurement, Policy, Waiting, decide,
};
use fathom_lab::Sequence;

/// How servers and clients are.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) servers: Vec<Speeds>,
    /// Requests that a server works on at the same time.
    pub(crate) workers: usize,
    /// Seconds of work for a request at speed 1, exponential.
    pub(crate) work: f64,
    /// New connections a second, over time: open loop.
    pub(crate) connections: f64,
    /// Requests of a connection, geometric.
    pub(crate) requests: f64,
    /// Seconds between a response and the next request, exponential.
    pub(crate) think: f64,
    /// Each client has its own mean of them, exponential around that.
    pub(crate) has_own_paces: bool,
    /// Of the connections, those whose pauses are taken for waits.
    pub(crate) misread: f64,
    /// Seconds after a response at which the client's stack tells that it is there: of a pause no
    /// more is taken for waiting.
    pub(crate) told_after: f64,
    /// Until then a connection also looks as if it still waited.
    pub(crate) looks_waiting: bool,
    /// Of the connections, those that have no estimate.
    pub(crate) unseen: f64,
    pub(crate) seconds: f64,
}

/// The speed of a server over time: from this second on, this speed.
#[derive(Debug, Clone)]
pub(crate) struct Speeds(pub(crate) Vec<(f64, f64)>);

impl Speeds {
    pub(crate) fn constant(speed: f64) -> Self {
        Self(vec![(0.0, speed)])
    }

    /// Changes at random times to one of the levels.
    pub(crate) fn changing(random: &mut Sequence, levels: &[f64], hold: f64, seconds: f64) -> Self {
        let (mut at, mut speeds) = (0.0, Vec::new());
        while at < seconds {
            let level = levels[random.below(levels.len() as u64) as usize];
            speeds.push((at, level));
            at += random.exponential(hold);
        }
        Self(speeds)
    }

    fn at(&self, time: f64) -> f64 {
        let past = self.0.partition_point(|(since, _)| *since <= time);
        self.0[past - 1].1
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Of each response, when the request was sent and how long it took; sorted by neither.
    pub(crate) latencies: Vec<(f64, f64)>,
    /// After each interval, the factor of each server.
    pub(crate) factors: Vec<Vec<f64>>,
    /// Requests of each server in each interval.
    pub(crate) requests: Vec<Vec<u64>>,
}

impl Outcome {
    /// A percentile in milliseconds, of the requests from `begin` on.
    pub(crate) fn quantile_ms(&self, percent: usize, begin: f64) -> f64 {
        let late = self.latencies.iter().filter(|(sent, _)| *sent >= begin);
        let mut latencies: Vec<_> = late.map(|(_, latency)| *latency).collect();
        latencies.sort_by(f64::total_cmp);
        latencies[percent * (latencies.len() - 1) / 100] * 1e3
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Connect,
    Request(usize),
    /// A server is done with the request of a connection.
    Done(usize),
    Decide,
}

#[derive(Debug, PartialEq)]
struct Due(f64, u64, Event);

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

#[derive(Debug, Default)]
struct Server {
    queue: VecDeque<usize>,
    busy: usize,
    collected: Collected,
    requests: u64,
}

/// A connection, and what the balancer keeps of it.
#[derive(Debug)]
struct Connection {
    server: usize,
    left: u32,
    think: f64,
    /// Of the last request.
    sent: f64,
    /// Of the last response.
    answered: f64,
    is_waiting: bool,
    is_misread: bool,
    is_unseen: bool,
    epoch_begin: f64,
    waited: f64,
    responses: u32,
}

/// Seconds of an epoch.
const EPOCH: f64 = 0.2;

struct Simulation<'a> {
    scenario: &'a Scenario,
    random: Sequence,
    now: f64,
    order: u64,
    events: BinaryHeap<Due>,
    servers: Vec<Server>,
    /// Those that are over are left as they are.
    connections: Vec<Connection>,
    open: Vec<usize>,
    outcome: Outcome,
    candidates: Vec<Candidate>,
}

/// Runs it.
pub(crate) fn run(scenario: &Scenario, policy: Policy, bounds: &Bounds, seed: u64) -> Outcome {
    let mut simulation = Simulation {
        scenario,
        random: Sequence::new(seed),
        now: 0.0,
        order: 0,
        events: BinaryHeap::new(),
        servers: scenario.servers.iter().map(|_| Server::default()).collect(),
        connections: Vec::new(),
        open: Vec::new(),
        outcome: Outcome::default(),
        candidates: vec![Candidate::new(1.0); scenario.servers.len()],
    };
    simulation.at(0.0, Event::Connect);
    simulation.at(bounds.interval.as_secs_f64(), Event::Decide);
    let mut quiet = 0;
    while let Some(Due(time, _, event)) = simulation.events.pop() {
        if time > scenario.seconds {
            break;
        }
        simulation.now = time;
        match event {
            Event::Connect => simulation.connect(),
            Event::Request(connection) => simulation.request(connection),
            Event::Done(connection) => simulation.done(connection),
            Event::Decide => quiet = simulation.decide(policy, bounds, quiet),
        }
    }
    simulation.outcome
}

impl Simulation<'_> {
    fn at(&mut self, time: f64, event: Event) {
        self.order += 1;
        self.events.push(Due(time, self.order, event));
    }

    fn connect(&mut self) {
        let pause = self.random.exponential(1.0 / self.scenario.connections);
        self.at(self.now + pause, Event::Connect);
        let last = 1.0 / self.scenario.requests;
        let mut left = 1;
        while self.random.uniform() >= last {
            left += 1;
        }
        let server = self.choose();
        let mut think = self.scenario.think;
        if self.scenario.has_own_paces {
            think = self.random.exponential(think);
        }
        self.connections.push(Connection {
            server,
            left,
            think,
            sent: self.now,
            answered: self.now,
            is_waiting: false,
            is_misread: self.random.uniform() < self.scenario.misread,
            is_unseen: self.random.uniform() < self.scenario.unseen,
            epoch_begin: self.now,
            waited: 0.0,
            responses: 0,
        });
        self.open.push(self.connections.len() - 1);
        self.request(self.connections.len() - 1);
    }

    fn choose(&mut self) -> usize {
        let whole: f64 = self.candidates.iter().map(|it| it.factor).sum();
        let mut place = self.random.uniform() * whole;
        for (server, candidate) in self.candidates.iter().enumerate() {
            place -= candidate.factor;
            if place < 0.0 {
                return server;
            }
        }
        self.candidates.len() - 1
    }

    fn request(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.responses > 0 && self.now - connection.epoch_begin >= EPOCH {
            end_epoch(&mut self.servers, connection, self.now);
        }
        if connection.is_misread && connection.sent < self.now {
            let pause = (self.now - connection.answered).min(self.scenario.told_after);
            connection.waited += connection.answered - connection.sent + pause;
            connection.responses += 1;
        }
        connection.sent = self.now;
        connection.is_waiting = true;
        let server = connection.server;
        self.servers[server].requests += 1;
        if self.servers[server].busy < self.scenario.workers {
            self.serve(server, index);
        } else {
            self.servers[server].queue.push_back(index);
        }
    }

    fn serve(&mut self, server: usize, connection: usize) {
        self.servers[server].busy += 1;
        let work = self.random.exponential(self.scenario.work);
        let speed = self.scenario.servers[server].at(self.now);
        self.at(self.now + work / speed, Event::Done(connection));
    }

    fn done(&mut self, index: usize) {
        let think = self.random.exponential(self.connections[index].think);
        let connection = &mut self.connections[index];
        let latency = self.now - connection.sent;
        self.outcome.latencies.push((connection.sent, latency));
        connection.is_waiting = false;
        connection.answered = self.now;
        connection.left -= 1;
        let (server, is_over) = (connection.server, connection.left == 0);
        // The gap to the request that it triggers; the last response triggers none.
        if !is_over && !connection.is_misread {
            connection.waited += latency;
            connection.responses += 1;
        }
        if !is_over {
            self.at(self.now + think, Event::Request(index));
        }
        self.servers[server].busy -= 1;
        if let Some(next) = self.servers[server].queue.pop_front() {
            self.serve(server, next);
        }
    }

    fn decide(&mut self, policy: Policy, bounds: &Bounds, quiet: u32) -> u32 {
        self.at(self.now + bounds.interval.as_secs_f64(), Event::Decide);
        let measured = self.measure(bounds.interval);
        for (candidate, measured) in self.candidates.iter_mut().zip(measured) {
            candidate.measured = measured;
        }
        let decision = decide(policy, bounds, &self.candidates, quiet);
        for (candidate, verdict) in self.candidates.iter_mut().zip(&decision.verdicts) {
            candidate.factor = verdict.factor;
        }
        let factors = self.candidates.iter().map(|it| it.factor);
        self.outcome.factors.push(factors.collect());
        decision.quiet
    }

    /// What the balancer knows at the end of an interval: epochs that were closed, by a request or
    /// because the flow fell silent; and who waits.
    fn measure(&mut self, interval: Duration) -> Vec<Measurement> {
        let mut measured = vec![Measurement::default(); self.servers.len()];
        let mut waits = vec![(0_u32, 0.0); self.servers.len()];
        for index in &self.open {
            let connection = &mut self.connections[*index];
            let age = self.now - connection.sent;
            measured[connection.server].flows += u32::from(age < interval.as_secs_f64());
            let is_told = self.now - connection.answered >= self.scenario.told_after;
            let looks_waiting = self.scenario.looks_waiting && connection.left > 0 && !is_told;
            if (connection.is_waiting || looks_waiting) && !connection.is_unseen {
                let (count, sum) = &mut waits[connection.server];
                *count += 1;
                *sum += age;
            }
            if connection.responses > 0 && self.now - connection.epoch_begin >= EPOCH {
                end_epoch(&mut self.servers, connection, self.now);
            }
        }
        let connections = &self.connections;
        self.open
            .retain(|index| connections[*index].left > 0 || connections[*index].responses > 0);
        let mut requests = Vec::new();
        for ((server, measured), (count, sum)) in
            self.servers.iter_mut().zip(&mut measured).zip(waits)
        {
            measured.latency = server.collected.latency();
            measured.requests = server.requests;
            measured.waiting = (count > 0).then(|| Waiting {
                flows: count,
                mean_ns: sum / f64::from(count) * 1e9,
            });
            requests.push(server.requests);
            (server.collected, server.requests) = (Collected::default(), 0);
        }
        self.outcome.requests.push(requests);
        measured
    }
}

fn end_epoch(servers: &mut [Server], connection: &mut Connection, now: f64) {
    if !connection.is_unseen {
        let mean_ns = connection.waited / f64::from(connection.responses) * 1e9;
        let collected = &mut servers[connection.server].collected;
        collected.add(mean_ns, connection.responses);
    }
    connection.epoch_begin = now;
    (connection.waited, connection.responses) = (0.0, 0);
}
