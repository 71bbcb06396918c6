//! How much longer than at best packets take in either direction, by the TCP timestamps of the
//! application's own packets (RFC 7323).
//!
//! A reply has the peer's clock (`TSval`) and this side's, as of the packet that it acknowledges
//! (`TSecr`). Their difference is the way there, plus a constant that nobody knows; the time of
//! arrival less `TSval` is the way back, less that constant. Over its minimum each is what was
//! waited.

use std::collections::VecDeque;

use super::floor::Floor;
use super::rank::median;

/// Ticks of timestamp clocks, ns: Linux on request, Linux and Windows, old Linux, BSD, old Windows.
const TICKS_NS: [u64; 5] = [1_000, 1_000_000, 4_000_000, 10_000_000, 100_000_000];
/// A clock is watched for so long before its tick is named.
const LEARN_NS: u64 = 1_000_000_000;
/// How far the measured tick may be from one that is known: what waits in queues meanwhile changes
/// the measured one.
const TOLERANCE: f64 = 1.4;
/// Replies kept until the ticks are known: one every 20 ms (`HOPS_CLUE_NS`).
const KEPT: usize = 256;
/// The least of so long is looked at, since an acknowledgement may be delayed for up to 40 ms; the
/// median of these is a window's value.
const BIN_NS: u64 = 100_000_000;
/// Bins of a window, at least: fewer say nothing.
const LEAST_BINS: usize = 2;
/// Bins that are kept.
const BINS: usize = 64;
/// Clocks of hosts are within 50 ppm of each other, mostly: a floor that rises so never reports
/// their drift, and forgets 3 ms of a queue a minute.
const DRIFT_PPM: i64 = 50;

/// What a reply says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reply {
    /// When it arrived, ns.
    pub(super) time: u64,
    pub(super) tsval: u32,
    pub(super) tsecr: u32,
}

/// What was waited over a window, at the median of moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit is part of each name")]
pub(super) struct Waited {
    pub(super) forward_ns: u64,
    pub(super) reverse_ns: u64,
    /// What the clocks can tell apart.
    pub(super) grain_ns: u64,
}

/// A timestamp clock that is read from afar.
#[derive(Debug, Default)]
struct Clock {
    first: Option<(u64, u32)>,
    last: u32,
    /// Ticks since the first reading; 32 bits wrap in the course of days.
    ticks: i64,
    tick_ns: Option<u64>,
}

impl Clock {
    fn read(&mut self, time: u64, value: u32) {
        let (begin, _) = *self.first.get_or_insert_with(|| {
            self.last = value;
            (time, value)
        });
        self.ticks += i64::from(value.wrapping_sub(self.last).cast_signed());
        self.last = value;
        let elapsed = time.saturating_sub(begin);
        if self.tick_ns.is_none() && elapsed >= LEARN_NS && self.ticks > 0 {
            let measured = elapsed as f64 / self.ticks as f64;
            self.tick_ns = TICKS_NS.into_iter().find(|tick| {
                let ratio = measured / *tick as f64;
                (1.0 / TOLERANCE..TOLERANCE).contains(&ratio)
            });
        }
    }

    /// The time of a reading, ns since the first one.
    fn time(&self, value: u32) -> Option<i64> {
        let behind = i64::from(value.wrapping_sub(self.last).cast_signed());
        Some((self.ticks + behind) * self.tick_ns?.cast_signed())
    }
}

/// The least of [`BIN_NS`].
#[derive(Debug, Clone, Copy)]
struct Bin {
    start: u64,
    forward: Option<i64>,
    reverse: i64,
}

/// The one-way times of a flow.
#[derive(Debug)]
pub(super) struct OneWay {
    peer: Clock,
    own: Clock,
    /// Replies of the time when the ticks were not known.
    kept: Vec<Reply>,
    echoed: Option<u32>,
    forward: Floor,
    reverse: Floor,
    bins: VecDeque<Bin>,
}

impl Default for OneWay {
    fn default() -> Self {
        Self {
            peer: Clock::default(),
            own: Clock::default(),
            kept: Vec::new(),
            echoed: None,
            forward: Floor::new(DRIFT_PPM),
            reverse: Floor::new(DRIFT_PPM),
            bins: VecDeque::new(),
        }
    }
}

impl OneWay {
    /// Takes a reply; they come in the order of their arrival.
    pub(super) fn take(&mut self, reply: Reply) {
        self.peer.read(reply.time, reply.tsval);
        self.own.read(reply.time, reply.tsecr);
        if self.peer.tick_ns.is_none() || self.own.tick_ns.is_none() {
            if self.kept.len() < KEPT {
                self.kept.push(reply);
            }
            return;
        }
        for early in std::mem::take(&mut self.kept) {
            self.put(early);
        }
        self.put(reply);
    }

    /// The way has changed: what was least on the old one says nothing.
    pub(super) fn forget(&mut self) {
        self.forward = Floor::new(DRIFT_PPM);
        self.reverse = Floor::new(DRIFT_PPM);
        self.bins.clear();
    }

    fn put(&mut self, reply: Reply) {
        let (Some(peer), Some(own), Some((begin, _))) = (
            self.peer.time(reply.tsval),
            self.own.time(reply.tsecr),
            self.peer.first,
        ) else {
            return;
        };
        let reverse = reply.time.saturating_sub(begin).cast_signed() - peer;
        self.reverse.take(reply.time, reverse);
        // Only the first reply to a packet: the peer's application may send more, long after it.
        let forward = (self.echoed != Some(reply.tsecr)).then_some(peer - own);
        self.echoed = Some(reply.tsecr);
        if let Some(forward) = forward {
            self.forward.take(reply.time, forward);
        }
        let start = reply.time - reply.time % BIN_NS;
        match self.bins.back_mut() {
            Some(bin) if bin.start == start => {
                bin.reverse = bin.reverse.min(reverse);
                bin.forward = [bin.forward, forward].into_iter().flatten().min();
            }
            _ => self.bins.push_back(Bin {
                start,
                forward,
                reverse,
            }),
        }
        if self.bins.len() > BINS {
            self.bins.pop_front();
        }
    }

    /// What was waited by replies that arrived from `from` to `until`; `None` if too few did, or
    /// their clocks are not known.
    pub(super) fn waited(&self, from: u64, until: u64) -> Option<Waited> {
        let bins = || {
            let bins = self.bins.iter();
            bins.filter(|bin| bin.start >= from && bin.start < until)
        };
        let forward = bins().filter_map(|bin| {
            let value = bin.forward?;
            Some(self.forward.excess(bin.start, value))
        });
        let reverse = bins().map(|bin| self.reverse.excess(bin.start, bin.reverse));
        Some(Waited {
            forward_ns: typical(forward.collect())?,
            reverse_ns: typical(reverse.collect())?,
            grain_ns: self.peer.tick_ns?.max(self.own.tick_ns?),
        })
    }
}

/// The median of enough values.
fn typical(values: Vec<u64>) -> Option<u64> {
    let is_enough = values.len() >= LEAST_BINS;
    median(values).filter(|_| is_enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;

    /// A flow that is acknowledged every 20 ms, 10 ms from the peer; `waits(time)` are the waits
    /// there, there delayed, and back, in ms.
    fn run(seconds: u64, tick_ms: u64, ppm: i64, waits: impl Fn(u64) -> (u64, u64, u64)) -> OneWay {
        let mut one_way = OneWay::default();
        let begin = 5_000 * SECOND;
        for sent_ms in (0..seconds * 1000).step_by(20) {
            let (there, delayed, back) = waits(sent_ms);
            let sent = begin + sent_ms * MS;
            let left = sent + (10 + there + delayed) * MS;
            let drift = (sent_ms * MS).cast_signed() * ppm / 1_000_000;
            one_way.take(Reply {
                time: left + (10 + back) * MS,
                // Wraps in the run, and has another beginning.
                tsval: (left.wrapping_add_signed(drift) / (tick_ms * MS)).wrapping_sub(77) as u32,
                tsecr: ((sent / MS) as u32).wrapping_sub(5_000_500),
            });
        }
        one_way
    }

    fn last_second(one_way: &OneWay, seconds: u64) -> (u64, u64) {
        let end = 5_000 * SECOND + seconds * SECOND;
        let waited = one_way.waited(end - SECOND, end).unwrap();
        let rounded = |ns: u64| (ns + MS / 2) / MS;
        (rounded(waited.forward_ns), rounded(waited.reverse_ns))
    }

    #[test]
    fn each_direction_has_what_was_waited_in_it() {
        let late = |sent_ms| u64::from(sent_ms >= 2000);
        let there = run(5, 1, 0, |sent_ms| (30 * late(sent_ms), 0, 0));
        assert_eq!(last_second(&there, 5), (30, 0));
        let back = run(5, 1, 0, |sent_ms| (0, 0, 8 * late(sent_ms)));
        assert_eq!(last_second(&back, 5), (0, 8));
        let both = run(5, 1, 0, |sent_ms| {
            (30 * late(sent_ms), 0, 8 * late(sent_ms))
        });
        assert_eq!(last_second(&both, 5), (30, 8));
    }

    #[test]
    fn what_came_before_the_ticks_were_known_counts() {
        let one_way = run(3, 1, 0, |sent_ms| (40 * u64::from(sent_ms > 200), 0, 0));
        assert_eq!(last_second(&one_way, 3), (40, 0));
    }

    #[test]
    fn coarse_clocks_are_known() {
        let one_way = run(6, 10, 0, |sent_ms| (60 * u64::from(sent_ms > 2000), 0, 0));
        assert_eq!(one_way.peer.tick_ns, Some(10 * MS));
        assert_eq!(one_way.own.tick_ns, Some(MS));
        let (forward, reverse) = last_second(&one_way, 6);
        assert!((50..=70).contains(&forward) && reverse <= 10);
    }

    #[test]
    fn delayed_acknowledgements_are_not_waited_for() {
        let one_way = run(4, 1, 0, |sent_ms| {
            (0, if sent_ms % 60 == 0 { 0 } else { 39 }, 0)
        });
        assert_eq!(last_second(&one_way, 4), (0, 0));
    }

    #[test]
    fn drift_is_not_reported_and_a_queue_on_top_is() {
        for ppm in [-45, 45] {
            let drifting = run(300, 1, ppm, |_| (0, 0, 0));
            let (forward, reverse) = last_second(&drifting, 300);
            assert!(forward <= 1 && reverse <= 1, "{forward} {reverse}");
            let queued = run(300, 1, ppm, |sent_ms| {
                (20 * u64::from(sent_ms > 290_000), 0, 0)
            });
            let (forward, reverse) = last_second(&queued, 300);
            assert!(
                (18..=21).contains(&forward) && reverse <= 1,
                "{forward} {reverse}"
            );
        }
    }

    #[test]
    fn too_little_says_nothing() {
        let one_way = run(5, 1, 0, |_| (0, 0, 0));
        assert_eq!(one_way.waited(0, SECOND), None);
        let mut irregular = OneWay::default();
        for number in 0..1000 {
            irregular.take(Reply {
                time: u64::from(number) * 20 * MS,
                tsval: number * number,
                tsecr: number * 20,
            });
        }
        assert_eq!(irregular.waited(18 * SECOND, 19 * SECOND), None);
    }
}
