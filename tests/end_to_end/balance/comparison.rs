//! What `latency` is worth: p99 of what clients wait, against the other policies, on the same traffic and the same changes of servers, in turns.

use std::time::Duration;

use crate::balancer::Balancer;
use crate::queue::{Queue, load};
use crate::stage::{SERVERS, Stage};
use crate::{configuration, is_skipped};

const POLICIES: [&str; 3] = ["latency", "static", "watermark"];
const LOADS: [f64; 3] = [0.3, 0.5, 0.7];
/// Of a run; the first seconds are left out.
const LENGTH: Duration = Duration::from_secs(15);
const SETTLE: Duration = Duration::from_secs(3);

fn pairs() -> u64 {
    let wanted = std::env::var("FATHOM_PAIRS").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(10)
}

/// Two-sided 95 %, by degrees of freedom from 1 on.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 12] = [
        12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18,
    ];
    TABLE.get(freedom.wrapping_sub(1)).copied().unwrap_or(2.1)
}

/// The geometric mean of ratios less one, and the confidence interval of that, in percent.
fn change(ratios: &[f64]) -> [f64; 3] {
    let count = ratios.len() as f64;
    let logs: Vec<_> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / count;
    let square: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let half = student(ratios.len() - 1) * (square / (count - 1.0).max(1.0) / count).sqrt();
    [mean, mean - half, mean + half].map(|log| (log.exp() - 1.0) * 100.0)
}

/// The p99 of each policy in milliseconds, in an order that turns from pair to pair.
fn run(stage: &Stage, queues: &[Queue], balancer: &Balancer, at: f64, pair: u64) -> [f64; 3] {
    let mut p99 = [0.0; 3];
    let mut order = [0, 1, 2];
    if pair % 2 == 1 {
        order.reverse();
    }
    for policy in order {
        balancer
            .configure(&configuration(&[1, 2, 3, 4], POLICIES[policy]))
            .unwrap();
        balancer.reload().unwrap();
        for (number, queue) in (1..).zip(queues) {
            queue.begin(pair * 1000 + number, LENGTH);
        }
        let mut waits = load(stage, at, pair, SETTLE, LENGTH);
        assert_eq!(waits.failed, 0, "connections that failed");
        assert!(waits.count() > 1000, "{}", waits.count());
        p99[policy] = waits.p99().as_secs_f64() * 1e3;
    }
    p99
}

#[test]
#[ignore = "a measurement of 25 minutes: run it with --ignored --nocapture, FATHOM_PAIRS=N for another number of pairs"]
fn latency_against_the_other_policies() {
    if is_skipped() {
        return;
    }
    let stage = Stage::new().unwrap();
    let queues = (1..=SERVERS).zip(&stage.servers);
    let queues: Vec<_> = queues
        .map(|(number, namespace)| Queue::start(namespace, number).unwrap())
        .collect();
    let mut balancer = Balancer::start(
        &stage.balancer,
        "comparison",
        &configuration(&[1, 2, 3, 4], "static"),
    )
    .unwrap();
    let mut logs = Vec::new();
    for at in LOADS {
        let mut ratios = [Vec::new(), Vec::new()];
        for pair in 0..pairs() {
            let p99 = run(&stage, &queues, &balancer, at, pair);
            println!(
                "load {at}, pair {pair}: p99 {:.0} ms by latency, {:.0} by static, {:.0} by watermark",
                p99[0], p99[1], p99[2]
            );
            ratios[0].push(p99[0] / p99[1]);
            ratios[1].push(p99[0] / p99[2]);
        }
        for (ratios, name) in ratios.iter().zip(&POLICIES[1..]) {
            let [mean, least, most] = change(ratios);
            println!(
                "load {at}: p99 of latency against {name}: {mean:+.0} % ({least:+.0} to {most:+.0})"
            );
        }
        let against_static = change(&ratios[0])[0];
        assert!(against_static < 5.0, "worse at load {at}: {against_static}");
        logs.push((1.0 + against_static / 100.0).ln());
    }
    let average = (logs.iter().sum::<f64>() / 3.0).exp();
    println!(
        "over all loads, against static: {:+.0} %",
        (average - 1.0) * 100.0
    );
    assert!(average < 0.63, "{average}");
    for queue in queues {
        queue.stop().unwrap();
    }
    assert!(balancer.stop().unwrap());
}
