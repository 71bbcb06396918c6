//! Response latencies at a router, against what the clients waited.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_lab::traffic::loops::{Service, Shape};
use fathom_tests::recording::write_capture;
use fathom_tests::responses::{Case, Errors, Judged, PORT, Wait, cases, judge, thinking_cases};
use fathom_tests::{Agreement, Fathom, was_away};

/// The turn of a test; `None` where none can be.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures the workload for so long, live and from a capture of the same packets at the same
/// place.
fn run_for(duration: Duration, mut case: Case) -> (Agreement, Vec<Judged>) {
    case.workload.duration = duration;
    let (loops, live, passed) = case.record(&[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("requests.pcap.zst");
    write_capture(&capture, &passed, PORT).unwrap();
    let replayed = Fathom::replay_command("response", &capture, &[]).unwrap();
    let live = live.epochs();
    let agreement = Agreement::of(&live, &replayed.epochs(), &loops).unwrap();
    (agreement, judge(&live, &loops).unwrap())
}

/// A case that is measured, by its name.
type Running = (&'static str, JoinHandle<(Agreement, Vec<Judged>)>);

fn run_together<const COUNT: usize>(duration: Duration, cases: [Case; COUNT]) -> [Running; COUNT] {
    cases.map(|case| {
        let name = case.name;
        (name, std::thread::spawn(move || run_for(duration, case)))
    })
}

/// Checks that what is sure is within a quarter of the truth, or of what stolen time made of it on
/// the way: that may be so in one epoch of fifty.
fn check_sure(name: &str, judged: &[Judged]) {
    let is_wrong = |error: Option<f64>| error.is_some_and(|error| error.abs() > 0.25);
    let sure = judged.iter().filter(|one| one.is_sure());
    let far: Vec<_> = sure.filter(|one| is_wrong(one.error())).collect();
    let (wrong, excused): (Vec<&Judged>, Vec<&Judged>) = far
        .iter()
        .partition(|one| is_wrong(one.unexplained_error()));
    println!(
        "{name}: {} of {} epochs are excused",
        excused.len(),
        judged.len()
    );
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    assert!(excused.len() * 50 <= judged.len(), "{name}: {excused:#?}");
}

/// Both at once, so that packets of one flow come to several processors. Each workload that is
/// recorded is judged where the recordings are replayed.
#[fathom_lab::test]
fn live_and_replayed_epochs_are_the_same_for_a_minute() {
    let _turn = turn();
    let half = Service::Constant(Duration::from_micros(500));
    let mut window = Case::new("window of four", Shape::Window(4), half);
    window.workload.is_serial = true;
    let single = cases().into_iter().find(|case| case.name == "k1_exp");
    let runs = [window, single.unwrap()];
    let runs = run_together(Duration::from_secs(60), runs);
    for (name, run) in runs {
        let (agreement, judged) = run.join().unwrap();
        println!("{name}: {agreement}");
        assert!(agreement.epochs >= 115, "{name}: {agreement}");
        assert!(agreement.apart.is_empty(), "{name}: {agreement}");
        assert!(
            agreement.excused * 20 <= agreement.epochs,
            "{name}: {agreement}"
        );
        assert!(
            agreement.labels * 10 <= agreement.epochs,
            "{name}: {agreement}"
        );
        check_sure(name, &judged);
        // Where requests keep step with the clock of the server, few are sure.
        let errors = Errors::of(&judged, false).unwrap();
        println!("{name}: {errors:?}");
        assert!(errors.median <= 0.05, "{name}: {errors:?}");
        assert!(errors.estimated * 2 > judged.len(), "{name}: {errors:?}");
    }
}

/// Where the clients' segments have timestamps, thinking is no part of what is told; where they
/// have none, nothing that is wrong is sure.
#[fathom_lab::test]
fn clients_that_think_are_measured_live_as_from_a_capture() {
    let _turn = turn();
    let chosen = ["think_exp_5", "think_lognormal_20", "bare_exp_5"];
    let cases = chosen.map(|name| thinking_cases().into_iter().find(|case| case.name == name));
    let runs = run_together(Duration::from_secs(20), cases.map(Option::unwrap));
    for (name, run) in runs {
        let (agreement, judged) = run.join().unwrap();
        println!("{name}: {agreement}");
        assert!(agreement.epochs >= 35, "{name}: {agreement}");
        assert!(agreement.apart.is_empty(), "{name}: {agreement}");
        let all = Errors::of(&judged, false);
        let sure = Errors::of(&judged, true);
        println!("{name}: {all:?}, sure: {sure:?}");
        if name.starts_with("bare") {
            check_sure(name, &judged);
        } else {
            // 2 to 3 % where nothing else runs.
            assert!(all.unwrap().median <= 0.08, "{name}: {all:?}");
            assert!(sure.unwrap().wrong <= 0.1, "{name}: {sure:?}");
        }
    }
}

/// Each of ten requests takes 300 ms, and epochs ten seconds: it is told of when it has waited for
/// 50 ms, 100 and 200, the look being 12.5 ms late at most on a machine that has nothing else to
/// do; and after its answer, never.
#[fathom_lab::test]
fn requests_that_wait_are_told_of_before_the_epoch_ends() {
    let _turn = turn();
    let service = Service::Constant(Duration::from_millis(300));
    let case = Case::new("slow", Shape::Batch(1), service);
    let options = ["--epoch", "10s", "--waiting", "50ms"];
    let (loops, finished) = case.run(&[&options]).unwrap();
    let waits = finished[0].waits();
    let own = &loops[0];
    assert!(own.turns.len() >= 8, "{}", own.turns.len());
    for turn in &own.turns {
        let here = waits.iter().filter(|wait| {
            wait.source_port == own.client.port()
                && (turn.began_ns..turn.ended_ns).contains(&wait.time_ns)
        });
        let here: Vec<_> = here.collect();
        for wait in &here {
            let error_ns = (wait.time_ns - turn.began_ns).abs_diff(wait.waiting_ns);
            assert!(
                error_ns < 5_000_000 || was_away([turn.began_ns, wait.time_ns], error_ns),
                "{wait:?} {turn:?}"
            );
            assert!(wait.waiting_ns >= 50_000_000, "{wait:?}");
        }
        assert!((1..=3).contains(&here.len()), "{here:?}");
        let doubles = |pair: &[&Wait]| pair[1].waiting_ns >= 2 * pair[0].waiting_ns;
        assert!(here.windows(2).all(doubles), "{here:?}");
    }
    assert!(waits.len() <= 3 * own.turns.len(), "{waits:?}");
}
