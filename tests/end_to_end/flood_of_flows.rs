//! A flood of flows beside loops of requests that `fathom response` must still estimate.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, UNIX_EPOCH};

use etherparse::PacketBuilder;
use fathom_lab::Namespace;
use fathom_lab::traffic::flood::{Flood, scattered};
use fathom_tests::responses::{Errors, cases, judge};

/// Each packet is of another flow, to a host that is not there.
const FLOOD: Flood = Flood {
    destination: Ipv4Addr::new(10, 77, 2, 99),
    packets: 1_000_000,
    burst: 1_000,
    pause: Duration::from_millis(10),
};

/// A packet with data from an address and a port that chance made.
fn flood_packet(number: u32) -> Vec<u8> {
    let mixed = scattered(number);
    let [first, second, third, fourth] = mixed.to_be_bytes();
    let port = 1_024 + u16::from_be_bytes([third, fourth]) % 60_000;
    let builder = PacketBuilder::ipv4([10, 78, first, second], FLOOD.destination.octets(), 64);
    let mut packet = Vec::new();
    let written = builder.tcp(port, 80, mixed, 1_000).ack(mixed);
    written.write(&mut packet, &[0; 10]).unwrap();
    packet
}

#[fathom_lab::test]
fn a_flood_of_flows_takes_no_flow_its_estimates_for_longer_than_an_epoch() {
    let mut case = cases()
        .into_iter()
        .find(|case| case.name == "k1_many")
        .unwrap();
    // As long as the flood, and a little longer.
    case.workload.duration = FLOOD.duration() + Duration::from_secs(1);
    let flood = |client: &Namespace| Ok(FLOOD.start(client, flood_packet)?);
    let (loops, finished) = case.run_beside(&[&[]], flood).unwrap();
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
