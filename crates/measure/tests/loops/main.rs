//! Closed loops of requests in virtual time: what is measured of them, against what the clients
//! waited.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod judge;
mod random;
mod recorded;
mod segment;
mod simulation;
mod thinking;

use std::fmt::Debug;
use std::time::Duration;

use fathom_measure::response::Estimator::{Acknowledged, Timestamps};
use judge::{Judged, count, judge};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use random::{Random, Times};
use simulation::{Setting, Shape, Trace};

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

/// No sure epoch is off by more than a quarter; how far the median is, if any is sure.
fn check(judged: &[Judged]) -> Option<f64> {
    let mut errors: Vec<f64> = judged.iter().filter_map(Judged::sure_error).collect();
    for error in &errors {
        assert!(error.abs() <= 0.25, "{judged:#?}");
    }
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied()
}

/// Times as several processors take them: up to `most` earlier than the order of the packets would
/// have them.
fn disorder(trace: &mut Trace, most: Duration, seed: u64) {
    let mut random = Random::new(seed);
    for (time, _) in &mut trace.packets {
        if random.part() < 0.2 {
            *time -= random.below(most.as_nanos() as u64);
        }
    }
}

/// The case that was found: a window of four, a server that answers one after the other in 0.5 ms,
/// and clocks that differ by microseconds.
#[test]
fn a_full_window_stays_full_when_times_go_back() {
    let mut setting = Setting::new(Shape::Window(4), Times::Constant(500 * US));
    setting.is_serial = true;
    setting.duration = Duration::from_secs(8);
    let mut trace = setting.run();
    // Two of them, which arrive together at two processors.
    let places: Vec<usize> = (0..trace.packets.len()).step_by(1000).skip(1).collect();
    for place in places {
        trace.packets[place].0 = trace.packets[place - 1].0 - 3_000;
    }
    let judged = judge(&trace, Acknowledged);
    assert!(judged.len() >= 15, "{}", judged.len());
    for one in &judged {
        assert_eq!(one.epoch.concurrency, Some(4.0), "{one:#?}");
        assert!(one.sure_error().unwrap().abs() < 0.02, "{one:#?}");
    }
}

/// In the middle of a run, at times that have nothing to do with the epochs.
fn moments(length: Duration) -> Vec<(Duration, Duration)> {
    [700, 1300, 2100].map(|begin| (MS * begin, length)).to_vec()
}

/// Silence that is not the client's, and the client's own: what is sent after it may be a part of
/// what was outstanding.
#[test]
fn whatever_stands_still_no_sure_estimate_is_wrong() {
    let mut sure = 0;
    for (number, size) in [1, 2, 4, 8, 16].into_iter().cycle().take(40).enumerate() {
        let service = if number % 3 == 0 {
            Times::Constant(500 * US)
        } else {
            Times::Exponential(2 * MS)
        };
        let mut setting = Setting::new(Shape::Window(size), service);
        setting.seed = number as u64;
        setting.is_serial = number % 2 == 0;
        for length in [250 * MS, 400 * MS] {
            for place in 0..3 {
                let mut setting = setting.clone();
                *[&mut setting.stalls, &mut setting.jams, &mut setting.pauses][place] =
                    moments(length);
                let trace = setting.run();
                check(&judge(&trace, Timestamps));
                sure += usize::from(check(&judge(&trace, Acknowledged)).is_some());
            }
        }
    }
    assert!(sure > 200, "{sure} of 240 runs have sure epochs");
}

/// A client that has its first answers and stands still acknowledges them late: the gap before its
/// second batch tells nothing, but the batch is another one.
#[test]
fn what_follows_a_gap_that_does_not_count_is_another_flight() {
    let mut setting = Setting::new(Shape::Batch(4), Times::Exponential(2 * MS));
    setting.pauses = vec![(MS, 70 * MS)];
    let judged = judge(&setting.run(), Acknowledged);
    assert!(judged.len() >= 5);
    for one in &judged {
        assert_eq!(one.epoch.concurrency.map(f64::round), Some(4.0), "{one:#?}");
    }
    assert!(check(&judged).unwrap().abs() < 0.02);
}

/// The first answers come while the last requests are still being written, and something else runs
/// on the processor of the client now and then.
#[test]
fn small_requests_that_are_written_one_by_one_are_one_batch() {
    let mut sure = 0;
    for seed in 0..48 {
        let mut setting = Setting::new(Shape::Batch(16), Times::Exponential(2 * MS));
        setting.seed = seed;
        setting.interrupted = [0.02, 0.1, 0.3][seed as usize % 3];
        let trace = setting.run();
        check(&judge(&trace, Timestamps));
        if let Some(error) = check(&judge(&trace, Acknowledged)) {
            assert!(error.abs() < 0.05, "{error} {setting:#?}");
            sure += 1;
        }
    }
    assert!(sure >= 24, "{sure} of 48 runs have sure epochs");
}

/// Then a stack that puts small writes together sends a batch in two parts, of which the second
/// waits for an answer to the first.
#[test]
fn a_batch_that_the_stack_divides_is_not_sure() {
    for (seed, size) in [4, 16, 40].into_iter().cycle().take(12).enumerate() {
        let mut setting = Setting::new(Shape::Batch(size), Times::Exponential(2 * MS));
        setting.seed = seed as u64;
        setting.is_nagled = true;
        for estimator in [Timestamps, Acknowledged] {
            let judged = judge(&setting.run(), estimator);
            assert!(judged.len() >= 5);
            check(&judged);
        }
    }
}

/// `hops` and others send probes within connections. Receivers drop those without the timestamps
/// that all other segments have (RFC 7323, section 3.2); others end on their way.
#[test]
fn probes_within_a_connection_change_nothing_and_are_counted() {
    for (shape, has_timestamps) in [
        (Shape::Window(4), true),
        (Shape::Batch(4), true),
        (Shape::Tree(3), true),
        (Shape::Window(1), false),
        (Shape::Batch(4), false),
    ] {
        let setting = Setting {
            has_timestamps,
            ..Setting::new(shape, Times::Exponential(20 * MS))
        };
        let probed = Setting {
            probes: Some(3 * MS),
            ..setting.clone()
        };
        let [plain, probed] = [setting, probed].map(|setting| setting.run());
        let name = if has_timestamps {
            "segments without timestamps in a connection that has them"
        } else {
            "segments with a TTL far below their connection's"
        };
        let added = probed.packets.len() - plain.packets.len();
        assert!(added >= 900);
        // Those before the first request are of no flow yet.
        let counted = count(&probed, name);
        assert!((added as u64 - 10..=added as u64).contains(&counted));
        assert_eq!(count(&plain, name), 0);
        let [plain, probed] = [plain, probed].map(|trace| judge(&trace, Acknowledged));
        assert!(plain.len() >= 5);
        assert_eq!(plain.len(), probed.len());
        // The last epoch ends with the capture, and that with the last probe.
        for (one, other) in plain.iter().zip(&probed).take(plain.len() - 1) {
            assert_eq!(one.epoch, other.epoch);
        }
    }
}

/// Something else runs on the processor of the client while it writes its first requests: an answer
/// comes before all are written.
#[test]
fn a_window_that_was_cut_when_it_began_is_not_sure() {
    let mut sure = 0;
    let sizes = [1, 2, 3, 4, 6, 8];
    for (seed, size) in sizes.into_iter().cycle().take(360).enumerate() {
        let mut setting = Setting::new(Shape::Window(size), Times::Exponential(500 * US));
        setting.seed = seed as u64;
        setting.duration = Duration::from_secs(1);
        setting.interrupted = [0.05, 0.1, 0.2][seed / sizes.len() % 3];
        for error in judge(&setting.run(), Acknowledged)
            .iter()
            .filter_map(Judged::sure_error)
        {
            // One of four that is missing is a quarter.
            assert!(error.abs() < 0.26, "{error} {setting:#?}");
            sure += 1;
        }
    }
    assert!(sure >= 360, "{sure} of 1080 epochs are sure");
}

fn settings() -> impl Strategy<Value = Setting> {
    let shape = prop_oneof![
        (1..17_u32).prop_map(Shape::Window),
        (1..17_u32).prop_map(Shape::Batch),
        (2..9_u32).prop_map(Shape::Tree),
    ];
    let service = prop_oneof![
        (200..5_000_u32).prop_map(|us| Times::Constant(US * us)),
        (500..5_000_u32).prop_map(|us| Times::Exponential(US * us)),
    ];
    let round_trip = prop_oneof![Just(60 * US), Just(400 * US), Just(10 * MS)];
    (shape, service, round_trip, any::<bool>(), any::<u64>()).prop_map(
        |(shape, service, round_trip, is_serial, seed)| Setting {
            is_serial,
            round_trip,
            seed,
            ..Setting::new(shape, service)
        },
    )
}

/// What was left out of an epoch, how many requests were outstanding, and how sure that is. Each
/// follows from single gaps that are on one side of a bound.
fn decisions(judged: &Judged) -> impl PartialEq + Debug {
    let epoch = &judged.epoch;
    (
        epoch.confidence,
        epoch.concurrency.map(f64::round),
        epoch.timeout_gaps,
        epoch.idle_gaps,
    )
}

fn sure(judged: &[Judged]) -> usize {
    judged.iter().filter_map(Judged::sure_error).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A gap near a bound (half a round trip, for one) may come to be on its other side. Where none
    /// does, the estimate is the same; what is sure is right in any case.
    #[test]
    fn times_that_go_back_make_no_sure_estimate_wrong(setting in settings(), seed: u64) {
        let ordered = setting.run();
        let mut disordered = ordered.clone();
        disorder(&mut disordered, 100 * US, seed);
        check(&judge(&disordered, Timestamps));
        let [ordered, disordered] = [ordered, disordered].map(|trace| judge(&trace, Acknowledged));
        check(&disordered);
        prop_assert_eq!(ordered.len(), disordered.len());
        for (one, other) in ordered.iter().zip(&disordered) {
            prop_assert!(one.epoch.duration_ns.0.abs_diff(other.epoch.duration_ns.0) <= 100_000);
            let (Some(latency), Some(disordered)) = (one.epoch.latency_ns, other.epoch.latency_ns) else {
                continue;
            };
            let gaps = one.epoch.causal_gaps.max(1);
            let others = one.epoch.causal_gaps.abs_diff(other.epoch.causal_gaps);
            let share = 0.05 + f64::from(others) / f64::from(gaps);
            let error_ns = latency.0.abs_diff(disordered.0) as f64;
            prop_assert!(
                decisions(one) != decisions(other) || error_ns < latency.0 as f64 * share + 20_000.0,
                "{:#?} {:#?}", one, other
            );
        }
    }
}

#[test]
fn times_that_go_back_cost_hardly_any_sureness() {
    let mut runner = TestRunner::deterministic();
    let (mut ordered, mut disordered) = (0, 0);
    for seed in 0..200 {
        let mut trace = settings().new_tree(&mut runner).unwrap().current().run();
        ordered += sure(&judge(&trace, Acknowledged));
        disorder(&mut trace, 100 * US, seed);
        disordered += sure(&judge(&trace, Acknowledged));
    }
    println!("{ordered} epochs are sure in order, {disordered} in disorder");
    assert!(
        disordered * 100 >= ordered * 97,
        "{disordered} of {ordered}"
    );
}
