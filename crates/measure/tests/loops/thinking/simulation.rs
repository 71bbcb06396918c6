//! Clients that think, with honest timestamps, in virtual time: what a capture near the client has
//! of them, and what they waited.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Duration;

use super::stack::{Acknowledgement, SEGMENT_BYTES, Stack, Stamp};
use super::workload::{Lifetime, Stamps, Workload};
use crate::judge::Wait;
use crate::random::Random;
use crate::segment::{Kind, segment};
use crate::simulation::Trace;

/// When the client begins, in ns since 1970.
const START_NS: u64 = 1_000_000_000_000;
const REQUEST_BYTES: u32 = 120;
/// The last segment of an answer.
const LAST_BYTES: u32 = 400;
/// Until the client's program runs, and on average what it takes to write a request.
const WAKE_NS: u64 = 5_000;
const WRITE: Duration = Duration::from_micros(8);
const FIRST_PORT: u16 = 40_000;

/// What came of it.
pub(super) struct Run {
    pub(super) trace: Trace,
    pub(super) turns: Vec<Turn>,
}

/// What the client waited, then thought, and what a capture could know of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) wait: Wait,
    /// From its first request to the next turn's.
    pub(super) gap_ns: u64,
    /// From when the next request's echo says that the answer left, less the way back: how long the
    /// client thought, and a tick more at most.
    pub(super) thought_ns: f64,
}

/// A way on which packets keep their order.
struct Way {
    ns: u64,
    /// On top, on average.
    jitter: Duration,
    latest: u64,
}

impl Way {
    fn new(ns: u64) -> Self {
        Self {
            ns,
            jitter: Duration::from_nanos(ns / 100),
            latest: 0,
        }
    }

    fn average_ns(&self) -> f64 {
        self.ns as f64 + self.jitter.as_nanos() as f64
    }

    /// When what is sent at `time` arrives.
    fn pass(&mut self, time: u64, random: &mut Random) -> u64 {
        let arrival = time + self.ns + random.exponential(self.jitter);
        self.latest = self.latest.max(arrival);
        self.latest
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The client begins a turn.
    Turn,
    /// Its program writes a request.
    Write,
    /// The answer to its SYN is there.
    Connected(usize, Stamp),
    /// A request is at the server.
    Asked(usize),
    /// The server has so many segments of an answer to send.
    Answer(usize, u32),
    /// So many bytes are at the client; whether they end an answer.
    Segment(usize, u32, Stamp, bool),
    /// If nothing was acknowledged since so many bytes were.
    Acknowledge(usize, u32),
    PathChange,
}

struct Connection {
    stack: Stack,
    /// Of the server's timestamps.
    first_stamp: u32,
    turns: u32,
    /// When the capture had the first request of the latest turn.
    asked_ns: u64,
    /// From when to when the client waited in it.
    waited: Option<(u64, u64)>,
}

struct Simulation<'a> {
    workload: &'a Workload,
    random: Random,
    now: u64,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    order: u64,
    /// When all stand still.
    stalls: Vec<Range<u64>>,
    /// From the client to the capture, from there to the server, and back to the client.
    near: Way,
    far: Way,
    back: Way,
    connections: Vec<Connection>,
    /// The connections that are in use.
    slots: Vec<Option<usize>>,
    turns: usize,
    current: usize,
    to_write: u32,
    outstanding: u32,
    began_ns: u64,
    packets: Vec<(u64, Vec<u8>)>,
    done: Vec<Turn>,
}

pub(super) fn run(workload: &Workload) -> Run {
    let one_way = workload.round_trip.as_nanos() as u64 / 2;
    let mut simulation = Simulation {
        workload,
        random: Random::new(workload.seed),
        now: START_NS,
        steps: BinaryHeap::new(),
        order: 0,
        stalls: stalls(workload),
        near: Way::new(one_way / 10),
        far: Way::new(one_way - one_way / 10),
        back: Way::new(one_way),
        connections: Vec::new(),
        slots: match workload.lifetime {
            Lifetime::Pool(size) => vec![None; size],
            Lifetime::Lasting | Lifetime::Short(_) => vec![None],
        },
        turns: 0,
        current: 0,
        to_write: 0,
        outstanding: 0,
        began_ns: 0,
        packets: Vec::new(),
        done: Vec::new(),
    };
    simulation.run();
    let (packets, turns) = (simulation.packets, simulation.done);
    let waits = turns.iter().map(|turn| turn.wait).collect();
    let trace = Trace { packets, waits };
    Run { trace, turns }
}

fn stalls(workload: &Workload) -> Vec<Range<u64>> {
    let Some(length) = workload.stalls else {
        return Vec::new();
    };
    let end = START_NS + workload.duration.as_nanos() as u64;
    let mut random = Random::new(!workload.seed);
    let mut now = START_NS;
    let next = || {
        let begin = now + random.exponential(29 * length);
        now = begin + random.exponential(length);
        (begin < end).then_some(begin..now)
    };
    std::iter::from_fn(next).collect()
}

impl Simulation<'_> {
    fn run(&mut self) {
        let ns = |duration: Duration| START_NS + duration.as_nanos() as u64;
        self.at(START_NS, Step::Turn);
        if let Some((when, _)) = self.workload.path_change {
            self.at(ns(when), Step::PathChange);
        }
        while let Some(Reverse((time, _, step))) = self.steps.pop() {
            self.now = time;
            if time > ns(self.workload.duration) {
                break;
            }
            self.on_step(step);
        }
    }

    fn at(&mut self, time: u64, step: Step) {
        let mut stalls = self.stalls.iter();
        let time = stalls
            .find(|stall| stall.contains(&time))
            .map_or(time, |stall| stall.end);
        self.order += 1;
        self.steps.push(Reverse((time, self.order, step)));
    }

    fn on_step(&mut self, step: Step) {
        match step {
            Step::Turn => self.begin_turn(),
            Step::Write => self.write(),
            Step::Connected(connection, stamp) => {
                self.connections[connection].stack.recent = stamp;
                self.capture(connection, Kind::Segment, 0);
                self.start(connection);
            }
            Step::Asked(connection) => {
                let work = self.random.draw(self.workload.service);
                let answer = Step::Answer(connection, self.workload.segments);
                self.at(self.now + work, answer);
            }
            Step::Answer(connection, left) => self.answer(connection, left),
            Step::Segment(connection, bytes, stamp, is_last) => {
                self.receive(connection, bytes, stamp);
                if is_last {
                    self.read(connection);
                }
            }
            Step::Acknowledge(connection, told) => {
                if self.connections[connection].stack.is_due(told) {
                    self.capture(connection, Kind::Segment, 0);
                }
            }
            Step::PathChange => {
                let more = self.workload.path_change.map_or(0, |(_, more)| more);
                self.back.ns = self.back.ns.saturating_add_signed(more);
            }
        }
    }

    fn begin_turn(&mut self) {
        let slot = self.turns % self.slots.len();
        self.turns += 1;
        let Some(connection) = self.slots[slot] else {
            self.open(slot);
            return;
        };
        let turns = self.connections[connection].turns;
        if self.workload.lifetime == Lifetime::Short(turns) {
            self.capture(connection, Kind::Fin, 0);
            self.open(slot);
        } else {
            self.start(connection);
        }
    }

    fn open(&mut self, slot: usize) {
        let connection = self.connections.len();
        self.slots[slot] = Some(connection);
        let chance = self.random.below(1 << 32) as u32;
        self.connections.push(Connection {
            stack: Stack::new(self.workload.delayed),
            first_stamp: self.workload.first_stamp.unwrap_or(chance),
            turns: 0,
            asked_ns: 0,
            waited: None,
        });
        let captured = self.capture(connection, Kind::Syn, 0);
        let answered = self.far.pass(captured, &mut self.random);
        let stamp = self.stamp(connection, answered);
        let arrival = self.back.pass(answered, &mut self.random);
        self.at(arrival, Step::Connected(connection, stamp));
    }

    fn start(&mut self, connection: usize) {
        self.connections[connection].turns += 1;
        self.current = connection;
        self.to_write = self.workload.batch;
        self.outstanding = self.workload.batch;
        self.at(self.now + WAKE_NS, Step::Write);
    }

    fn write(&mut self) {
        let connection = self.current;
        let captured = self.capture(connection, Kind::Segment, REQUEST_BYTES);
        if self.to_write == self.workload.batch {
            self.began_ns = self.now;
            self.conclude(connection, captured);
        }
        self.connections[connection]
            .stack
            .send(self.now, REQUEST_BYTES);
        let arrival = self.far.pass(captured, &mut self.random);
        self.at(arrival, Step::Asked(connection));
        self.to_write -= 1;
        if self.to_write > 0 {
            let delay = self.random.exponential(WRITE);
            self.at(self.now + delay, Step::Write);
        }
    }

    /// The first request of a turn passed the capture: what is known of the turn before.
    fn conclude(&mut self, connection: usize, told_ns: u64) {
        let own = &mut self.connections[connection];
        let port = FIRST_PORT + connection as u16;
        let gap_ns = told_ns - own.asked_ns;
        let echoed_ns = own.stack.recent.began_ns;
        let way_back_ns = self.back.average_ns() + self.near.average_ns() + WAKE_NS as f64;
        own.asked_ns = told_ns;
        if let Some((began_ns, ended_ns)) = own.waited.take() {
            self.done.push(Turn {
                wait: Wait {
                    port,
                    began_ns,
                    ended_ns,
                    told_ns,
                },
                gap_ns,
                thought_ns: told_ns.saturating_sub(echoed_ns) as f64 - way_back_ns,
            });
        }
    }

    /// The server's acknowledgements of requests are left out: the client echoes none of them.
    fn answer(&mut self, connection: usize, left: u32) {
        let stamp = self.stamp(connection, self.now);
        let arrival = self.back.pass(self.now, &mut self.random);
        let is_last = left == 1;
        let bytes = if is_last { LAST_BYTES } else { SEGMENT_BYTES };
        self.at(arrival, Step::Segment(connection, bytes, stamp, is_last));
        if !is_last {
            let next = self.now + self.workload.apart.as_nanos() as u64;
            self.at(next, Step::Answer(connection, left - 1));
        }
    }

    fn receive(&mut self, connection: usize, bytes: u32, stamp: Stamp) {
        let stack = &mut self.connections[connection].stack;
        let told = stack.told;
        match stack.receive(self.now, bytes, stamp) {
            Acknowledgement::AtOnce => {
                self.capture(connection, Kind::Segment, 0);
            }
            Acknowledgement::After(delay) => {
                let due = self.now + delay.as_nanos() as u64;
                self.at(due, Step::Acknowledge(connection, told));
            }
            Acknowledgement::Pending => {}
        }
    }

    /// The client has an answer, and with the last one of its turn begins to think.
    fn read(&mut self, connection: usize) {
        self.outstanding -= 1;
        if self.outstanding == 0 {
            let ended_ns = self.now + WAKE_NS;
            self.connections[connection].waited = Some((self.began_ns, ended_ns));
            let think = self.workload.think.map(|think| self.random.draw(think));
            self.at(ended_ns + think.unwrap_or(0), Step::Turn);
        }
    }

    /// The server's timestamp in what it sends at `time`.
    #[expect(clippy::cast_sign_loss, reason = "no clock goes backwards")]
    fn stamp(&self, connection: usize, time: u64) -> Stamp {
        let Stamps::Ticks(tick) = self.workload.stamps else {
            return Stamp::default();
        };
        let tick_ns = tick.as_nanos() as u64;
        let pace = 1.0 + self.workload.drift_ppm / 1e6;
        let ticks = ((time - START_NS) as f64 * pace) as u64 / tick_ns;
        let first = self.connections[connection].first_stamp;
        Stamp {
            value: first.wrapping_add(ticks as u32),
            began_ns: START_NS + ((ticks * tick_ns) as f64 / pace) as u64,
        }
    }

    /// A segment of the client, on its way. Returns when the capture has it.
    fn capture(&mut self, connection: usize, kind: Kind, payload: u32) -> u64 {
        let time = self.near.pass(self.now, &mut self.random);
        let stack = &mut self.connections[connection].stack;
        let own_ms = (self.now / 1_000_000) as u32;
        let has_stamps = match self.workload.stamps {
            Stamps::Absent => false,
            Stamps::Stripped => kind == Kind::Syn,
            Stamps::Zero | Stamps::Ticks(_) => true,
        };
        let timestamps = has_stamps.then_some((own_ms, stack.recent.value));
        let is_syn = kind == Kind::Syn;
        let sequence = if is_syn { 0 } else { 1 + stack.sent };
        let port = FIRST_PORT + connection as u16;
        let frame = segment(kind, port, sequence, stack.received, timestamps, payload);
        stack.told = stack.received;
        self.packets.push((time, frame));
        time
    }
}
