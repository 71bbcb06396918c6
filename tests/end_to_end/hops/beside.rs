//! Probing changes no figure of another: a router on the path measures the application's packets,
//! and nothing of the probes between them.

use std::collections::BTreeMap;

use fathom_lab::traffic::tools;
use fathom_lab::{Chain, Family, Passed, Tap, TcpFlags, Transport, wait_until};
use fathom_tests::{Fathom, FlowEvent, Method, Record};

use crate::stage::{Application, MILLISECOND, PATIENCE, beside_others, chain, wait_for_answers};

const TCP: u8 = 6;
/// What is sent to be answered by a router has this TTL at most; the hosts of the lab start at 64.
const TTL_OF_PROBES: u8 = 32;
const PINGS: u32 = 200;

/// How a connection ended, by the port of the client.
fn closings(records: &[Record]) -> BTreeMap<u16, FlowEvent> {
    let closings = records.iter().filter_map(|record| match record {
        Record::FlowEvent(change) if change.event == "close" => {
            Some((change.flow.source_port, change.clone()))
        }
        _ => None,
    });
    closings.collect()
}

/// What the client and the server sent in the connection of a port of the client until it closed,
/// but for probes.
fn packets(passed: &[Passed], port: u16) -> [u64; 2] {
    let (mut counts, mut has_finished) = ([0; 2], [false; 2]);
    for Passed { header, .. } in passed {
        let Transport::Tcp { flags, .. } = header.transport else {
            continue;
        };
        let is_own = header.source_port == port || header.destination_port == port;
        if !is_own || header.hop_limit <= TTL_OF_PROBES {
            continue;
        }
        let way = usize::from(header.destination_port == port);
        counts[way] += 1;
        has_finished[way] |= flags.intersects(TcpFlags::FIN);
        if has_finished == [true; 2] || flags.intersects(TcpFlags::RST) {
            break;
        }
    }
    counts
}

#[test]
fn the_first_router_measures_what_it_would_without_probes() {
    let _turn = beside_others();
    let chain = chain(3, |_| 2 * MILLISECOND).build().unwrap();
    let router = &chain.routers[0];
    let interface = Chain::interface(1);
    let tap = Tap::start(router, &interface).unwrap();
    let every = ["--sample-interval", "0", "--per-rtt", "0", "--events"];
    let rtt = Fathom::start(router, &[&interface], &every).unwrap();
    let hops = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &["--rate", "50"]).unwrap();

    let applications = Family::BOTH.map(|family| Application::tcp(&chain, family, 100));
    let server = chain.server_address(Family::V4);
    let pings = tools::ping(&chain.client, server, PINGS, 10 * MILLISECOND).unwrap();
    for protocol in [1, TCP] {
        wait_for_answers(&hops, 100, |probe| probe.flow.protocol == protocol);
    }
    let ports = applications.each_ref().map(|application| application.port);
    drop(applications);
    wait_until(PATIENCE, "connections to close", || {
        let closed = closings(&rtt.records_after(0));
        ports.iter().all(|port| closed.contains_key(port))
    })
    .unwrap();
    hops.finish().unwrap();
    let finished = rtt.finish().unwrap();
    let passed = tap.finish().unwrap();

    let closed = closings(&finished.records);
    for port in ports {
        let change = &closed[&port];
        // The first two packets of the handshake make no flow.
        let counted = [change.packets + 1, change.reverse_packets + 1];
        assert_eq!(counted, packets(&passed, port), "{change:?}");
    }
    let samples = finished.samples();
    let of = |method| {
        samples
            .iter()
            .filter(|sample| sample.method == method)
            .count()
    };
    assert_eq!(of(Method::Sequence), 0, "these connections have timestamps");
    assert_eq!(of(Method::Handshake), 4);
    assert_eq!(of(Method::Echo), pings.len());
    assert!(of(Method::Timestamp) > 100);
    let left_out = finished.count("segments without timestamps in a connection that has them")
        + finished.count("segments with a TTL far below their connection's");
    assert!(left_out >= 100, "probes passed: {:?}", finished.errors);
    assert!(finished.count("echo with a wrong checksum") >= 100);
    println!("{} samples beside {left_out} probes of TCP", samples.len());
}
