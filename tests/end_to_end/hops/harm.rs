//! Probing harms nobody: not the receiver, not the sender.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use fathom_lab::traffic::tools;
use fathom_lab::{Chain, ChainBuilder, Family, Namespace, Tap, wait_until};
use fathom_tests::{Fathom, ProbeOutcome};

use crate::stage::{
    Application, MILLISECOND, PATIENCE, alone, beside_others, chain, wait_for_answers,
};

const FASTEST: [&str; 2] = ["--rate", "100"];

#[fathom_lab::test]
fn a_udp_receiver_gets_what_was_sent_to_it_and_no_probe() {
    let _turn = beside_others();
    // Without answers nothing tells where the path ends but its end; with them no probe goes there.
    for (routers, answers) in [(1, false), (3, false), (3, true)] {
        let chain = chain(routers, |_| MILLISECOND / 2).build().unwrap();
        let tap = Tap::start(&chain.server, Chain::HOST_INTERFACE).unwrap();
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &FASTEST).unwrap();
        let applications = Family::BOTH.map(|family| Application::udp(&chain, family, answers));
        wait_for_answers(&fathom, 500, |probe| {
            usize::from(probe.ttl) == routers && probe.flow.protocol == 17
        });
        for application in &applications {
            application.talk(false);
            wait_until(PATIENCE, "what was sent to arrive", || {
                let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
                count(&application.received) >= count(&application.sent)
            })
            .unwrap();
        }
        let finished = fathom.finish().unwrap();
        for application in &applications {
            assert_eq!(
                application.received.load(Ordering::Relaxed),
                application.sent.load(Ordering::Relaxed)
            );
        }
        let arrived = tap.finish().unwrap();
        let arrived = arrived
            .iter()
            .filter(|packet| !packet.is_outgoing && packet.header.protocol == 17)
            .filter(|packet| packet.header.payload_length != 100);
        let arrived = arrived.count();
        println!(
            "{routers} routers: {arrived} of {} probes got as far as the receiver, none to its application",
            finished.probes().len()
        );
        assert_eq!(arrived > 0, !answers, "probes that are there to do harm");
    }
}

/// What the stack of a namespace counted so far.
pub(crate) fn counters(namespace: &Namespace) -> BTreeMap<String, i64> {
    let text = namespace
        .run("nstat --zeros --noupdate --reset --json")
        .unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let counts = report["kernel"].as_object().unwrap().iter();
    counts
        .map(|(name, count)| (name.clone(), count.as_i64().unwrap_or_default()))
        .collect()
}

/// What probes could make a stack count, if they were not what they are: acknowledgements out of
/// place, and what follows from these.
const HARM: [&str; 14] = [
    "TcpInErrs",
    "TcpOutRsts",
    "TcpExtTCPACKSkippedSeq",
    "TcpExtTCPACKSkippedPAWS",
    "TcpExtTCPACKSkippedChallenge",
    "TcpExtTCPChallengeACK",
    "TcpExtTCPSYNChallenge",
    "TcpExtTCPOFOQueue",
    "TcpExtPAWSEstab",
    "TcpExtTCPSackRecovery",
    "TcpExtTCPRenoRecovery",
    "TcpExtTCPFastRetrans",
    "TcpExtTCPDSACKOfoSent",
    "TcpExtTCPDSACKOfoRecv",
];

/// Neither of two hosts counted what probes could have made it count.
pub(crate) fn assert_unharmed(hosts: [&Namespace; 2], before: [BTreeMap<String, i64>; 2]) {
    let counted: Vec<_> = hosts
        .into_iter()
        .zip(before)
        .map(|(host, before)| {
            let after = counters(host);
            move |name: &str| after[name] - before[name]
        })
        .collect();
    for (near, far) in [(0, 1), (1, 0)] {
        let (near, far) = (&counted[near], &counted[far]);
        for name in HARM {
            assert_eq!(near(name), 0, "{name}");
        }
        // A timer that a busy machine was late for: what it sends again is received twice, with
        // probes or without.
        let again = far("TcpRetransSegs");
        assert!(again <= far("TcpExtTCPLossProbes") + far("TcpExtTCPTimeouts"));
        assert!(near("TcpExtTCPDSACKOldSent") <= again);
    }
}

/// How many probes a host got that a tap saw, by their TTL.
fn probes_arrived(tap: Tap) -> usize {
    let passed = tap.finish().unwrap();
    passed
        .iter()
        .filter(|packet| !packet.is_outgoing && packet.header.hop_limit < 20)
        .count()
}

#[fathom_lab::test]
fn probes_that_reach_a_tcp_receiver_change_none_of_its_counters() {
    let _turn = alone();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let hosts = [&chain.client, &chain.server];
    let before = hosts.map(counters);
    let tap = Tap::start(&chain.server, Chain::HOST_INTERFACE).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &FASTEST).unwrap();
    // Each new one is explored beyond its end.
    // They go on until all is counted, as what a closed socket gets is answered by a reset.
    let mut all = Vec::new();
    for size in [100, 1000, 4000] {
        let flows: Vec<_> = Family::BOTH
            .into_iter()
            .flat_map(|family| [(); 5].map(|()| Application::tcp(&chain, family, size)))
            .collect();
        for flow in &flows {
            wait_for_answers(&fathom, 20, |probe| probe.flow.source_port == flow.port);
            flow.talk(false);
        }
        all.extend(flows);
    }
    fathom.finish().unwrap();
    let arrived = probes_arrived(tap);
    println!("{arrived} probes reached the receiver");
    assert!(arrived >= 100, "{arrived}");
    assert_unharmed(hosts, before);
}

#[fathom_lab::test]
fn probes_that_reach_a_receiver_that_sends_nothing_are_not_answered() {
    let _turn = alone();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let hosts = [&chain.client, &chain.server];
    for family in Family::BOTH {
        let before = hosts.map(counters);
        let tap = Tap::start(&chain.server, Chain::HOST_INTERFACE).unwrap();
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &FASTEST).unwrap();
        let _server = tools::iperf3_server(&chain.server, 5201).unwrap();
        let server = (chain.server_address(family), 5201).into();
        let client = tools::iperf3_client(&chain.client, server, 2, &["--bitrate", "2M"]).unwrap();
        client.output(PATIENCE).unwrap();
        fathom.finish().unwrap();
        let arrived = probes_arrived(tap);
        println!("{arrived} probes reached the receiver");
        assert!(arrived >= 10, "{arrived}");
        assert_unharmed(hosts, before);
    }
}

#[test]
fn probes_that_reach_a_sender_are_no_duplicate_acknowledgements() {
    let _turn = alone();
    // Three duplicate acknowledgements have a sender without SACK retransmit, and halve its rate.
    for has_timestamps in [true, false] {
        let chain = chain(1, |_| 2 * MILLISECOND).build().unwrap();
        for host in [&chain.client, &chain.server] {
            host.set("net/ipv4/tcp_sack", "0").unwrap();
            host.set_tcp_timestamps(has_timestamps).unwrap();
        }
        let before = counters(&chain.server);
        let tap = Tap::start(&chain.server, Chain::HOST_INTERFACE).unwrap();
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &FASTEST).unwrap();
        // Half of its window is always on the way.
        let _server = tools::iperf3_server(&chain.server, 5201).unwrap();
        let server = (chain.server_address(Family::V4), 5201).into();
        let options = ["--reverse", "--bitrate", "20M"];
        let client = tools::iperf3_client(&chain.client, server, 4, &options).unwrap();
        client.output(PATIENCE).unwrap();
        fathom.finish().unwrap();
        let arrived = probes_arrived(tap);
        let after = counters(&chain.server);
        let counted = |name: &str| after[name] - before[name];
        println!(
            "{arrived} probes reached the sender: {} recoveries",
            counted("TcpExtTCPRenoRecovery")
        );
        assert!(arrived >= 20, "{arrived}");
        assert_eq!(counted("TcpExtTCPRenoRecovery"), 0);
        assert_eq!(counted("TcpExtTCPFastRetrans"), 0);
    }
}

/// Bits a second that a bulk flow gets through.
fn throughput(chain: &Chain, port: u16) -> f64 {
    let _server = tools::iperf3_server(&chain.server, port).unwrap();
    let server = (chain.server_address(Family::V4), port).into();
    let client = tools::iperf3_client(&chain.client, server, 2, &["--omit", "1"]).unwrap();
    let output = client.output(PATIENCE).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .unwrap_or_else(|| panic!("{report:#}"))
}

#[fathom_lab::test]
fn a_local_shaper_lets_as_much_through_with_probes() {
    let _turn = alone();
    // At 40 probes a second to each of eight hops there is one every 3 ms, and they take 0.3 % of
    // the rate themselves; the benchmark has one every millisecond.
    let options = ["--rate", "40"];
    let plain = |builder: ChainBuilder, link| builder.plain(link);
    let chain = (1..=9).fold(Chain::builder(8), plain).build().unwrap();
    chain
        .client
        .run("tc qdisc add dev eth0 root tbf rate 50mbit burst 64kb limit 8mb")
        .unwrap();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..3 {
        without.push(throughput(&chain, 5300 + round));
        let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &options).unwrap();
        with.push(throughput(&chain, 5400 + round));
        let finished = fathom.finish().unwrap();
        let probes = finished.probes();
        let answered = probes
            .iter()
            .filter(|probe| probe.outcome == ProbeOutcome::Answered);
        assert!(answered.count() >= 600, "{}", finished.errors);
    }
    // What else runs on the machine only makes it less.
    let [without, with] = [without, with].map(|runs| runs.into_iter().fold(0.0, f64::max));
    println!(
        "{:.2} Mbit/s without probes, {:.2} with",
        without / 1e6,
        with / 1e6
    );
    assert!(with >= 0.99 * without);
}
