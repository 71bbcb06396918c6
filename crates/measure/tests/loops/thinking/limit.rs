//! What no estimator can know: of the answers to a batch, a client echoes the first alone (RFC
//! 7323, section 4.3).

use std::time::Duration;

use fathom_measure::response::{Confidence, Estimator};

use super::stack::{Acknowledgement, Stack, Stamp};
use crate::judge::{Judged, Wait, judge};
use crate::segment::{Kind, segment};
use crate::simulation::Trace;

const MS: u64 = 1_000_000;
const START_NS: u64 = 1_000_000 * MS;
const PORT: u16 = 40_000;
const REQUEST_BYTES: u32 = 120;
const ANSWER_BYTES: u32 = 100;
const BATCHES: usize = 300;

/// A client of the lab's network, which sees each answer the moment it is sent.
struct Client {
    stack: Stack,
    now: u64,
    trace: Trace,
}

impl Client {
    fn new() -> Self {
        let mut client = Self {
            stack: Stack::new(Some(Duration::from_millis(40))),
            now: START_NS,
            trace: Trace {
                packets: Vec::new(),
                waits: Vec::new(),
            },
        };
        client.send(Kind::Syn, 0);
        client.now += MS;
        client.stack.recent = stamp(client.now);
        client.send(Kind::Segment, 0);
        client
    }

    fn send(&mut self, kind: Kind, payload: u32) {
        let sequence = if kind == Kind::Syn {
            0
        } else {
            1 + self.stack.sent
        };
        let stamps = Some((stamp(self.now).value, self.stack.recent.value));
        let frame = segment(kind, PORT, sequence, self.stack.received, stamps, payload);
        self.trace.packets.push((self.now, frame));
        self.stack.send(self.now, payload);
    }

    /// Asks once for each of these answers, which come so many milliseconds later, and thinks.
    fn ask(&mut self, answers_ms: &[u64], think_ms: u64) {
        let began_ns = self.now;
        for _ in answers_ms {
            self.send(Kind::Segment, REQUEST_BYTES);
        }
        for answer_ms in answers_ms {
            self.now = began_ns + answer_ms * MS;
            let told = self.stack.receive(self.now, ANSWER_BYTES, stamp(self.now));
            if told == Acknowledgement::AtOnce {
                self.send(Kind::Segment, 0);
            }
        }
        let ended_ns = self.now;
        self.now += think_ms * MS;
        self.trace.waits.push(Wait {
            port: PORT,
            began_ns,
            ended_ns,
            told_ns: self.now,
        });
    }

    /// Batches, after an exchange that makes the connection one that goes both ways.
    fn batches(answers_ms: &[u64], think_ms: u64) -> Trace {
        let mut client = Self::new();
        client.ask(&[1], 0);
        for _ in 0..BATCHES {
            client.ask(answers_ms, think_ms);
        }
        client.trace
    }
}

fn stamp(now: u64) -> Stamp {
    Stamp {
        value: (now / MS) as u32,
        began_ns: now,
    }
}

#[test]
fn whether_the_client_of_a_batch_waits_or_thinks_is_in_none_of_its_packets() {
    // One server takes eight milliseconds for the last answer; the other has them all after one,
    // and its client thinks for seven.
    let waiting = Client::batches(&[1, 2, 3, 8], 0);
    let thinking = Client::batches(&[1, 1, 1, 1], 7);
    assert_eq!(waiting.packets, thinking.packets);
    for trace in [&waiting, &thinking] {
        let judged = judge(trace, Estimator::Timestamps);
        assert!(judged.len() >= 3, "{}", judged.len());
        let sure = |own: &&Judged| own.epoch.confidence == Confidence::High;
        let wrong = judged.iter().filter(sure);
        let wrong = wrong.filter(|own| own.error().is_none_or(|error| error.abs() > 0.25));
        assert_eq!(wrong.count(), 0, "{judged:#?}");
    }
}
