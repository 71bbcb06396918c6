//! Answers find their probes among those of other flows and of other tools.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fathom_lab::traffic::probe;
use fathom_lab::{Chain, Family, Tap, Transport};
use fathom_tests::{Fathom, ProbeOutcome};

use crate::stage::{Application, MILLISECOND, SECOND, beside_others, chain, wait_for_answers};

const ROUTERS: usize = 4;
const FLOWS: usize = 5;

/// Where traceroutes go.
const FOREIGN_PORT: u16 = 33_434;

#[fathom_lab::test]
fn ten_flows_and_a_traceroute_do_not_take_each_others_answers() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |link| MILLISECOND * link).build().unwrap();
    let tap = Tap::start(&chain.client, Chain::HOST_INTERFACE).unwrap();
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &["--rate", "30"]).unwrap();
    let flows = Family::BOTH.map(|family| {
        [(); FLOWS].map(|()| {
            [
                Application::tcp(&chain, family, 100),
                Application::udp(&chain, family, true),
            ]
        })
    });
    let is_probed = |flow: &fathom_tests::Flow| flow.destination_port != FOREIGN_PORT;
    for family in Family::BOTH {
        let server = chain.server_address(family);
        for _round in 0..20 {
            let foreign = probe::Prober::new(&chain.client, server, 0).unwrap();
            for hop in 1..=ROUTERS + 1 {
                let answer = foreign.probe(hop as u8, 3 * SECOND).unwrap();
                let answer = answer.unwrap_or_else(|| panic!("{family:?} hop {hop} is silent"));
                assert_eq!(answer.responder, chain.responder(hop, family));
            }
        }
        let report = chain
            .client
            .run(&format!("mtr -n -r -c 5 -i 0.2 -G 1 {server}"))
            .unwrap();
        for hop in 1..=ROUTERS + 1 {
            let responder = chain.responder(hop, family).to_string();
            let line = report
                .lines()
                .find(|line| line.contains(&format!("{responder} ")));
            assert!(line.is_some_and(|line| line.contains(" 0.0%")), "{report}");
        }
    }
    for ttl in 1..=ROUTERS as u8 {
        wait_for_answers(&fathom, 4 * FLOWS * 20, |probe| {
            probe.ttl == ttl && is_probed(&probe.flow)
        });
    }
    drop(flows);
    let finished = fathom.finish().unwrap();
    println!("{}", finished.errors);
    let passed = tap.finish().unwrap();
    let mut answers = BTreeMap::<_, u64>::new();
    for probe in finished.probes() {
        if probe.outcome != ProbeOutcome::Answered {
            continue;
        }
        let family = Family::BOTH[usize::from(probe.flow.source.is_ipv6())];
        let responder = chain.responder(probe.ttl.into(), family);
        assert_eq!(probe.responder, Some(responder), "{probe:?}");
        let flow = &probe.flow;
        if is_probed(flow) && flow.protocol != 1 && flow.protocol != 58 {
            *answers
                .entry((flow.protocol, flow.source_port, responder))
                .or_default() += 1;
        }
    }
    let servers = Family::BOTH.map(|family| chain.server_address(family));
    let is_server = |address: IpAddr| servers.contains(&address);
    let mut truth = BTreeMap::<_, u64>::new();
    for packet in passed.iter().filter(|packet| !packet.is_outgoing) {
        let Transport::IcmpError {
            quote: Some(quote), ..
        } = packet.header.transport
        else {
            continue;
        };
        // What arrived after a socket was closed was the application's own.
        if is_server(packet.header.source) {
            continue;
        }
        // Echo requests are mtr's.
        if quote.destination_port != FOREIGN_PORT && matches!(quote.protocol, 6 | 17) {
            *truth
                .entry((quote.protocol, quote.source_port, packet.header.source))
                .or_default() += 1;
        }
    }
    let told: u64 = answers.values().sum();
    println!(
        "{told} answers of {} flows, each told of once",
        answers.len()
    );
    for (key, told) in &answers {
        assert!(
            truth.contains_key(key),
            "{key:?}: {told} answers that nobody sent"
        );
    }
    for (key, count) in truth {
        let told = answers.get(&key).copied().unwrap_or_default();
        // The last may have come after the end.
        assert!(
            told <= count && told + 2 >= count,
            "{key:?}: {told} of {count}"
        );
    }
}
