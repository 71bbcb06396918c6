//! Clients that think before they ask again: what is measured of them, against what they waited.

mod echoes;
mod limit;
mod score;
mod simulation;
mod stack;
mod workload;

use std::collections::BTreeMap;

use score::Score;
use std::time::Duration;

use crate::random::Times;
use workload::{Stamps, TICKS, Workload, grid, odd};

/// A workload with what was told of it.
struct Scored {
    name: String,
    workload: Workload,
    score: Score,
}

fn measure(workloads: Vec<(String, Workload)>) -> Vec<Scored> {
    let scored = workloads.into_iter().map(|(name, workload)| {
        let score = Score::of(&workload, &simulation::run(&workload));
        Scored {
            name,
            workload,
            score,
        }
    });
    scored.collect()
}

fn measure_grid(stamps: Stamps, chosen: impl Fn(&Workload) -> bool) -> Vec<Scored> {
    let workloads = grid(stamps).into_iter().filter(chosen);
    measure(workloads.map(|own| (own.name(), own)).collect())
}

fn total(scored: &[Scored]) -> Score {
    let mut total = Score::default();
    for one in scored {
        total.merge(&one.score);
    }
    total
}

type Describe = fn(&Workload) -> String;

/// Those that have something in common are one line; also all workloads, if asked for.
fn print(title: &str, scored: &[Scored]) {
    let aspects: [(&str, Describe); 6] = [
        ("thinking", Workload::thinking),
        ("path", |own| format!("{:?}", own.round_trip)),
        ("acknowledgements", Workload::acknowledging),
        ("connections", |own| format!("{:?}", own.lifetime)),
        ("requests and segments", |own| {
            format!("{}x{}", own.batch, own.segments)
        }),
        ("service", |own| format!("{:?}", own.service)),
    ];
    for (aspect, of) in aspects {
        let mut groups: BTreeMap<String, Score> = BTreeMap::new();
        for one in scored {
            let group = groups.entry(of(&one.workload)).or_default();
            group.merge(&one.score);
        }
        Score::print_header(&format!("{title}, {aspect}"));
        for (name, score) in &groups {
            score.print(name);
        }
    }
    if std::env::var_os("FATHOM_ALL_WORKLOADS").is_some() {
        print_each(title, scored);
    }
    total(scored).print("all");
}

fn print_each(title: &str, scored: &[Scored]) {
    Score::print_header(title);
    for one in scored {
        one.score.print(&one.name);
    }
}

/// Of the epochs that are sure, nine of ten are within a quarter.
fn assert_sure_ones_are_right(name: &str, score: &Score) {
    let (sure, wrong) = (score.sure(), score.sure_and_wrong());
    assert!(
        wrong * 10 <= sure,
        "{name}: {wrong} of {sure} sure epochs are wrong"
    );
}

#[test]
fn what_an_echo_tells_is_the_way_back_and_thinking() {
    for tick in TICKS {
        for workload in grid(Stamps::Ticks(tick)) {
            let run = simulation::run(&workload);
            assert!(run.turns.len() >= 20, "{workload:#?}");
            for turn in run.turns.iter().filter(|_| workload.batch == 1) {
                let wait = turn.wait;
                let waited_ns = (wait.ended_ns - wait.began_ns) as f64;
                let more_ns = turn.thought_ns - (turn.gap_ns as f64 - waited_ns);
                let jitter_ns = workload.round_trip.as_nanos() as f64 * 0.2 + 10_000.0;
                let tick_ns = tick.as_nanos() as f64;
                assert!(
                    (-jitter_ns..tick_ns + jitter_ns).contains(&more_ns),
                    "{more_ns} {turn:?} {workload:#?}"
                );
            }
        }
    }
}

#[test]
fn thinking_is_removed_where_there_are_timestamps() {
    let mut all = Vec::new();
    for tick in TICKS {
        let scored = measure_grid(Stamps::Ticks(tick), Workload::has_pauses);
        print(&format!("thinking, ticks of {tick:?}"), &scored);
        all.push((tick, total(&scored)));
    }
    Score::print_header("thinking, with timestamps");
    for (tick, score) in &all {
        score.print(&format!("ticks of {tick:?}"));
    }
    // Where ticks are coarse and answers fast, no estimate of half a second can be better than
    // `ideal`.
    for (tick, score) in &all {
        assert_sure_ones_are_right(&format!("ticks of {tick:?}"), score);
        let bound = f64::max(0.03, score.ideal() * 1.25);
        let median = score.median();
        assert!(median <= bound, "ticks of {tick:?}: {median}");
        assert!(
            score.trusted() >= 0.35,
            "ticks of {tick:?}: {}",
            score.trusted()
        );
    }
}

#[test]
fn thinking_without_timestamps_is_hardly_ever_sure_and_wrong() {
    for stamps in [Stamps::Absent, Stamps::Stripped, Stamps::Zero] {
        let scored = measure_grid(stamps, Workload::has_pauses);
        print(&format!("thinking, timestamps {stamps:?}"), &scored);
        let score = total(&scored);
        let (sure, wrong) = (score.sure(), score.sure_and_wrong());
        assert!(wrong * 20 <= sure, "{stamps:?}: {wrong} of {sure}");
    }
}

#[test]
fn clients_that_do_not_think_are_estimated_as_before() {
    let ticks = TICKS.map(Stamps::Ticks);
    for stamps in [Stamps::Absent, Stamps::Zero].into_iter().chain(ticks) {
        let scored = measure_grid(stamps, |own| !own.has_pauses());
        print(&format!("no thinking, timestamps {stamps:?}"), &scored);
        let score = total(&scored);
        assert_sure_ones_are_right(&format!("{stamps:?}"), &score);
        assert!(score.median() <= 0.002, "{stamps:?}: {}", score.median());
        if let Stamps::Ticks(tick) = stamps {
            let (sure, epochs) = (score.sure(), score.epochs);
            // Half of the answers take less than two ticks of 4 ms.
            let percent = if tick <= Duration::from_millis(1) {
                94
            } else {
                50
            };
            assert!(
                sure * 100 >= epochs * percent,
                "{stamps:?}: {sure} of {epochs} are sure"
            );
        }
    }
}

#[test]
fn clocks_and_paths_that_change_make_no_sure_estimate_wrong() {
    let odd = odd().into_iter();
    let scored = measure(odd.map(|(name, own)| (name.to_owned(), own)).collect());
    print_each("what happens to a clock or a path", &scored);
    for one in &scored {
        assert!(one.score.epochs > 100, "{}: {}", one.name, one.score.epochs);
        assert_sure_ones_are_right(&one.name, &one.score);
    }
}

#[test]
fn a_clock_that_drifts_or_wraps_costs_no_accuracy() {
    let is_clock = |own: &Workload| {
        own.has_stamps() && (own.drift_ppm.abs() > 0.0 || own.first_stamp.is_some())
    };
    let odd = odd().into_iter().filter(|(_, own)| is_clock(own));
    for one in measure(odd.map(|(name, own)| (name.to_owned(), own)).collect()) {
        assert!(
            one.score.median() <= 0.03,
            "{}: {}",
            one.name,
            one.score.median()
        );
    }
}

/// As on a machine that is short of processors: an answer that is on its way then is late, which
/// looks like thinking. Clients that think are wrong in one of a hundred, since theirs is usual.
#[test]
fn what_stands_still_makes_hardly_any_sure_estimate_wrong() {
    let ms = Duration::from_millis;
    let of = |think| {
        let paths = [30, 100, 180].map(|length| [1, 10, 40].map(|path| (ms(length), ms(path))));
        let workloads = paths.into_iter().flatten().map(|(length, round_trip)| {
            let workload = Workload {
                service: Times::Exponential(ms(2)),
                round_trip,
                stalls: Some(length),
                duration: Duration::from_secs(120),
                ..Workload::new(think, Stamps::Ticks(ms(1)))
            };
            (format!("for {length:?}: {}", workload.name()), workload)
        });
        let scored = measure(workloads.collect());
        print_each("what stands still", &scored);
        let score = total(&scored);
        assert!(score.sure() * 10 > score.epochs * 9, "{}", score.sure());
        (score.sure(), score.sure_and_wrong())
    };
    let (_, wrong) = of(None);
    assert_eq!(wrong, 0);
    let (sure, wrong) = of(Some(Times::Exponential(ms(5))));
    assert!(wrong * 100 <= sure, "{wrong} of {sure} are wrong");
}

/// Where a frame of a segment has the timestamp that it echoes.
const ECHO: std::ops::Range<usize> = 62..66;

#[test]
fn an_old_echo_at_the_start_of_what_was_seen_is_no_base() {
    let think = Times::Exponential(Duration::from_millis(10));
    let workload = Workload::new(Some(think), Stamps::Ticks(Duration::from_millis(1)));
    let mut run = simulation::run(&workload);
    // The handshake was not captured, and the first request comes a minute and a half after the
    // answer that it echoes.
    let is_request = |(_, frame): &(u64, Vec<u8>)| frame.len() > ECHO.end;
    let first = run.trace.packets.iter().position(is_request).unwrap();
    run.trace.packets.drain(..first);
    let echo = &mut run.trace.packets[0].1[ECHO];
    let value = u32::from_be_bytes(echo.try_into().unwrap());
    echo.copy_from_slice(&value.wrapping_sub(90_000).to_be_bytes());
    let score = Score::of(&workload, &run);
    assert!(score.epochs >= 10, "{}", score.epochs);
    assert!(score.median() <= 0.05, "{}", score.median());
}
