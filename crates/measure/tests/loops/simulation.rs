//! A client in a closed loop and its server, in virtual time: the packets that a capture between
//! them has of the client, and what the client waited.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use etherparse::PacketBuilder;

use crate::judge::Wait;
use crate::random::{Random, Times};
use crate::segment::{Kind, segment};

/// When the client connects, in ns since 1970.
const START_NS: u64 = 1_000_000_000_000;
const US: u64 = 1_000;
/// The client's.
const PORT: u16 = 40_000;
const REQUEST_BYTES: u32 = 120;
const RESPONSE_BYTES: u32 = 400;
const SEGMENT_BYTES: u32 = 1_448;
/// A client that has nothing to say acknowledges so late.
const DELAYED_NS: u64 = 40_000 * US;

/// Which requests are outstanding together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// So many at any time.
    Window(u32),
    /// So many at once, when all before are answered.
    Batch(u32),
    /// One, then so many at once.
    Tree(u32),
}

/// What happens.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) shape: Shape,
    /// How long the server works on a request.
    pub(crate) service: Times,
    /// The server works on one request after the other, else on all at once.
    pub(crate) is_serial: bool,
    pub(crate) round_trip: Duration,
    pub(crate) duration: Duration,
    /// From the client's write to its next, on average.
    pub(crate) write: Duration,
    /// Of the writes, those before which something else runs for up to 200 us.
    pub(crate) interrupted: f64,
    /// Small writes wait for the acknowledgement of what is under way (Nagle).
    pub(crate) is_nagled: bool,
    /// The client's program stands still from these times on, for so long; its stack goes on.
    pub(crate) pauses: Vec<(Duration, Duration)>,
    /// The server stands still.
    pub(crate) stalls: Vec<(Duration, Duration)>,
    /// The path between the client and the capture stands still.
    pub(crate) jams: Vec<(Duration, Duration)>,
    /// Probes within the connection, one after so much time.
    pub(crate) probes: Option<Duration>,
    /// Its segments have timestamps.
    pub(crate) has_timestamps: bool,
    pub(crate) seed: u64,
}

impl Setting {
    pub(crate) fn new(shape: Shape, service: Times) -> Self {
        Self {
            shape,
            service,
            is_serial: false,
            round_trip: Duration::from_micros(60),
            duration: Duration::from_secs(3),
            write: Duration::from_micros(8),
            interrupted: 0.0,
            is_nagled: false,
            pauses: Vec::new(),
            stalls: Vec::new(),
            jams: Vec::new(),
            probes: None,
            has_timestamps: true,
            seed: 1,
        }
    }

    pub(crate) fn run(&self) -> Trace {
        Simulation::new(self).run()
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// Frames of the client, with the times at which they were captured.
    pub(crate) packets: Vec<(u64, Vec<u8>)>,
    /// For what triggers its next requests.
    pub(crate) waits: Vec<Wait>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The request of this number is at the server.
    Asked(u32),
    /// So is its answer, here.
    Answered(u32),
    /// The client's program goes on.
    Write,
    /// If nothing was acknowledged since the stack began to wait.
    Acknowledge(u64),
    /// The server acknowledges so many bytes.
    Acknowledged(u32),
    Probe,
}

struct Simulation<'a> {
    setting: &'a Setting,
    random: Random,
    now: u64,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    order: u64,
    trace: Trace,
    /// Bytes that were sent, acknowledged by the server, received, and acknowledged by the client.
    sent: u32,
    acknowledged: u32,
    received: u32,
    told: u32,
    /// The server's timestamp that is echoed: of the oldest segment that is not acknowledged (RFC
    /// 7323, section 4.3).
    recent: u32,
    /// Requests that wait in the stack.
    held: u32,
    /// When each request was written.
    written: Vec<u64>,
    /// Answers that the program has not read.
    unread: VecDeque<u32>,
    /// Requests that the program has to write before it reads.
    to_write: u32,
    is_writing: bool,
    outstanding: u32,
    turn_began: u64,
    is_root: bool,
    server_free: u64,
    waits_since: u64,
}

impl<'a> Simulation<'a> {
    fn new(setting: &'a Setting) -> Self {
        Self {
            setting,
            random: Random::new(setting.seed),
            now: START_NS,
            steps: BinaryHeap::new(),
            order: 0,
            trace: Trace {
                packets: Vec::new(),
                waits: Vec::new(),
            },
            sent: 0,
            acknowledged: 0,
            received: 0,
            told: 0,
            recent: 0,
            held: 0,
            written: Vec::new(),
            unread: VecDeque::new(),
            to_write: 0,
            is_writing: false,
            outstanding: 0,
            turn_began: START_NS,
            is_root: true,
            server_free: 0,
            waits_since: 0,
        }
    }

    fn after(&mut self, delay: u64, step: Step) {
        self.order += 1;
        self.steps
            .push(Reverse((self.now + delay, self.order, step)));
    }

    fn one_way(&self) -> u64 {
        self.setting.round_trip.as_nanos() as u64 / 2
    }

    /// In ms, of what comes from the server now.
    fn server_stamp(&self) -> u32 {
        ((self.now - self.one_way()) / 1_000 / US) as u32
    }

    fn run(mut self) -> Trace {
        self.capture(Kind::Syn, 0);
        self.now += 2 * self.one_way();
        self.recent = self.server_stamp();
        self.capture(Kind::Segment, 0);
        self.now += 100 * US;
        self.begin_turn();
        self.schedule_probe();
        let end = START_NS + self.setting.duration.as_nanos() as u64;
        while let Some(Reverse((time, _, step))) = self.steps.pop() {
            self.now = time;
            if time > end {
                break;
            }
            self.on_step(step);
        }
        self.trace.packets.sort_by_key(|(time, _)| *time);
        self.trace
    }

    fn on_step(&mut self, step: Step) {
        match step {
            Step::Asked(number) => self.serve(number),
            Step::Answered(number) => {
                if self.received == self.told {
                    self.recent = self.server_stamp();
                    self.waits_since = self.now;
                    self.after(DELAYED_NS, Step::Acknowledge(self.now));
                }
                self.received += RESPONSE_BYTES;
                self.unread.push_back(number);
                self.acknowledged = self.sent;
                self.flush();
                self.wake(5 * US);
            }
            Step::Write => self.write(),
            Step::Acknowledge(since) => {
                if since == self.waits_since && self.received != self.told {
                    self.capture(Kind::Segment, 0);
                }
            }
            Step::Probe => {
                self.probe();
                self.schedule_probe();
            }
            Step::Acknowledged(bytes) => {
                self.acknowledged = self.acknowledged.max(bytes);
                self.flush();
            }
        }
    }

    fn schedule_probe(&mut self) {
        if let Some(every) = self.setting.probes {
            self.after(every.as_nanos() as u64, Step::Probe);
        }
    }

    fn serve(&mut self, number: u32) {
        let work = self.random.draw(self.setting.service);
        let begin = if self.setting.is_serial {
            self.server_free.max(self.now)
        } else {
            self.now
        };
        let done = Self::delayed(&self.setting.stalls, begin) + work;
        let done = Self::delayed(&self.setting.stalls, done);
        self.server_free = done;
        self.after(done - self.now + self.one_way(), Step::Answered(number));
        if self.setting.is_nagled {
            let sent = self.sent;
            self.after(DELAYED_NS, Step::Acknowledged(sent));
        }
    }

    /// What is due at `time` happens after the pause in which that lies.
    fn delayed(pauses: &[(Duration, Duration)], time: u64) -> u64 {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        let pause = pauses.iter().find(|(begin, length)| {
            let begin = START_NS + ns(*begin);
            (begin..begin + ns(*length)).contains(&time)
        });
        pause.map_or(time, |(begin, length)| START_NS + ns(*begin) + ns(*length))
    }

    /// The program runs, if it does not already.
    fn wake(&mut self, delay: u64) {
        if self.is_writing {
            return;
        }
        self.is_writing = true;
        let time = Self::delayed(&self.setting.pauses, self.now + delay);
        self.after(time - self.now, Step::Write);
    }

    /// The program writes a request, or reads an answer.
    fn write(&mut self) {
        self.is_writing = false;
        if self.to_write == 0 && !self.read() {
            return;
        }
        if self.to_write > 0 {
            self.to_write -= 1;
            self.written.push(self.now);
            self.held += 1;
            self.flush();
        }
        let mut delay = self.random.exponential(self.setting.write / 2)
            + self.setting.write.as_nanos() as u64 / 2;
        if self.random.part() < self.setting.interrupted {
            delay += self.random.below(200 * US);
        }
        self.wake(delay);
    }

    /// An answer, or all that have come, to what is waited for. Returns whether there was any.
    fn read(&mut self) -> bool {
        let Some(number) = self.unread.pop_front() else {
            return false;
        };
        self.outstanding -= 1;
        if let Shape::Window(_) = self.setting.shape {
            self.waited(self.written[number as usize]);
            (self.to_write, self.outstanding) = (1, self.outstanding + 1);
        } else if self.outstanding == 0 {
            self.waited(self.turn_began);
            self.begin_turn();
        }
        true
    }

    fn waited(&mut self, began_ns: u64) {
        self.trace.waits.push(Wait {
            port: PORT,
            began_ns,
            ended_ns: self.now,
            told_ns: self.now,
        });
    }

    fn begin_turn(&mut self) {
        self.to_write = match self.setting.shape {
            Shape::Tree(_) if self.is_root => 1,
            Shape::Window(size) | Shape::Batch(size) | Shape::Tree(size) => size,
        };
        self.is_root = !self.is_root;
        self.outstanding = self.to_write;
        self.turn_began = self.now;
        self.wake(0);
    }

    /// The stack sends what it may.
    fn flush(&mut self) {
        while self.held > 0 {
            let bytes = if self.setting.is_nagled {
                (self.held * REQUEST_BYTES).min(SEGMENT_BYTES / REQUEST_BYTES * REQUEST_BYTES)
            } else {
                REQUEST_BYTES
            };
            let is_full = bytes + REQUEST_BYTES > SEGMENT_BYTES;
            if self.setting.is_nagled && !is_full && self.acknowledged != self.sent {
                return;
            }
            let count = bytes / REQUEST_BYTES;
            let first = self.sent / REQUEST_BYTES;
            self.capture(Kind::Segment, bytes);
            self.sent += bytes;
            self.held -= count;
            let late = Self::delayed(&self.setting.jams, self.now) - self.now;
            for number in first..first + count {
                self.after(late + self.one_way(), Step::Asked(number));
            }
        }
    }

    /// A segment of the client.
    fn capture(&mut self, kind: Kind, payload: u32) {
        let own = (self.now / 1_000 / US) as u32;
        let timestamps = self.setting.has_timestamps.then_some((own, self.recent));
        if kind != Kind::Syn {
            self.told = self.received;
        }
        let sequence = 1 + self.sent;
        let frame = segment(kind, PORT, sequence, self.received, timestamps, payload);
        let time = Self::delayed(&self.setting.jams, self.now);
        self.trace.packets.push((time, frame));
    }

    /// What somebody else sends in the name of the client: the request that comes next, and an
    /// acknowledgement of all that has come, without options. Where the connection has none either,
    /// it ends on its way.
    fn probe(&mut self) {
        let mut frame = Vec::new();
        let ttl = if self.setting.has_timestamps { 64 } else { 4 };
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 1, 0, 1], [10, 2, 0, 1], ttl)
            // The window makes it another packet than the one before.
            .tcp(PORT, 8080, 1 + self.sent, self.trace.packets.len() as u16)
            .ack(77 + self.received);
        builder
            .write(&mut frame, &[0x5a; REQUEST_BYTES as usize])
            .unwrap();
        self.trace.packets.push((self.now, frame));
    }
}
