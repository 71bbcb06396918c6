//! What echoes tell of answers in parts, of acknowledgements that are late, and while the clock of
//! the server is learnt.

use fathom_measure::response::Estimator;

use crate::judge::{Judged, Wait, judge};
use crate::segment::{Kind, segment};
use crate::simulation::Trace;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Of all clocks here the start of a tick.
const START_NS: u64 = 1_000_000 * MS;
const PORT: u16 = 40_000;
const REQUEST_BYTES: u32 = 120;

/// A client beside the capture, packet by packet.
struct Script {
    tick_ns: u64,
    now: u64,
    sent: u32,
    received: u32,
    /// What the server sent last that the client echoes.
    echo: u32,
    /// When the request was sent that waits, and when its answer came.
    began_ns: u64,
    ended_ns: u64,
    trace: Trace,
}

impl Script {
    /// A handshake of 100 µs, whose SYN-ACK the server sends so long after its clock ticked.
    fn new(tick_ns: u64, phase_ns: u64) -> Self {
        let mut script = Self {
            tick_ns,
            now: START_NS + phase_ns,
            sent: 0,
            received: 0,
            echo: 0,
            began_ns: 0,
            ended_ns: 0,
            trace: Trace {
                packets: Vec::new(),
                waits: Vec::new(),
            },
        };
        script.put(Kind::Syn, 0);
        script.sent = 1;
        script.now += 100 * US;
        script.echo = script.stamp();
        script.put(Kind::Segment, 0);
        script
    }

    fn stamp(&self) -> u32 {
        (self.now / self.tick_ns) as u32
    }

    fn put(&mut self, kind: Kind, payload: u32) {
        let stamps = Some(((self.now / MS) as u32, self.echo));
        let frame = segment(kind, PORT, self.sent, self.received, stamps, payload);
        self.trace.packets.push((self.now, frame));
        self.sent += payload;
    }

    fn pass(&mut self, time_ns: u64) -> &mut Self {
        self.now += time_ns;
        self
    }

    fn ask(&mut self) -> &mut Self {
        if self.ended_ns != 0 {
            self.trace.waits.push(Wait {
                port: PORT,
                began_ns: self.began_ns,
                ended_ns: self.ended_ns,
                told_ns: self.now,
            });
        }
        self.put(Kind::Segment, REQUEST_BYTES);
        self.began_ns = self.now;
        self
    }

    /// Data comes; `is_first`: the client has acknowledged all before it, and so echoes it.
    fn receive(&mut self, bytes: u32, is_first: bool) -> &mut Self {
        if is_first {
            self.echo = self.stamp();
        }
        self.received += bytes;
        self.ended_ns = self.now;
        self
    }

    fn acknowledge(&mut self) -> &mut Self {
        self.put(Kind::Segment, 0);
        self
    }

    fn judged(&self) -> Vec<Judged> {
        judge(&self.trace, Estimator::Timestamps)
    }
}

fn assert_right(judged: &[Judged]) {
    assert!(!judged.is_empty());
    for own in judged {
        let error = own.error().unwrap_or(f64::INFINITY);
        assert!(error.abs() < 0.25, "{error}: {own:#?}");
    }
}

/// The SYN-ACK was sent at the end of a tick, so that other lags are shorter than that of its
/// acknowledgement: what they are above it is less than what was thought.
#[test]
fn the_least_lag_is_sought_while_the_clock_is_learnt() {
    for tick_ms in [4, 10] {
        let tick_ns = tick_ms * MS;
        let mut script = Script::new(tick_ns, tick_ns - 200 * US);
        // So many ticks find the clock once, at the end.
        for turn in 0..15_u64 {
            let wait_ns = tick_ns * 8 / 10 + turn % 7 * tick_ns / 20;
            script.ask().pass(wait_ns).receive(200, true);
            script.pass(turn % 3 / 2 * (turn * turn * 37 % 101) * tick_ns / 25);
        }
        assert_right(&script.judged()[..1]);
    }
}

/// Of one segment, an acknowledgement may be 40 ms late: what it echoes tells when the answer came.
#[test]
fn a_delayed_acknowledgement_is_no_part_of_the_wait() {
    let mut script = Script::new(MS, 0);
    for _ in 0..8 {
        script.ask().pass(400 * US).receive(200, true);
        script.pass(41 * MS).acknowledge();
        script.pass(900 * MS);
    }
    // The clock is learnt in the first epoch.
    for own in &script.judged()[1..] {
        let latency = own.epoch.latency_ns.unwrap();
        assert!(latency.0 < 400 * US + 2 * MS, "{own:#?}");
    }
}

/// The client acknowledges at once where the connection begins, as Linux does, and later with its
/// next request. Answers that become slower are no way that became longer; the latency and what was
/// thought are all of the time.
#[test]
fn who_always_thinks_for_the_same_time_waits_no_longer_for_it() {
    let mut script = Script::new(MS, 0);
    for turn in 0..120 {
        let wait_ms = if turn < 40 { 9 } else { 54 };
        script.ask().pass(wait_ms * MS).receive(200, true);
        if turn < 8 {
            script.acknowledge();
        }
        script.pass(25 * MS);
    }
    let judged = script.judged();
    assert!(judged.len() > 10, "{}", judged.len());
    for own in &judged[1..] {
        let (latency_ns, think_ns) = (own.epoch.latency_ns.unwrap().0, own.epoch.think_ns.unwrap());
        assert!(own.error().unwrap().abs() < 0.05, "{own:#?}");
        let gap_ns = own.truth_ns + 25e6;
        let told_ns = (latency_ns + think_ns.0) as f64;
        assert!((told_ns / gap_ns - 1.0).abs() < 0.01, "{own:#?}");
    }
}

/// A client that was late to read several segments acknowledges them together, and late.
#[test]
fn acknowledging_much_at_once_is_no_proof_of_a_long_wait() {
    let mut script = Script::new(MS, 0);
    for _ in 0..40 {
        script.ask().pass(11 * MS).receive(5_000, true);
        script.pass(31 * MS).acknowledge();
        script.pass(MS / 2);
    }
    assert_right(&script.judged()[1..]);
}

/// What was acknowledged of an answer is not echoed with its rest.
#[test]
fn the_rest_of_an_answer_has_an_echo_of_its_own() {
    let mut script = Script::new(MS, 0);
    for turn in 0..60_u64 {
        script.ask().pass(4 * MS).receive(4_380, true);
        script.acknowledge().pass(100 * US).receive(700, true);
        script.pass((10 + turn % 7) * MS + turn % 10 * 100 * US);
    }
    assert_right(&script.judged());
}

/// Nobody acknowledged the second segment of an answer of five: they came at once. Of two, the
/// second may have come later.
#[test]
fn an_echo_tells_of_several_segments_unless_they_are_two() {
    let gaps_of = |bytes| {
        let mut script = Script::new(MS, 0);
        for turn in 0..60_u64 {
            script.ask().pass(4 * MS).receive(bytes, true);
            script.pass((10 + turn % 7) * MS + turn % 10 * 100 * US);
        }
        let mut judged = script.judged();
        judged.pop(); // it has but two
        let gaps: u32 = judged.iter().map(|own| own.epoch.causal_gaps).sum();
        (gaps, judged)
    };
    let (all, judged) = gaps_of(7_000);
    assert_right(&judged);
    let (some, _) = gaps_of(2_000);
    assert!(some < all / 2, "{some} of {all}");
}
