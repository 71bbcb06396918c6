//! Frames of the fixtures with some bytes changed, or cut: what another parser calls malformed must
//! reach no server, and nothing must reach one changed.

use etherparse::SlicedPacket;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::fixtures::{Step, all};
use crate::kernel::{self, Kernel};
use crate::world::WAYS;
use crate::{XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX, ip_of, sent_to};

/// What is done to a frame.
#[derive(Debug, Clone)]
enum Change {
    Byte(Index, u8),
    Bit(Index, u8),
    Cut(Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    // Most of a frame's first bytes are headers.
    let change = prop_oneof![
        3 => (any::<Index>(), any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
        3 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Change::Bit(at, bit)),
        1 => any::<Index>().prop_map(Change::Cut),
    ];
    proptest::collection::vec(change, 0..4)
}

fn changed(frame: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for change in changes {
        let headers = frame.len().min(80);
        match change {
            Change::Byte(at, value) => frame[at.index(headers)] = *value,
            Change::Bit(at, bit) => frame[at.index(headers)] ^= 1 << bit,
            // The kernel runs no program over less than an Ethernet header.
            Change::Cut(at) => frame.truncate(14 + at.index(frame.len() - 13)),
        }
    }
    frame
}

/// All frames of the fixtures.
fn frames() -> Vec<Vec<u8>> {
    all()
        .into_iter()
        .flat_map(|fixture| fixture.steps)
        .filter_map(|step| match step {
            Step::Frame(frame, ..) => Some(frame),
            _ => None,
        })
        .collect()
}

/// Writes what the fuzz target starts from, when `FATHOM_CORPUS` says where: each frame behind a
/// byte that chooses the server.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("FATHOM_CORPUS") else {
        println!("skipped: FATHOM_CORPUS does not say where the corpus goes");
        return;
    };
    let folder = std::path::Path::new(&folder).join("balance");
    std::fs::create_dir_all(&folder).unwrap();
    for (number, frame) in frames().iter().enumerate() {
        let name = folder.join(format!("fixture-{number}"));
        std::fs::write(name, [&[number as u8], frame.as_slice()].concat()).unwrap();
    }
}

/// How often each verdict was seen.
#[derive(Debug, Default)]
struct Seen {
    passed: u32,
    dropped: u32,
    to_servers: u32,
    back: u32,
}

#[test]
fn what_is_malformed_reaches_no_server() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernel = Kernel::load();
    kernel.reset();
    let kernel = std::cell::RefCell::new(kernel);
    let seen = std::cell::RefCell::new(Seen::default());
    let mut runner = TestRunner::new(Config {
        cases: 20_000,
        source_file: Some(file!()),
        ..Config::default()
    });
    let strategy = (proptest::sample::select(frames()), changes());
    let held = runner.run(&strategy, |(frame, changes)| {
        let frame = changed(&frame, &changes);
        let (verdict, out, _) = kernel.borrow_mut().run(&frame);
        judge(&frame, verdict, &out, &mut seen.borrow_mut())
    });
    println!("{:?}", seen.borrow());
    if let Err(error) = held {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    assert!(
        seen.to_servers > 1000 && seen.passed > 1000 && seen.back > 100,
        "{seen:?}"
    );
}

fn judge(frame: &[u8], verdict: u32, out: &[u8], seen: &mut Seen) -> Result<(), TestCaseError> {
    match verdict {
        XDP_PASS => {
            seen.passed += 1;
            prop_assert_eq!(out, frame);
        }
        XDP_DROP => seen.dropped += 1,
        XDP_TX if out[..6] == frame[6..12] => {
            seen.back += 1;
            prop_assert!(SlicedPacket::from_ethernet(out).is_ok());
        }
        XDP_TX | XDP_REDIRECT => {
            seen.to_servers += 1;
            let is_intact =
                (1..=WAYS.len() as u16).any(|server| sent_to(server, frame, verdict, out).is_ok());
            prop_assert!(is_intact, "{:02x?} became {:02x?}", frame, out);
            prop_assert!(is_wellformed(frame), "malformed, and sent: {:02x?}", frame);
        }
        _ => prop_assert!(false, "verdict {}", verdict),
    }
    Ok(())
}

/// Does the other parser find IP with a transport, or with a fragment?
fn is_wellformed(frame: &[u8]) -> bool {
    SlicedPacket::from_ethernet(frame).is_ok() && !ip_of(frame).is_empty()
}
