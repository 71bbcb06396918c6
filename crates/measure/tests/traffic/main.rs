//! The two ways of running the measurement of throughput and loss: natively, over a capture file,
//! and by the kernel. Vectors say what comes out, and the state of both is the same, byte by byte,
//! for them and for packets that chance made.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../common/compile.rs"]
mod compile;
#[path = "../vectors/frame.rs"]
mod frame;
#[path = "../vectors/hosts.rs"]
mod hosts;
mod kernel;
mod native;
mod random;
mod scenario;
#[expect(dead_code, reason = "nothing is told through a ring")]
#[path = "../common/test_run.rs"]
mod test_run;
#[path = "../vectors/transport.rs"]
mod transport;
#[path = "../vectors/tunnel.rs"]
mod tunnel;
#[path = "../vectors/words.rs"]
mod words;

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use fathom_capture::{LinkType, Writer};
use fathom_measure::kernel::try_load;
use fathom_measure::traffic::{Engine, Settings, TrafficRecord};
use fathom_measure::{Ended, Replay, Scope};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use frame::Frame;
use kernel::Kernel;
use scenario::Scenario;

/// When scenarios start, in nanoseconds since 1970.
const START_NS: u64 = 1_700_000_000_000_000_000;
const PROGRAMS: [&str; 2] = ["ethernet_ingress", "xdp_ingress"];

/// All vectors, by name.
fn vectors() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/traffic/vectors");
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let vectors: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "vector"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let scenario = scenario::read(&fs::read_to_string(&path).unwrap());
            let scenario = scenario.unwrap_or_else(|problem| panic!("{name}: {problem}"));
            (name, scenario)
        })
        .collect();
    assert!(vectors.len() > 10);
    vectors
}

/// What a capture file of these frames gives, in intervals of this length; and its counts.
fn replay(
    frames: &[(u64, Frame)],
    interval: Duration,
    flows: u32,
) -> (Vec<TrafficRecord>, fathom_measure::Counts) {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, 0).unwrap();
    for (time_ns, frame) in frames {
        writer
            .write(START_NS + time_ns, frame.length, &frame.data)
            .unwrap();
    }
    let file = Cursor::new(writer.finish().unwrap());
    let settings = Settings {
        scope: Scope {
            flows,
            ..Scope::files()
        },
    };
    let mut engine = Engine::new(&settings, interval, 7).unwrap();
    let mut replay = Replay::from_reader("vector", file).unwrap().keep_copies();
    let mut records = Vec::new();
    let mut take = |record| records.push(record);
    let ended = loop {
        if let Some(ended) = replay.run(&mut engine, &mut take) {
            break ended;
        }
    };
    assert!(matches!(ended, Ended::Whole), "{ended:?}");
    engine.finish(replay.interfaces(), &mut take);
    (records, engine.counts())
}

#[test]
fn the_vectors_give_what_they_expect() {
    for (name, scenario) in vectors() {
        let (records, counts) = replay(&scenario.frames, Duration::from_secs(3600), 64);
        assert_eq!(records.len(), scenario.expected.len(), "{name}");
        for expected in &scenario.expected {
            let flow = records.iter().find(|record| record.flow == expected.flow);
            let record = flow.unwrap_or_else(|| panic!("{name}: no {}", expected.flow));
            expected.check(&name, record);
        }
        for (count, expected) in &scenario.counts {
            assert_eq!(counts.get(count), *expected, "{name}: {count}");
        }
    }
}

#[test]
fn the_kernel_has_the_same_state() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    try_load(&[&Settings::live()]).unwrap();
    for program in PROGRAMS {
        let kernel = Kernel::load(program);
        for (name, scenario) in vectors() {
            let expected = native::run(&scenario.frames);
            assert_eq!(kernel.run(&scenario.frames), expected, "{name}, {program}");
        }
        let mut runner = TestRunner::new(Config {
            cases: 256,
            source_file: Some(file!()),
            ..Config::default()
        });
        let seen = std::cell::RefCell::new([0; 4]);
        let compared = runner.run(&random::frames(), |frames| {
            let expected = native::run(&frames);
            for half in expected.flows.values().flat_map(|flow| &flow.half) {
                let counts = [
                    half.counts.repeated,
                    half.counts.needless,
                    half.counts.lost,
                    half.counts.overtaken,
                ];
                for (sum, count) in seen.borrow_mut().iter_mut().zip(counts) {
                    *sum += u64::from(count);
                }
            }
            prop_assert_eq!(kernel.run(&frames), expected);
            Ok(())
        });
        if let Err(error) = compared {
            panic!("{program}: {error}");
        }
        let seen = seen.borrow();
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    }
}

/// Whatever the length of intervals, and however many flows have to leave the table, the sums over
/// all records are those of one interval over all.
#[test]
fn intervals_add_up() {
    let sums = |records: &[TrafficRecord]| {
        let sum = |figure: fn(&TrafficRecord) -> u64| records.iter().map(figure).sum::<u64>();
        [
            sum(|it| it.packets + it.reverse_packets),
            sum(|it| it.bytes + it.reverse_bytes),
            sum(|it| it.packets_retransmitted.unwrap_or_default()),
            sum(|it| it.packets_lost_before.unwrap_or_default()),
            sum(|it| it.packets_lost_after.unwrap_or_default()),
            sum(|it| it.packets_out_of_order.unwrap_or_default()),
        ]
    };
    for (name, scenario) in vectors() {
        let (whole, _) = replay(&scenario.frames, Duration::from_secs(3600), 64);
        let (parts, _) = replay(&scenario.frames, Duration::from_millis(7), 64);
        assert_eq!(sums(&parts), sums(&whole), "{name}");
        let length = u128::from(parts[0].duration_ns.0);
        assert!(length <= Duration::from_millis(7).as_nanos(), "{name}");
    }
    // Each flow has to leave for the next.
    let frames: Vec<_> = (0..50)
        .map(|number| {
            let line = format!("client > server udp 0102030{:x}", number % 16);
            let mut hosts = hosts::Hosts::default();
            let port = format!("client 10.0.0.1:{}", 1000 + number);
            hosts.add(&mut words::Words::new(&port)).unwrap();
            let mut words = words::Words::new(&line);
            let frame = frame::read(&mut words, &hosts, LinkType::ETHERNET).unwrap();
            (number * 1000, frame)
        })
        .collect();
    let (records, counts) = replay(&frames, Duration::from_secs(1), 1);
    assert_eq!(sums(&records)[..2], [50, 50 * 32]);
    assert_eq!(counts.get("flows evicted: table full"), 49);
}
