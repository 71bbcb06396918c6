//! Response latencies at a router, against what the clients waited.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use etherparse::PacketBuilder;
use fathom_lab::traffic::loops::{Service, Shape};
use fathom_lab::{Namespace, Worker, obstacle};
use fathom_tests::recording::write_capture;
use fathom_tests::responses::{Case, Errors, Judged, PORT, Wait, cases, judge, thinking_cases};
use fathom_tests::{Agreement, Fathom, was_away};
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

/// Measures the workload for so long, live and from a capture of the same packets at the same place.
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

/// Both at once, so that packets of one flow come to several processors. Each workload that is recorded is judged where the recordings are replayed.
#[fathom_lab::real_time]
#[test]
fn live_and_replayed_epochs_are_the_same_for_a_minute() {
    let Some(_turn) = turn() else { return };
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
        let wrong = judged
            .iter()
            .filter(|one| one.is_sure() && one.error().is_some_and(|error| error.abs() > 0.25));
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        // Where requests keep step with the clock of the server, few are sure.
        let errors = Errors::of(&judged, false).unwrap();
        println!("{name}: {errors:?}");
        assert!(errors.median <= 0.05, "{name}: {errors:?}");
        assert!(errors.estimated * 2 > judged.len(), "{name}: {errors:?}");
    }
}

/// Where the clients' segments have timestamps, thinking is no part of what is told; where they have none, nothing that is wrong is sure.
#[fathom_lab::real_time]
#[test]
fn clients_that_think_are_measured_live_as_from_a_capture() {
    let Some(_turn) = turn() else { return };
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
            assert!(
                sure.is_none_or(|sure| sure.wrong == 0.0),
                "{name}: {sure:?}"
            );
        } else {
            // 2 to 3 % where nothing else runs.
            assert!(all.unwrap().median <= 0.08, "{name}: {all:?}");
            assert!(sure.unwrap().wrong <= 0.1, "{name}: {sure:?}");
        }
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
