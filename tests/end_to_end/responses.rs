//! Response latencies at a router, against what the clients waited.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use etherparse::PacketBuilder;
use fathom_lab::traffic::loops::{Service, Shape};
use fathom_lab::{Namespace, Worker, obstacle};
use fathom_tests::responses::{Case, Errors, Judged, Wait, cases, judge};
use fathom_tests::was_away;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

/// The turn of a test; `None` where none can be.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if let Some(why) = obstacle() {
        println!("skipped: {why}");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs the workload of this name; each epoch beside its truth.
fn run(name: &str, options: &[&str]) -> Vec<Judged> {
    let case = cases().into_iter().find(|case| case.name == name).unwrap();
    let (loops, finished) = case.run(&[options]).unwrap();
    let judged = judge(&finished[0].epochs(), &loops).unwrap();
    assert!(judged.len() >= 5, "{name}: {} epochs", judged.len());
    judged
}

/// Of the epochs that are sure, the median is within `median` of the truth; and there are such, in one of three runs: a flow at whose start a
/// processor was away does not show how many requests it began with, and is rightly said not to be measurable.
fn check(name: &str, median: f64) {
    let mut runs = (0..3).map(|_| run(name, &[]));
    let sure = runs.find_map(|judged| Some((Errors::of(&judged, true)?, judged)));
    let (errors, judged) = sure.unwrap_or_else(|| panic!("{name}: nothing sure in three runs"));
    println!(
        "{name}: median {:.2} %, p90 {:.2} %, {} of {} epochs",
        errors.median * 100.0,
        errors.p90 * 100.0,
        errors.estimated,
        judged.len()
    );
    assert!(errors.median <= median, "{name}: {errors:?}");
    assert!(errors.estimated * 2 > judged.len(), "{name}: {errors:?}");
}

#[fathom_lab::real_time]
#[test]
fn one_request_at_a_time() {
    let Some(_turn) = turn() else { return };
    for name in ["k1_exp", "k1_big_request", "k1_big_response", "k1_step"] {
        check(name, 0.02);
    }
}

#[fathom_lab::real_time]
#[test]
fn requests_in_batches_and_trees() {
    let Some(_turn) = turn() else { return };
    for name in ["k4_batch_exp", "k4_batch_serial", "k4_tree_exp"] {
        check(name, 0.05);
    }
}

#[fathom_lab::real_time]
#[test]
fn a_window_that_slides_is_recognised() {
    let Some(_turn) = turn() else { return };
    for name in ["k4_window_serial", "wan_k4_window_exp"] {
        check(name, 0.05);
    }
}

#[fathom_lab::real_time]
#[test]
fn silence_of_the_client_does_not_count() {
    let Some(_turn) = turn() else { return };
    for name in ["k1_idle_50", "wan_k1_idle_50", "k1_idle_400"] {
        check(name, 0.05);
    }
}

#[fathom_lab::real_time]
#[test]
fn lost_and_overtaken_requests_do_no_harm() {
    let Some(_turn) = turn() else { return };
    for name in ["loss_k1_exp", "reordered_k1_exp"] {
        check(name, 0.05);
    }
}

#[fathom_lab::real_time]
#[test]
fn without_acknowledgements_no_estimate_is_sure() {
    let Some(_turn) = turn() else { return };
    for (name, is_right) in [("k1_exp", true), ("k4_window_serial", false)] {
        let judged = run(name, &["--estimator", "split"]);
        assert!(judged.iter().all(|one| !one.is_sure()), "{judged:#?}");
        let errors = Errors::of(&judged, false).unwrap();
        assert_eq!(errors.median < 0.05, is_right, "{name}: {errors:?}");
    }
}

/// Each of ten requests takes 300 ms, and epochs ten seconds: it is told of when it has waited for 50 ms, 100 and 200, the look being 12.5 ms late
/// at most on a machine that has nothing else to do; and after its answer, never.
#[fathom_lab::real_time]
#[test]
fn requests_that_wait_are_told_of_before_the_epoch_ends() {
    let Some(_turn) = turn() else { return };
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

/// Packets of the flood, each of another flow, and how many come at once.
const FLOOD: u32 = 1_000_000;
const BURST: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(10);

/// Sends packets with data from addresses and ports that chance made to a host that is not there; ends when dropped.
fn start_flood(client: &Namespace) -> anyhow::Result<Worker<u32>> {
    let (family, kind) = (AddressFamily::Inet, SockType::Raw);
    let raw = client.enter(|| socket(family, kind, SockFlag::empty(), SockProtocol::Raw))??;
    let nobody = SockaddrIn::new(10, 77, 2, 99, 0);
    let worker = Worker::start("flood", move |stop| {
        let (start, mut sent) = (Instant::now(), 0);
        for burst in 0..FLOOD / BURST {
            if stop.is_set() {
                break;
            }
            for number in burst * BURST..(burst + 1) * BURST {
                // A permutation of the numbers, so that no flow comes twice.
                let mixed = number.wrapping_mul(0x9e37_79b1);
                let [first, second, third, fourth] = mixed.to_be_bytes();
                let source = [10, 78, first, second];
                let port = 1_024 + u16::from_be_bytes([third, fourth]) % 60_000;
                let builder = PacketBuilder::ipv4(source, [10, 77, 2, 99], 64);
                let mut packet = Vec::new();
                let written = builder.tcp(port, 80, mixed, 1_000).ack(mixed);
                written.write(&mut packet, &[0; 10]).unwrap();
                sent +=
                    u32::from(sendto(raw.as_raw_fd(), &packet, &nobody, MsgFlags::empty()).is_ok());
            }
            stop.sleep_until(start + PAUSE * (burst + 1));
        }
        sent
    })?;
    Ok(worker)
}

#[fathom_lab::real_time]
#[test]
fn a_flood_of_flows_takes_no_flow_its_estimates_for_longer_than_an_epoch() {
    let Some(_turn) = turn() else { return };
    let mut case = cases()
        .into_iter()
        .find(|case| case.name == "k1_many")
        .unwrap();
    // As long as the flood, and a little longer.
    case.workload.duration = PAUSE * (FLOOD / BURST) + Duration::from_secs(1);
    let (loops, finished) = case.run_beside(&[&[]], start_flood).unwrap();
    let opened = finished[0].count("flows opened");
    let evicted = finished[0].count("flows evicted: table full");
    println!("{opened} flows opened, {evicted} evicted");
    assert!(
        opened > 500_000,
        "only {opened} flows of the flood were seen"
    );
    assert!(
        evicted > opened / 2,
        "the table was never full: {evicted} of {opened}"
    );
    let mut ends: HashMap<u16, Vec<u64>> = HashMap::new();
    for epoch in finished[0].epochs() {
        let is_own = loops
            .iter()
            .any(|own| own.client.port() == epoch.source_port);
        if is_own && epoch.latency_ns.is_some() {
            let end = humantime::parse_rfc3339(&epoch.time).unwrap();
            let end = end.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
            ends.entry(epoch.source_port).or_default().push(end);
        }
    }
    assert_eq!(ends.len(), loops.len());
    // An epoch after which one is missing, and half of one for a machine that was busy.
    let longest = 1_250_000_000;
    for (port, mut ends) in ends {
        ends.sort_unstable();
        let gaps = ends.windows(2).map(|pair| pair[1] - pair[0]);
        let gap = gaps.max().unwrap_or(u64::MAX);
        assert!(gap <= longest, "port {port}: no estimate for {gap} ns");
    }
    let judged = judge(&finished[0].epochs(), &loops).unwrap();
    let errors = Errors::of(&judged, false).unwrap();
    println!("{errors:?}");
    assert!(errors.median < 0.05, "{errors:?}");
}
