//! Where packets wait, second by second: queues that move from link to link, and ones that an
//! application fills itself.

use std::time::Duration;

use fathom_lab::{Chain, Direction, Family, Way as Heading};
use fathom_record::Time;
use fathom_tests::{Congestion, Fathom, Finished, Record, was_away};

use crate::stage::{
    Application, MILLISECOND, SECOND, alone, chain, wait_for_answers, wait_for_probes,
};

const SECOND_NS: u64 = SECOND.as_nanos() as u64;
/// What is reached after some seconds of answers, from the start.
const RATE: [&str; 2] = ["--rate", "10"];
/// Windows are judged a second after they are over.
const JUDGED: Duration = Duration::from_secs(3);
/// Windows that must be right, in percent.
const RIGHT: usize = 95;

/// A time in which packets waited for one link.
#[derive(Debug)]
struct Phase {
    link: u8,
    direction: &'static str,
    from: u64,
    until: u64,
}

impl Phase {
    /// Has packets wait at `link` while `wait` runs.
    fn of(link: usize, direction: &'static str, wait: impl FnOnce()) -> Self {
        let from = Time::now().0;
        wait();
        Self {
            link: link as u8,
            direction,
            from,
            until: Time::now().0,
        }
    }

    /// What is wrong with what was told of each whole window within; `None` where nothing is. While
    /// a processor was away, packets of the lab waited there, too: what is told of such a window is
    /// not judged if it is not as expected.
    fn verdicts(&self, told: &[Congestion]) -> Vec<Option<String>> {
        // Windows begin with seconds of another clock.
        let phase = told[0].time_ns % SECOND_NS;
        let first = (self.from - phase).div_ceil(SECOND_NS) + 1;
        let last = (self.until - phase) / SECOND_NS;
        let ends = (first..=last).map(|second| second * SECOND_NS + phase);
        ends.filter_map(|end| {
            let here: Vec<_> = told
                .iter()
                .filter(|one| one.time_ns.abs_diff(end) < SECOND_NS / 10)
                .map(|one| (one.ttl, one.direction.as_str()))
                .collect();
            let is_right = here == [(self.link, self.direction)];
            let middle = end - SECOND_NS / 2;
            let is_judged = is_right || !was_away([middle; 2], SECOND_NS / 2);
            let wrong = (!is_right).then(|| format!("{self:?}: {here:?}"));
            is_judged.then_some(wrong)
        })
        .collect()
    }
}

fn congestions(finished: &Finished) -> Vec<Congestion> {
    let congestions = finished.records.iter().filter_map(|record| match record {
        Record::Congestion(congestion) => Some(congestion.clone()),
        _ => None,
    });
    congestions.collect()
}

/// What is wrong with each window of the phases; `None` where nothing is.
fn verdicts(phases: &[Phase], finished: &Finished) -> Vec<Option<String>> {
    let told = congestions(finished);
    assert!(!told.is_empty(), "{}", finished.errors);
    let verdicts: Vec<_> = phases
        .iter()
        .flat_map(|phase| phase.verdicts(&told))
        .collect();
    assert!(verdicts.len() >= phases.len());
    verdicts
}

fn assert_right(verdicts: &[Option<String>]) {
    let wrong: Vec<_> = verdicts.iter().flatten().collect();
    println!(
        "{} of {} windows are wrong: {wrong:#?}",
        wrong.len(),
        verdicts.len()
    );
    assert!((verdicts.len() - wrong.len()) * 100 >= verdicts.len() * RIGHT);
}

/// Runs the cases beside each other; what is wrong with the windows of all of them.
fn at_once<T: Send, const N: usize>(
    cases: [T; N],
    run: impl Fn(T) -> Vec<Option<String>> + Sync,
) -> Vec<Option<String>> {
    let run = &run;
    std::thread::scope(|scope| {
        let threads = cases.map(|case| scope.spawn(move || run(case)));
        let verdicts = threads.map(|thread| thread.join().unwrap());
        verdicts.into_iter().flatten().collect()
    })
}

/// The three ways at once, each on a chain of its own: a queue at one link after the other.
#[fathom_lab::test]
fn a_queue_that_moves_is_followed_with_its_direction() {
    let _turn = alone();
    let ways = [
        ("forward", &[Heading::Forward][..]),
        ("reverse", &[Heading::Backward][..]),
        ("both", &[Heading::Forward, Heading::Backward][..]),
    ];
    assert_right(&at_once(ways, |(name, headings)| {
        let chain = chain(3, |_| MILLISECOND).build().unwrap();
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &RATE).unwrap();
        let _flow = Application::tcp(&chain, Family::V4, 100);
        wait_for_answers(&fathom, 20, |probe| probe.ttl == 3);
        let mut phases = Vec::new();
        for link in 1..=3 {
            let set = |delay| {
                for heading in headings {
                    let direction = Direction::delayed(delay);
                    chain.link(link).reconfigure(*heading, direction);
                }
            };
            set(21 * MILLISECOND);
            phases.push(Phase::of(link, name, || {
                wait_for_probes(&fathom, 4 * SECOND);
            }));
            set(MILLISECOND);
        }
        wait_for_probes(&fathom, JUDGED);
        let finished = fathom.finish().unwrap();
        for congestion in congestions(&finished) {
            let most = longest_wait(&chain, &congestion) + 2 * MILLISECOND;
            let queue = Duration::from_nanos(congestion.queue_ns);
            assert!(queue <= most, "{congestion:?}, {most:?}");
        }
        verdicts(&phases, &finished)
    }));
}

/// The most that packets waited at a link in a window, there and back, by the link's own record:
/// the machine may have been slower than the link.
fn longest_wait(chain: &Chain, congestion: &Congestion) -> Duration {
    let truth = chain.link(congestion.ttl.into()).truth();
    let window = congestion.time_ns - SECOND_NS..congestion.time_ns;
    let waits = [Heading::Forward, Heading::Backward].map(|heading| {
        let here = truth
            .iter()
            .filter(|fate| fate.way == heading && window.contains(&fate.read_ns));
        let delays = here.filter_map(|fate| Some(fate.written_ns? - fate.read_ns));
        Duration::from_nanos(delays.max().unwrap()).saturating_sub(MILLISECOND)
    });
    waits.iter().sum()
}

/// The application sends more than a link takes: what it waits for is its own queue of up to 80 ms.
/// Both ways at once, each on a chain of its own.
#[fathom_lab::test]
fn a_bottleneck_is_named() {
    let _turn = alone();
    let ways = [
        (2, "forward", Heading::Forward),
        (3, "reverse", Heading::Backward),
    ];
    assert_right(&at_once(ways, |(link, name, heading)| {
        let chain = chain(3, |_| MILLISECOND).build().unwrap();
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &RATE).unwrap();
        let _flow = Application::tcp(&chain, Family::V4, 3000);
        wait_for_answers(&fathom, 20, |probe| probe.ttl == 3);
        let free = Direction::delayed(MILLISECOND);
        let narrow = free.clone().rate(4_000_000, 40_000);
        chain.link(link).reconfigure(heading, narrow);
        // Until the queue is there.
        wait_for_probes(&fathom, 2 * SECOND);
        let phase = Phase::of(link, name, || {
            wait_for_probes(&fathom, 6 * SECOND);
        });
        chain.link(link).reconfigure(heading, free);
        wait_for_probes(&fathom, JUDGED);
        verdicts(&[phase], &fathom.finish().unwrap())
    }));
}
