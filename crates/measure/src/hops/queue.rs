//! Where packets wait: which link of a path adds to the round trips of all routers behind it,
//! second by second, and in which direction.

use std::collections::VecDeque;

use super::floor::Floor;
use super::oneway::Waited;

/// What is judged at a time.
pub(super) const WINDOW_NS: u64 = 1_000_000_000;
/// After so long most answers of a window have come.
const GRACE_NS: u64 = 1_000_000_000;
/// A queue is named from so much on: routers take up to some milliseconds to make an answer, and
/// clocks tick in milliseconds.
const LEAST_NS: u64 = 2_000_000;
/// And from this part of the round trip without queues on: the longer a path, the more it varies.
const PART_OF_BASELINE: u64 = 5;
/// And from this part of the longest queue of the window on: a hop that is probed at other moments
/// than its neighbours shows some of their queue as its own.
const PART_OF_LONGEST: u64 = 4;
/// A path without queues that has become longer is taken for what it is after some minutes: 20 us a
/// second.
const RISE_PPM: i64 = 20;
/// Answers kept of a hop: 100 a second over windows and grace, with room.
const KEPT: usize = 512;
/// A direction is said to have a queue if the application's packets wait this part of it there.
const PART_OF_DIRECTION: u64 = 5;

/// Which way packets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Reverse,
    Both,
    Unknown,
}

impl Direction {
    /// The word in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
            Self::Both => "both",
            Self::Unknown => "unknown",
        }
    }
}

/// A link that packets wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queue {
    /// The router at its near end; 0 is this host.
    pub(super) near: u8,
    /// The router at its far end.
    pub(super) far: u8,
    /// What it adds to round trips, at the median.
    pub(super) added_ns: u64,
}

/// The answers of a hop.
#[derive(Debug)]
struct Series {
    floor: Floor,
    /// When the probe was sent, and its round trip; in the order of the answers.
    answers: VecDeque<(u64, u64)>,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            floor: Floor::new(RISE_PPM),
            answers: VecDeque::new(),
        }
    }
}

/// What a hop's round trips were over the least, in the order of sending.
struct Excess {
    ttl: u8,
    baseline_ns: u64,
    points: Vec<(u64, u64)>,
}

impl Excess {
    /// Between the neighbours in time, or as the nearest one.
    fn at(&self, time: u64) -> u64 {
        let after = self.points.partition_point(|(sent, _)| *sent < time);
        match (
            after.checked_sub(1).map(|before| self.points[before]),
            self.points.get(after),
        ) {
            (Some((begin, first)), Some(&(end, last))) => {
                let length = u128::from(end - begin).max(1);
                let passed = u128::from(time - begin).min(length);
                let sum = u128::from(first) * (length - passed) + u128::from(last) * passed;
                (sum / length) as u64
            }
            (Some((_, nearest)), None) => nearest,
            (None, nearest) => nearest.map_or(0, |(_, excess)| *excess),
        }
    }
}

/// The queues on the path of a flow.
#[derive(Debug, Default)]
pub(super) struct Queues {
    hops: Vec<Series>,
    /// The start of the window to be judged next.
    next: Option<u64>,
}

impl Queues {
    /// Takes the answer to a probe.
    pub(super) fn answer(&mut self, ttl: u8, sent: u64, rtt_ns: u64) {
        let ttl = usize::from(ttl.max(1));
        if self.hops.len() < ttl {
            self.hops.resize_with(ttl, Series::default);
        }
        self.next.get_or_insert(sent - sent % WINDOW_NS);
        let series = &mut self.hops[ttl - 1];
        series.floor.take(sent, rtt_ns.cast_signed());
        if series.answers.len() == KEPT {
            series.answers.pop_front();
        }
        series.answers.push_back((sent, rtt_ns));
    }

    /// From this TTL on the path is another.
    pub(super) fn forget(&mut self, ttl: u8) {
        self.hops.truncate(usize::from(ttl.max(1)) - 1);
    }

    /// The next window that is over, as its start and the links that packets waited for, from near
    /// to far.
    pub(super) fn judge(&mut self, now: u64) -> Option<(u64, Vec<Queue>)> {
        let start = self.next?;
        if now < start + WINDOW_NS + GRACE_NS {
            return None;
        }
        // After a pause the windows without answers are skipped.
        let newest = self.hops.iter().filter_map(|hop| hop.answers.back());
        let newest = newest.map(|(sent, _)| *sent).max();
        self.next = newest
            .filter(|newest| *newest >= start + WINDOW_NS)
            .map(|_| start + WINDOW_NS);
        let hops = self.window(start);
        for hop in &mut self.hops {
            // The second before is needed to know what is between.
            hop.answers
                .retain(|(sent, _)| sent + WINDOW_NS >= start + WINDOW_NS);
        }
        Some((start, steps(&hops, start)))
    }

    /// The hops that answered probes of the window.
    fn window(&self, start: u64) -> Vec<Excess> {
        let hops = self.hops.iter().enumerate();
        hops.filter_map(|(index, series)| {
            let baseline = series.floor.level(start + WINDOW_NS)?;
            let answers = series.answers.iter();
            let mut points: Vec<(u64, u64)> = answers
                .map(|(sent, rtt)| (*sent, series.floor.excess(*sent, rtt.cast_signed())))
                .collect();
            points.sort_unstable();
            let is_probed = points.iter().any(|(sent, _)| is_within(*sent, start));
            is_probed.then(|| Excess {
                ttl: index as u8 + 1,
                baseline_ns: u64::try_from(baseline).unwrap_or_default(),
                points,
            })
        })
        .collect()
    }
}

fn is_within(sent: u64, start: u64) -> bool {
    sent >= start && sent < start + WINDOW_NS
}

/// What each link adds, at the median of the moments at which the hop with the fewest answers was
/// probed; what others had then is taken from their own answers before and after.
///
/// A queue on the way to a router, or on the way that all answers from there on take back, delays
/// every router behind it too. So what a router has and none behind it has was not waited on the
/// path of the flow: it is the router's own slowness, or the way back of its answers alone.
fn steps(hops: &[Excess], start: u64) -> Vec<Queue> {
    let count = |hop: &&Excess| {
        let points = hop.points.iter();
        points.filter(|(sent, _)| is_within(*sent, start)).count()
    };
    let Some(reference) = hops.iter().min_by_key(count) else {
        return Vec::new();
    };
    let moments = reference.points.iter().map(|(sent, _)| *sent);
    let mut added = vec![Vec::new(); hops.len()];
    for moment in moments.filter(|sent| is_within(*sent, start)) {
        let mut shared: Vec<u64> = hops.iter().map(|hop| hop.at(moment)).collect();
        for index in (1..shared.len()).rev() {
            shared[index - 1] = shared[index - 1].min(shared[index]);
        }
        let mut before = 0;
        for (steps, shared) in added.iter_mut().zip(shared) {
            steps.push(shared - before);
            before = shared;
        }
    }
    let queues: Vec<u64> = added
        .into_iter()
        .map(|mut steps| {
            steps.sort_unstable();
            steps[steps.len() / 2]
        })
        .collect();
    let longest = queues.iter().max().copied().unwrap_or_default();
    let named = hops.iter().zip(queues).enumerate();
    named
        .filter(|(_, (hop, added_ns))| {
            let of_baseline = hop.baseline_ns / PART_OF_BASELINE;
            let of_longest = longest / PART_OF_LONGEST;
            *added_ns > LEAST_NS.max(of_baseline).max(of_longest)
        })
        .map(|(index, (hop, added_ns))| Queue {
            near: index.checked_sub(1).map_or(0, |near| hops[near].ttl),
            far: hop.ttl,
            added_ns,
        })
        .collect()
}

/// The direction of a queue, by what the application's packets waited; `None` if they did not: then
/// the router is slow to answer, and the flow waits for nothing.
pub(super) fn direction(queue_ns: u64, waited: Option<Waited>) -> Option<Direction> {
    let Some(waited) = waited else {
        return Some(Direction::Unknown);
    };
    let least = (LEAST_NS / 2)
        .max(waited.grain_ns * 3 / 2)
        .max(queue_ns / PART_OF_DIRECTION);
    Some(
        match (waited.forward_ns >= least, waited.reverse_ns >= least) {
            (true, true) => Direction::Both,
            (true, false) => Direction::Forward,
            (false, true) => Direction::Reverse,
            (false, false) if queue_ns > 4 * waited.grain_ns => return None,
            (false, false) => Direction::Unknown,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Four hops 5 ms apart, probed ten times a second, each `phase` ms after the one before;
    /// `queue(ttl, time in ms)` is on top. Returns the links named, window by window.
    fn run(seconds: u64, phase: u64, queue: impl Fn(u8, u64) -> u64) -> Vec<Vec<Queue>> {
        let mut queues = Queues::default();
        let mut windows = Vec::new();
        for tick in 0..(seconds + 2) * 10 {
            for ttl in 1..=4 {
                let sent = tick * 100 + phase * u64::from(ttl - 1);
                if tick < seconds * 10 {
                    let rtt = 10 * u64::from(ttl) + queue(ttl, sent);
                    queues.answer(ttl, sent * MS, rtt * MS);
                }
            }
            while let Some((_, links)) = queues.judge(tick * 100 * MS) {
                windows.push(links);
            }
        }
        windows
    }

    fn named(windows: &[Vec<Queue>]) -> Vec<Vec<u8>> {
        let fars = |links: &Vec<Queue>| links.iter().map(|link| link.far).collect();
        windows.iter().map(fars).collect()
    }

    #[test]
    fn the_link_where_round_trips_step_up_is_named() {
        let windows = run(
            5,
            0,
            |ttl, time| if ttl >= 3 && time >= 2000 { 30 } else { 0 },
        );
        assert_eq!(named(&windows), [vec![], vec![], vec![3], vec![3], vec![3]]);
        let expected = Queue {
            near: 2,
            far: 3,
            added_ns: 30 * MS - 60_000,
        };
        // The floor has risen for 3 s at the moment of the median, at 20 us a second.
        assert!(windows[4][0].added_ns.abs_diff(expected.added_ns) <= 40_000);
        assert_eq!((windows[4][0].near, windows[4][0].far), (2, 3));
    }

    #[test]
    fn a_queue_that_moves_is_followed_also_where_hops_are_probed_at_other_times() {
        for phase in [0, 25] {
            let index = |time: u64| (time / 2000).min(4) as u8;
            let windows = run(10, phase, |ttl, time| {
                // A sawtooth of 20 to 40 ms, every 700 ms.
                let depth = 20 + time % 700 / 35;
                if index(time) != 0 && ttl >= index(time) {
                    depth
                } else {
                    0
                }
            });
            let expected =
                [0, 0, 1, 1, 2, 2, 3, 3, 4, 4].map(|far| vec![far; usize::from(far != 0)]);
            assert_eq!(named(&windows), expected, "phase {phase}");
        }
    }

    #[test]
    fn two_links_are_named_and_a_small_queue_beside_a_long_one_is_not() {
        let late = |time: u64| u64::from(time >= 1000);
        let two = run(2, 0, |ttl, time| {
            late(time) * (20 * u64::from(ttl >= 2) + 12 * u64::from(ttl >= 4))
        });
        assert_eq!(named(&two)[1], [2, 4]);
        let small = run(2, 0, |ttl, time| {
            late(time) * (90 * u64::from(ttl >= 2) + 12 * u64::from(ttl >= 4))
        });
        assert_eq!(named(&small)[1], [2]);
    }

    #[test]
    fn a_router_that_is_slow_to_answer_is_no_queue() {
        let windows = run(3, 0, |ttl, time| u64::from(ttl == 2 && time >= 1000) * 50);
        assert_eq!(named(&windows), vec![Vec::<u8>::new(); 3]);
    }

    #[test]
    fn little_is_not_named() {
        // Hop 4 has 40 ms: 20 % are 8.
        let late = |time: u64| u64::from(time >= 1000);
        let windows = run(2, 0, |ttl, time| late(time) * 7 * u64::from(ttl == 4));
        assert_eq!(named(&windows)[1], Vec::<u8>::new());
        let windows = run(2, 0, |ttl, time| late(time) * 9 * u64::from(ttl == 4));
        assert_eq!(named(&windows)[1], [4]);
    }

    #[test]
    fn a_hop_without_answers_is_passed_over() {
        let mut queues = Queues::default();
        for (sent, queue) in [(0, 0), (1000, 25)] {
            queues.answer(1, sent * MS, 10 * MS);
            queues.answer(3, sent * MS, (30 + queue) * MS);
        }
        assert_eq!(queues.judge(2000 * MS).unwrap().1, []);
        let (start, links) = queues.judge(3000 * MS).unwrap();
        assert_eq!(start, 1000 * MS);
        assert_eq!((links[0].near, links[0].far), (1, 3));
        assert_eq!(queues.judge(60_000 * MS), None, "nothing was sent since");
    }

    #[test]
    fn the_direction_is_that_of_the_waits() {
        let waited = |forward, reverse| {
            Some(Waited {
                forward_ns: forward * MS,
                reverse_ns: reverse * MS,
                grain_ns: MS,
            })
        };
        assert_eq!(direction(80 * MS, waited(86, 1)), Some(Direction::Forward));
        assert_eq!(direction(6 * MS, waited(0, 6)), Some(Direction::Reverse));
        assert_eq!(direction(60 * MS, waited(40, 20)), Some(Direction::Both));
        assert_eq!(direction(60 * MS, None), Some(Direction::Unknown));
        assert_eq!(direction(60 * MS, waited(1, 1)), None, "a slow router");
        assert_eq!(direction(3 * MS, waited(1, 1)), Some(Direction::Unknown));
    }
}
