//! What the controller must do, and what it must not.

use fathom_balance::controller::{Bounds, Policy};
use fathom_lab::Sequence;

use crate::simulation::{Scenario, Speeds, run};

/// Requests of 4 ms for servers with four workers, at this part of what four servers at speed 1 can
/// do.
fn scenario(load: f64, servers: Vec<Speeds>) -> Scenario {
    let (workers, work, requests) = (4, 0.004, 20.0);
    let capacity = servers.len() as f64 * workers as f64 / work;
    Scenario {
        servers,
        workers,
        work,
        connections: load * capacity / requests,
        requests,
        think: 0.02,
        has_own_paces: false,
        misread: 0.0,
        told_after: f64::INFINITY,
        looks_waiting: false,
        unseen: 0.0,
        seconds: 60.0,
    }
}

fn changing(load: f64, seed: u64) -> Scenario {
    let mut random = Sequence::new(seed ^ 0xabcd);
    let levels = [1.3, 1.3, 1.0, 1.0, 0.5, 0.2];
    let servers = (0..4).map(|_| Speeds::changing(&mut random, &levels, 5.0, 60.0));
    scenario(load, servers.collect())
}

const SEEDS: u64 = 12;

fn p99(scenario: &Scenario, policy: Policy, seed: u64) -> f64 {
    run(scenario, policy, &Bounds::default(), seed).quantile_ms(99, 5.0)
}

/// The geometric mean of ratios, and the 95 % confidence interval of that.
fn ratio_of(ratios: impl Iterator<Item = f64>) -> [f64; 3] {
    let logs: Vec<_> = ratios.map(f64::ln).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let square: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    // Student's t for the 12 seeds.
    let half = 2.201 * (square / (count - 1.0) / count).sqrt();
    [mean, mean - half, mean + half].map(f64::exp)
}

#[test]
fn the_slowest_responses_come_sooner() {
    let mut logs = Vec::new();
    for load in [0.3, 0.5, 0.7] {
        let runs = (0..SEEDS).map(|seed| {
            let scenario = changing(load, seed);
            Policy::ALL.map(|policy| p99(&scenario, policy, seed))
        });
        let runs: Vec<_> = runs.collect();
        let against = |other: usize| ratio_of(runs.iter().map(|p99| p99[1] / p99[other]));
        for (other, name) in [(0, "static"), (2, "watermark")] {
            let [ratio, least, most] = against(other).map(|ratio| (ratio - 1.0) * 100.0);
            println!(
                "load {load}: p99 of latency against {name}: {ratio:+.0} % ({least:+.0} to {most:+.0})"
            );
            assert!(ratio < 5.0, "{name} at load {load}");
        }
        logs.push(against(0)[0].ln());
    }
    let average = (logs.iter().sum::<f64>() / 3.0).exp();
    println!(
        "over all loads, against static: {:+.0} %",
        (average - 1.0) * 100.0
    );
    assert!(average < 0.63, "{average}");
}

/// What is known of clients that think.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// When they wait.
    All,
    /// Timestamps tell, with the next request, for how long they thought; before it a client that
    /// thinks looks as if it waited, until an acknowledgement (40 ms late) gives it away.
    Afterwards,
    /// Nothing but that acknowledgement.
    Nothing,
}

impl Known {
    const ALL: [(Self, &str); 3] = [
        (Self::All, "all known"),
        (Self::Afterwards, "removed"),
        (Self::Nothing, "left in"),
    ];

    fn of(self, think: f64, scenario: Scenario) -> Scenario {
        let (misread, looks_waiting) = match self {
            Self::All => (0.0, false),
            Self::Afterwards => (0.0, true),
            Self::Nothing => (1.0, true),
        };
        Scenario {
            think,
            misread,
            told_after: 0.04,
            looks_waiting,
            ..scenario
        }
    }
}

fn percent(ratio: [f64; 3]) -> String {
    let [mean, least, most] = ratio.map(|ratio| (ratio - 1.0) * 100.0);
    format!("{mean:+.0} % ({least:+.0} to {most:+.0})")
}

#[test]
fn the_slowest_responses_come_sooner_to_clients_that_think() {
    for think in [0.005, 0.02, 0.06] {
        let scenario = |known: Known, seed| known.of(think, changing(0.5, seed));
        let base = (0..SEEDS).map(|seed| p99(&scenario(Known::All, seed), Policy::Static, seed));
        let base: Vec<_> = base.collect();
        for (known, name) in Known::ALL {
            let [latency, watermark] = [Policy::Latency, Policy::Watermark].map(|policy| {
                let runs = (0..SEEDS).zip(&base);
                ratio_of(runs.map(|(seed, base)| p99(&scenario(known, seed), policy, seed) / base))
            });
            println!(
                "thinking {think} s, {name}: p99 against static: latency {}, watermark {}",
                percent(latency),
                percent(watermark)
            );
            assert!(latency[0] < 0.63, "{think} s, {name}: {latency:?}");
        }
    }
}

/// Server 2 is so slow between 20 and 35 s.
fn step(load: f64, slow: f64) -> Scenario {
    let mut servers = vec![Speeds::constant(1.0); 4];
    servers[2] = Speeds(vec![(0.0, 1.0), (20.0, slow), (35.0, 1.0)]);
    scenario(load, servers)
}

/// The number of the decision at this second: five are made in each.
fn decision_at(second: usize) -> usize {
    5 * second - 1
}

#[test]
fn a_server_ten_times_slower_is_left_within_three_intervals_and_comes_back() {
    for (load, seed) in [(0.3, 1), (0.5, 2), (0.5, 3), (0.7, 4)] {
        let outcome = run(&step(load, 0.1), Policy::Latency, &Bounds::default(), seed);
        let change = decision_at(20);
        let (before, after) = (outcome.factors[change][2], outcome.factors[change + 3][2]);
        println!("load {load}: {before:.2} before, {after:.2} three intervals later");
        assert!(after < before / 2.0, "load {load}: {before} to {after}");
        // It never starves: what would clear it comes to it.
        let starved = outcome.requests[decision_at(22)..decision_at(35)].windows(10);
        for window in starved {
            let requests: u64 = window.iter().map(|requests| requests[2]).sum();
            assert!(requests > 0, "load {load}");
        }
        let recovery = decision_at(35);
        let back = (recovery..decision_at(45)).find(|index| outcome.factors[*index][2] > 0.5);
        let back = back.expect("within ten seconds it has load again");
        println!(
            "load {load}: half of its load is back after {} s",
            (back - recovery) as f64 / 5.0
        );
    }
}

#[test]
fn weights_settle_and_do_not_swing() {
    for (load, slow, seed) in [(0.3, 1.0, 1), (0.5, 0.5, 2), (0.6, 0.5, 3), (0.7, 0.7, 4)] {
        let mut servers = vec![Speeds::constant(1.0); 4];
        servers[1] = Speeds::constant(slow);
        let outcome = run(
            &scenario(load, servers),
            Policy::Latency,
            &Bounds::default(),
            seed,
        );
        for server in 0..4 {
            let late = outcome.factors[decision_at(20)..]
                .iter()
                .map(|factors| factors[server]);
            let late: Vec<_> = late.collect();
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            let square: f64 = late.iter().map(|factor| (factor - mean).powi(2)).sum();
            let deviation = (square / late.len() as f64).sqrt() / mean;
            println!("load {load}, server {server}: factor {mean:.2}, deviation {deviation:.2}");
            // By chance alone: of forty seeds, the worst has 0.31.
            assert!(
                deviation < 0.35,
                "load {load}, server {server}: {deviation}"
            );
        }
    }
}

/// What `latency` does to the p99 where there is nothing to gain.
fn harm(change: impl Fn(&mut Scenario)) -> f64 {
    let ratios = (0..SEEDS).map(|seed| {
        let mut scenario = scenario(0.5, vec![Speeds::constant(1.0); 4]);
        change(&mut scenario);
        p99(&scenario, Policy::Latency, seed) / p99(&scenario, Policy::Static, seed)
    });
    let [ratio, least, most] = ratio_of(ratios);
    println!("p99 against static: {ratio:.3} ({least:.3} to {most:.3})");
    ratio
}

#[test]
fn clients_that_are_idle_between_requests_do_no_harm() {
    let ratio = harm(|scenario| {
        scenario.think = 0.5;
        scenario.misread = 0.3;
    });
    assert!(ratio < 1.05, "{ratio}");
}

/// Connections that last, so that the paces of few clients are what a server is judged by.
#[test]
fn clients_with_paces_of_their_own_do_no_harm() {
    for (known, name) in Known::ALL {
        println!("{name}:");
        let ratio = harm(|scenario| {
            *scenario = Scenario {
                has_own_paces: true,
                connections: scenario.connections * scenario.requests / 400.0,
                requests: 400.0,
                ..known.of(0.02, scenario.clone())
            };
        });
        assert!(ratio < 1.05, "{name}: {ratio}");
    }
}

#[test]
fn paced_uploads_do_no_harm() {
    let ratio = harm(|scenario| scenario.unseen = 0.95);
    assert!(ratio < 1.05, "{ratio}");
}

#[test]
fn connections_that_last_do_no_harm() {
    let ratio = harm(|scenario| {
        scenario.connections *= scenario.requests / 400.0;
        scenario.requests = 400.0;
    });
    assert!(ratio < 1.05, "{ratio}");
}
