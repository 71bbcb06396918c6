//! Whatever vanishes, at whatever moment, under traffic: no packet goes round, and what an
//! application sent arrives.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, fs};

use fathom_lab::{Chain, Family, wait_until};
use fathom_tests::{Fathom, attached_programs, has_tcx};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::stage::{Application, PATIENCE, beside_others};

const INTERFACE: &str = Chain::HOST_INTERFACE;
const FASTEST: [&str; 2] = ["--rate", "100"];
/// Moments that are tried, unless `FATHOM_ROUNDS` says how many.
const ROUNDS: u64 = 20;
/// Packets a second that cannot be: applications send some hundreds, probes are at most 3,000.
const RUNAWAY: u64 = 20_000;

/// Numbers by chance (splitmix64), the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn plain_chain() -> Chain {
    Chain::builder(1).plain(1).plain(2).build().unwrap()
}

fn applications(chain: &Chain) -> Vec<Application> {
    let of = |family| {
        [
            Application::tcp(chain, family, 3000),
            Application::udp(chain, family, true),
        ]
    };
    Family::BOTH.into_iter().flat_map(of).collect()
}

fn packets_sent(chain: &Chain) -> u64 {
    let show = format!("ip -json -statistics link show {INTERFACE}");
    let links: serde_json::Value = serde_json::from_str(&chain.client.run(&show).unwrap()).unwrap();
    links[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

/// Ends them at a moment by chance, each in a way by chance.
fn end_at_a_moment(fathoms: Vec<Fathom>, chance: &mut Chance) {
    for fathom in fathoms {
        std::thread::sleep(Duration::from_micros(chance.below(200_000)));
        let signals = [Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM];
        let signal = signals[chance.below(3) as usize];
        fathom.end(signal).unwrap();
    }
}

/// Kills the processes that would remove their filters, where the kernel has no links; tells
/// whether there were any.
fn janitors_vanish(fathoms: &mut [Fathom]) -> bool {
    let mut some = false;
    for fathom in fathoms {
        let id = fathom.process().id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        for child in children.split_whitespace() {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.trim_end() == "fathom-janitor" {
                let child = Pid::from_raw(child.parse().unwrap());
                signal::kill(child, Signal::SIGKILL).unwrap();
                some = true;
            }
        }
    }
    some
}

/// A process, or two that see each other's packets, vanish; tells whether the ones that clean up
/// vanished first.
fn processes_vanish(chain: &Chain, chance: &mut Chance) -> bool {
    let count = 1 + chance.below(2);
    let (begin, before) = (Instant::now(), packets_sent(chain));
    let mut fathoms: Vec<Fathom> = (0..count)
        .map(|_| Fathom::hops(&chain.client, INTERFACE, &FASTEST).unwrap())
        .collect();
    if chance.below(2) == 0 {
        fathoms.reverse();
    }
    let orphaned = chance.below(4) == 0 && janitors_vanish(&mut fathoms);
    end_at_a_moment(fathoms, chance);
    if orphaned {
        // Programs without a process; whoever finds them removes them.
        std::thread::sleep(Duration::from_micros(chance.below(200_000)));
        if attached_programs(&chain.client, INTERFACE).unwrap() > 0 {
            let remove = format!("tc qdisc delete dev {INTERFACE} clsact");
            chain.client.run(&remove).unwrap();
        }
    }
    wait_until(PATIENCE, "the programs to go", || {
        attached_programs(&chain.client, INTERFACE).unwrap() == 0
    })
    .unwrap();
    let sent = packets_sent(chain) - before;
    let most = RUNAWAY * (begin.elapsed().as_secs() + 1);
    assert!(sent < most, "{sent} packets in {:?}", begin.elapsed());
    orphaned
}

/// An interface vanishes, and the process, in one order or the other.
fn an_interface_vanishes(chance: &mut Chance) {
    let chain = plain_chain();
    // A connection would wait for what it has sent until it gives up.
    let _applications = Family::BOTH.map(|family| Application::udp(&chain, family, true));
    let fathom = Fathom::hops(&chain.client, INTERFACE, &FASTEST).unwrap();
    std::thread::sleep(Duration::from_micros(chance.below(200_000)));
    if chance.below(2) == 0 {
        chain.client.run("ip link delete eth0").unwrap();
        end_at_a_moment(vec![fathom], chance);
    } else {
        std::thread::scope(|scope| {
            let end = scope.spawn(|| fathom.end(Signal::SIGKILL).unwrap());
            chain.client.run("ip link delete eth0").unwrap();
            end.join().unwrap();
        });
    }
}

#[test]
fn whatever_vanishes_at_whatever_moment_no_packet_goes_round() {
    let _turn = beside_others();
    let number = |name: &str, otherwise: u64| {
        let text = env::var(name).ok();
        text.map_or(otherwise, |text| text.parse().unwrap())
    };
    let rounds = number("FATHOM_ROUNDS", ROUNDS);
    let seed = number("FATHOM_SEED", 1);
    println!("FATHOM_SEED={seed} FATHOM_ROUNDS={rounds}");
    let mut chance = Chance(seed);
    let chain = plain_chain();
    let flows = applications(&chain);
    let mut orphaned = 0;
    for _ in 0..rounds {
        if chance.below(5) == 0 {
            an_interface_vanishes(&mut chance);
        } else {
            orphaned += u64::from(processes_vanish(&chain, &mut chance));
        }
    }
    println!("{orphaned} times the programs stayed alone");
    let (mut lost, mut twice) = (0, 0);
    for flow in &flows {
        flow.talk(false);
    }
    // Without links a qdisc comes and goes with the programs, and the kernel stops the interface
    // meanwhile.
    let may_lose = if has_tcx(&chain.client, INTERFACE).unwrap() {
        0
    } else {
        4 * rounds
    };
    for datagrams in [&flows[1], &flows[3]] {
        let (sent, received) = (&datagrams.sent, &datagrams.received);
        let arrived = wait_until(PATIENCE, "what was sent to arrive", || {
            received.load(Ordering::Relaxed) + may_lose >= sent.load(Ordering::Relaxed)
        });
        assert!(
            arrived.is_ok(),
            "{sent:?} datagrams sent, {received:?} arrived"
        );
        let (sent, received) = (
            sent.load(Ordering::Relaxed),
            received.load(Ordering::Relaxed),
        );
        lost += sent.saturating_sub(received);
        twice += received.saturating_sub(sent);
    }
    println!("{lost} datagrams were lost");
    println!("{twice} datagrams arrived twice");
    // A clone that meets no program any more is the packet once more: one for each program and
    // processor at most.
    assert!(twice <= 4 * rounds, "{twice}");
}
