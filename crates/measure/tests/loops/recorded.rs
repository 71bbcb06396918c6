//! Loops that were recorded in the lab (`make recordings`), with what their clients waited.

use std::fs;
use std::path::{Path, PathBuf};

use fathom_measure::Replay;
use fathom_measure::response::{Estimator, Settings};

use crate::judge::{Judged, Wait, judge_replay};

/// Recordings that there must be, by what their names begin with: of clients that think, with
/// timestamps and without; and of all others.
const THINKING: (&str, usize) = ("think_", 7);
const BARE: (&str, usize) = ("bare_", 3);
const COUNT: usize = 36;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loops/recordings")
}

/// The names of recordings.
fn names(is_chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".waits")?.to_owned()))
        .filter(|name| is_chosen(name))
        .collect();
    names.sort();
    names
}

/// The lines of the file are described where it is written: `tests/src/recording.rs`.
fn waits(name: &str) -> Vec<Wait> {
    let text = fs::read_to_string(folder().join(format!("{name}.waits"))).unwrap();
    let (mut waits, mut ended_us, mut last): (Vec<Wait>, _, _) = (Vec::new(), 0, 0);
    for line in text.lines() {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [port, after_us, wait_us] = numbers[..] else {
            panic!("{name}: {line}");
        };
        ended_us = if port == last {
            ended_us + after_us
        } else {
            after_us
        };
        last = port;
        waits.push(Wait {
            port: port as u16,
            began_ns: (ended_us - wait_us) * 1_000,
            ended_ns: ended_us * 1_000,
            told_ns: ended_us * 1_000,
        });
    }
    // A client that thinks asks again later.
    for place in 1..waits.len() {
        let next = waits[place];
        if next.port == waits[place - 1].port {
            waits[place - 1].told_ns = next.began_ns.max(waits[place - 1].told_ns);
        }
    }
    waits
}

fn judged(name: &str, estimator: Estimator) -> Vec<Judged> {
    let file = folder().join(format!("{name}.pcap.zst"));
    let replay = Replay::open(file.to_str().unwrap()).unwrap();
    let settings = Settings {
        estimator,
        ..Settings::files()
    };
    let judged = judge_replay(replay, &settings, &waits(name));
    println!(
        "{name}: {}",
        judged
            .iter()
            .map(|one| format!(
                "{:+.3}{}{}",
                one.error().unwrap_or(9.0),
                &one.epoch.confidence.name()[..1],
                &one.epoch.estimator.name()[..1]
            ))
            .collect::<Vec<_>>()
            .join(" ")
    );
    assert!(judged.len() >= 4, "{name}: {} epochs", judged.len());
    judged
}

#[expect(clippy::cast_sign_loss, reason = "a part is not negative")]
fn quantile(errors: &mut [f64], part: f64) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors[((errors.len() - 1) as f64 * part).round() as usize]
}

/// What docs/accuracy.md promises: of the epochs that are sure, none is off by more than a quarter.
#[test]
fn recorded_loops_are_estimated() {
    let names = names(|name| !name.starts_with(THINKING.0) && !name.starts_with(BARE.0));
    assert_eq!(names.len(), COUNT);
    let (mut medians, mut tight, mut wrong) = (Vec::new(), 0, Vec::new());
    for name in &names {
        let judged = judged(name, Estimator::Timestamps);
        let mut errors: Vec<f64> = judged.iter().filter_map(Judged::sure_error).collect();
        let epochs = judged.len();
        for error in errors.iter().filter(|error| error.abs() > 0.25) {
            wrong.push(format!("{name}: {error:+.2}"));
        }
        for error in &mut errors {
            *error = error.abs();
        }
        if errors.is_empty() {
            println!("{name:24} nothing sure in {epochs} epochs");
            continue;
        }
        let (median, p90) = (quantile(&mut errors, 0.5), quantile(&mut errors, 0.9));
        let sure = errors.len();
        println!("{name:24} {median:.4} {p90:.4}, {sure} of {epochs} epochs are sure");
        assert!(median <= 0.035, "{name}: {median}");
        medians.push(median);
        tight += usize::from(p90 < 0.15);
    }
    let worst = quantile(&mut medians, 1.0);
    let middle = quantile(&mut medians, 0.5);
    println!(
        "{} workloads: {middle:.4}, worst {worst:.4}, {tight} tight",
        medians.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(middle <= 0.0063, "{middle}");
    assert!(tight >= 28, "{tight}");
}

#[test]
fn without_acknowledgements_no_recorded_loop_is_sure() {
    for (name, is_right) in [("k1_exp", true), ("k4_window_serial", false)] {
        let judged = judged(name, Estimator::Split);
        assert!(
            judged.iter().all(|one| one.sure_error().is_none()),
            "{judged:#?}"
        );
        let mut errors: Vec<f64> = judged
            .iter()
            .filter_map(|one| Some(one.error()?.abs()))
            .collect();
        let median = quantile(&mut errors, 0.5);
        assert_eq!(median < 0.05, is_right, "{name}: {median}");
    }
}

/// Of recordings of clients that think: the median error of each, and how many epochs are sure, and
/// of these wrong.
fn judge_thinking((prefix, count): (&str, usize)) -> (Vec<f64>, usize, usize) {
    let names = names(|name| name.starts_with(prefix));
    assert_eq!(names.len(), count);
    let (mut medians, mut sure, mut wrong) = (Vec::new(), 0, 0);
    for name in &names {
        let judged = judged(name, Estimator::Timestamps);
        let errors = judged.iter().filter_map(Judged::error).map(f64::abs);
        let mut errors: Vec<f64> = errors.collect();
        assert!(errors.len() * 2 > judged.len(), "{name}: {}", errors.len());
        let median = quantile(&mut errors, 0.5);
        let own: Vec<f64> = judged.iter().filter_map(Judged::sure_error).collect();
        let own_wrong = own.iter().filter(|error| error.abs() > 0.25).count();
        println!(
            "{name:24} {median:.4}, {} of {} epochs are sure, {own_wrong} of them wrong",
            own.len(),
            judged.len()
        );
        medians.push(median);
        sure += own.len();
        wrong += own_wrong;
    }
    (medians, sure, wrong)
}

#[test]
fn thinking_is_removed_from_recorded_loops_with_timestamps() {
    let (mut medians, sure, wrong) = judge_thinking(THINKING);
    let middle = quantile(&mut medians, 0.5);
    assert!(middle <= 0.03, "{middle}");
    assert!(wrong * 10 <= sure, "{wrong} of {sure}");
}

#[test]
fn no_recorded_loop_with_thinking_but_without_timestamps_is_sure_and_wrong() {
    let (_, sure, wrong) = judge_thinking(BARE);
    assert_eq!(wrong, 0, "of {sure}");
}
