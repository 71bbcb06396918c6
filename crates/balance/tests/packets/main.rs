//! Packets in; verdict, packet and counters out, of the program that is attached
//! (`BPF_PROG_TEST_RUN`). See `fixtures`.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod balancer;
mod checks;
#[path = "../../../measure/tests/common/compile.rs"]
mod compile;
mod fixtures;
mod frame;
mod kernel;
mod measured;
mod mutated;
mod world;

use std::collections::BTreeMap;

use fathom_balance::native::{BALANCE_BUCKET_SLOTS, balance_service};
use fathom_measure::bytes::bytes_of;
use fixtures::{Expect, Fixture, Step};
use frame::Packet;
use kernel::Kernel;
use world::{CLIENT, IPIP4, IPIP6, LAYER2, MEASURED, PAIR, SERVICE, WAYS, sent, take_entropy};

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const XDP_REDIRECT: u32 = 4;

#[test]
fn what_becomes_of_packets() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernel = Kernel::load();
    let fixtures = fixtures::all();
    let failed: Vec<_> = fixtures
        .iter()
        .filter_map(|fixture| run(&mut kernel, fixture).err())
        .collect();
    let count = fixtures.len();
    assert!(
        failed.is_empty(),
        "{} of {count} fail:\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    let cold = kernel.spent / kernel.packets;
    println!("{count} fixtures hold; a packet took {cold:?}, in a program that was not warm");
}

/// What each CPU has at hand of services is outdated when user space says so, and after a second in
/// any case.
#[test]
fn a_service_that_changes_is_seen() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernel = Kernel::load();
    kernel.reset();
    let service = std::net::SocketAddr::new(SERVICE[0].parse().unwrap(), PAIR).to_string();
    let (key, known) = world::services()
        .into_iter()
        .find(|(key, _)| key.port == PAIR && key.protocol == 6 && key.address.words[0] == 0)
        .unwrap();
    let change = |kernel: &Kernel, server: u16| {
        let changed = balance_service {
            ring_begin: u32::from(server) * world::RING_STRIDE,
            ..known
        };
        let balancer = &kernel.balancer;
        balancer.put("balance_services", bytes_of(&key), bytes_of(&changed));
    };
    let mut clients = 1024..;
    let mut goes_to = |kernel: &mut Kernel, server: u16| {
        let client = format!("{}:{}", CLIENT[0], clients.next().unwrap());
        let syn = Packet::syn(&client, &service).frame();
        let (verdict, out, _) = kernel.run(&syn);
        sent_to(server, &syn, verdict, &out)
    };
    kernel.balancer.set_ring(IPIP4);
    goes_to(&mut kernel, IPIP4).unwrap();
    change(&kernel, IPIP6);
    goes_to(&mut kernel, IPIP4).unwrap();
    let generation = 1_u64.to_ne_bytes();
    kernel
        .balancer
        .put("balance_generation", &0_u32.to_ne_bytes(), &generation);
    goes_to(&mut kernel, IPIP6).unwrap();
    change(&kernel, LAYER2);
    kernel.wait(2);
    goes_to(&mut kernel, LAYER2).unwrap();
}

/// As many connections as the table has places for, nearly: some are put elsewhere, and all keep
/// their servers when the ring changes.
#[test]
fn a_table_that_is_nearly_full_keeps_its_connections() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernel = Kernel::load();
    kernel.reset();
    let service = std::net::SocketAddr::new(SERVICE[0].parse().unwrap(), MEASURED).to_string();
    let before = kernel.balancer.counters();
    let count = kernel::PLACES * 9 / 10;
    let mut servers = Vec::new();
    for number in 0..count {
        let client = format!("{}:{}", CLIENT[0], 1024 + number);
        kernel.run(&Packet::syn(&client, &service).frame());
        let data = Packet::tcp(&client, &service).frame();
        let (verdict, out, counted) = kernel.run(&data);
        let server = [IPIP4, IPIP6]
            .into_iter()
            .find(|server| sent_to(*server, &data, verdict, &out).is_ok());
        let is_kept = counted.contains_key("connections found");
        servers.push((data, server.unwrap(), is_kept));
    }
    kernel.balancer.set_ring(LAYER2);
    let kept: Vec<_> = servers.iter().filter(|(.., is_kept)| *is_kept).collect();
    for (data, server, _) in &kept {
        let (verdict, out, counted) = kernel.run(data);
        sent_to(*server, data, verdict, &out).unwrap();
        assert!(counted.contains_key("connections found"), "{counted:?}");
    }
    let counted = kernel.balancer.counted_since(&before);
    println!(
        "{} of {count} connections have places, of which there are {}: {counted:?}",
        kept.len(),
        kernel::PLACES
    );
    assert!(counted["connections put elsewhere in the table"] > 0);
    assert!(
        kept.len() * 100 > count as usize * 97,
        "{} of {count}",
        kept.len()
    );
}

/// Runs a fixture. Returns what differs.
fn run(kernel: &mut Kernel, fixture: &Fixture) -> Result<(), String> {
    kernel.reset();
    let mut letters = BTreeMap::new();
    for (number, step) in fixture.steps.iter().enumerate() {
        take(kernel, step, &mut letters)
            .map_err(|why| format!("{}\n  step {number}: {why}", fixture.what))?;
    }
    Ok(())
}

fn take(kernel: &mut Kernel, step: &Step, letters: &mut BTreeMap<char, u16>) -> Result<(), String> {
    match step {
        Step::Wait(seconds) => kernel.wait(*seconds),
        Step::Ring(server) => kernel.balancer.set_ring(*server),
        Step::Settled(server) => kernel.balancer.settle(*server),
        Step::Gone(server) => kernel.balancer.remove(*server),
        Step::Sampled(is_sampled) => {
            let all = kernel::PLACES / BALANCE_BUCKET_SLOTS;
            kernel
                .balancer
                .sample(if *is_sampled { all.into() } else { 0 });
        }
        Step::QuicId(server) => kernel.balancer.name_by_quic(*server),
        Step::Epochs(count, letter) => {
            let told: Vec<u16> = kernel.epochs().iter().map(|epoch| epoch.server).collect();
            let expected = vec![letters[letter]; *count];
            if told != expected {
                return Err(format!("epochs of {told:?} instead of {expected:?}"));
            }
        }
        Step::Frame(frame, expected, counts) => {
            let (verdict, out, counted) = kernel.run(frame);
            judge(frame, expected, verdict, &out, letters)?;
            let expected: BTreeMap<_, _> = counts.iter().map(|name| (*name, 1)).collect();
            if counted != expected {
                return Err(format!("counted {counted:?} instead of {expected:?}"));
            }
        }
    }
    Ok(())
}

fn judge(
    frame: &[u8],
    expected: &Expect,
    verdict: u32,
    out: &[u8],
    letters: &mut BTreeMap<char, u16>,
) -> Result<(), String> {
    match expected {
        Expect::Pass => same(verdict, XDP_PASS, out, frame),
        Expect::Drop if verdict == XDP_DROP => Ok(()),
        Expect::Drop => Err(format!("verdict {verdict} instead of a drop")),
        Expect::Back(back) => same(verdict, XDP_TX, out, back),
        Expect::To(server) => sent_to(*server, frame, verdict, out),
        Expect::ToLetter(letter) => {
            let servers = letters
                .get(letter)
                .map_or(vec![IPIP4, IPIP6], |own| vec![*own]);
            let mut tries = servers
                .iter()
                .map(|server| (server, sent_to(*server, frame, verdict, out)));
            let found = tries.find(|(_, result)| result.is_ok());
            let (server, _) = found.ok_or(format!("not to {servers:?}, for verdict {verdict}"))?;
            letters.insert(*letter, *server);
            Ok(())
        }
    }
}

fn sent_to(server: u16, frame: &[u8], verdict: u32, out: &[u8]) -> Result<(), String> {
    let is_redirected = WAYS[usize::from(server) - 1].interface != 0;
    let mut expected = sent(server, ip_of(frame));
    let mut out = out.to_vec();
    take_entropy(server, &mut expected);
    take_entropy(server, &mut out);
    let verdict_of_server = if is_redirected { XDP_REDIRECT } else { XDP_TX };
    same(verdict, verdict_of_server, &out, &expected)
}

/// Behind the Ethernet header and its tags.
fn ip_of(frame: &[u8]) -> &[u8] {
    let mut at = 12;
    while frame[at..at + 2] == [0x81, 0x00] {
        at += 4;
    }
    &frame[at + 2..]
}

fn same(verdict: u32, expected_verdict: u32, out: &[u8], expected: &[u8]) -> Result<(), String> {
    if verdict != expected_verdict {
        return Err(format!("verdict {verdict} instead of {expected_verdict}"));
    }
    if out == expected {
        return Ok(());
    }
    let at = out
        .iter()
        .zip(expected)
        .take_while(|(own, other)| own == other);
    Err(format!(
        "the packet differs from byte {} on\n  out      {out:02x?}\n  expected {expected:02x?}",
        at.count()
    ))
}
