//! A flood of SYNs, of segments and QUIC packets with random tuples, and of DNS queries, beside
//! traffic that must still be measured.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use fathom_lab::traffic::flood::{Flood, scattered};
use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{LinkConfig, Tap, Topology, Way};
use fathom_tests::{
    Comparison, EVERY_PACKET, Fathom, Finished, Flow, Method, check_close, pairs, passed_by_tap,
    settle,
};

const MILLISECOND: Duration = Duration::from_millis(1);
/// A burst each pause: what the lab's links carry with room for the other traffic.
const FLOOD: Flood = Flood {
    destination: Ipv4Addr::new(10, 77, 2, 1),
    packets: 260_000,
    burst: 100,
    pause: Duration::from_micros(3_500),
};
const METHODS: [Method; 4] = [
    Method::Timestamp,
    Method::Handshake,
    Method::Echo,
    Method::Dns,
];

fn lab() -> Topology {
    Topology::builder()
        .lan(LinkConfig::symmetric(2 * MILLISECOND))
        .wan(LinkConfig::symmetric(10 * MILLISECOND))
        .build()
        .unwrap()
}

/// One packet of the flood; all that it asks for is answered by a reset or not at all, to addresses
/// that nobody has.
fn flood_packet(number: u32) -> Vec<u8> {
    let mixed = scattered(number);
    let source = [10, 77, 1, 2 + (mixed % 250) as u8];
    let port = 1_024 + (mixed >> 8) as u16 % 60_000;
    let builder = PacketBuilder::ipv4(source, FLOOD.destination.octets(), 64);
    let mut packet = Vec::new();
    match number % 8 {
        0 | 1 => builder
            .tcp(port, 81, mixed, 1_000)
            .syn()
            .write(&mut packet, &[]),
        2..=5 => builder
            .tcp(port, 81, mixed, 1_000)
            .ack(mixed)
            .write(&mut packet, &[0; 10]),
        6 => builder
            .udp(port, 443)
            .write(&mut packet, &[0x40 | (number >> 3) as u8 & 0x20; 40]),
        _ => {
            let mut query = vec![0; 12];
            query[..2].copy_from_slice(&(mixed as u16).to_be_bytes());
            query[2..6].copy_from_slice(&[1, 0, 0, 1]);
            query.extend_from_slice(b"\x05flood\x04test\x00\x00\x01\x00\x01");
            builder.udp(port, 53).write(&mut packet, &query)
        }
    }
    .unwrap();
    packet
}

/// Traffic for so long.
fn drive(lab: &Topology, lasts: Duration) {
    let server = Topology::SERVER_V4;
    let end = Instant::now() + lasts;
    let is_over = || Instant::now() >= end;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One connection from the first to the last packet of the flood.
            let client = tcp::Client {
                requests: lasts.as_millis() as u32 / 60,
                pause: 30 * MILLISECOND,
                ..tcp::Client::new((server, 8080).into())
            };
            client.run(&lab.client).unwrap();
        });
        scope.spawn(|| {
            while !is_over() {
                let one = tcp::Client {
                    requests: 2,
                    ..tcp::Client::new((server, 8080).into())
                };
                one.run(&lab.client).unwrap();
            }
        });
        scope.spawn(|| {
            while !is_over() {
                let queries = dns::Client {
                    queries: 10,
                    ..dns::Client::new((server, 53).into())
                };
                queries.run(&lab.client).unwrap();
            }
        });
        scope.spawn(|| {
            let count = lasts.as_millis() as u32 / 20;
            tools::ping(&lab.client, server, count, 20 * MILLISECOND).unwrap();
        });
    });
}

/// Flows that were reset leave the table after this time, and are not evicted then.
const CLOSED: Duration = Duration::from_secs(10);

/// Measures the traffic and gives for each method the share of pairs that have a sample, and how
/// long it took.
fn measure(has_flood: bool) -> ([f64; METHODS.len()], Finished, Duration) {
    let lab = lab();
    let _tcp = tcp::Server::start(&lab.server, (Topology::SERVER_V4, 8080).into()).unwrap();
    let address = (Topology::SERVER_V4, 53).into();
    let _dns = dns::Server::start(&lab.server, address, dns::Think::default()).unwrap();
    // The flood comes in here; where it leaves, it fills the queue that lies between the hook and
    // the tap.
    let interface = Topology::LAN_INTERFACE;
    let tap = Tap::start(&lab.router, interface).unwrap();
    let options = [&EVERY_PACKET[..], &["--flows", "65536"]].concat();
    let fathom = Fathom::start(&lab.router, &[interface], &options).unwrap();
    let begin = Instant::now();
    let flood = has_flood.then(|| FLOOD.start(&lab.client, flood_packet).unwrap());
    // As long as the flood; without one half of that tells the same.
    let lasts = FLOOD.duration();
    drive(&lab, if has_flood { lasts } else { lasts / 2 });
    if let Some(flood) = flood {
        let start = Instant::now();
        let sent = flood.join();
        let drops = lab.lan.unread_drops(Way::Forward).unwrap()
            + lab.wan.unread_drops(Way::Forward).unwrap();
        println!(
            "{sent} packets of flood, {drops} dropped before the links, {:?} longer than the traffic",
            start.elapsed()
        );
        assert!(sent >= FLOOD.packets * 9 / 10, "{sent}");
    }
    settle(&lab).unwrap();
    let finished = fathom.finish().unwrap();
    let took = begin.elapsed();
    let mut truth = pairs::all(&passed_by_tap(tap).unwrap());
    let is_legitimate = |flow: Flow| [flow.source, flow.destination].contains(&Topology::CLIENT_V4);
    truth.retain(|pair| is_legitimate(pair.flow));
    let mut samples = finished.samples();
    samples.retain(|sample| is_legitimate(sample.flow));
    let comparison = Comparison::new(&samples, &truth);
    check_close(&comparison.matches);
    let shares = METHODS.map(|method| {
        let figures = comparison.figures(method);
        println!("flood {has_flood}: {} {figures}", method.name());
        assert!(figures.samples >= 50, "{figures}");
        figures.samples as f64 / (figures.samples + figures.missed) as f64
    });
    (shares, finished, took)
}

#[fathom_lab::test]
fn legitimate_flows_keep_their_samples() {
    let (quiet, ..) = measure(false);
    let (flooded, finished, took) = measure(true);
    for ((method, quiet), flooded) in METHODS.iter().zip(quiet).zip(flooded) {
        println!(
            "{}: {:.2} % of samples without, {:.2} % with the flood",
            method.name(),
            quiet * 100.0,
            flooded * 100.0
        );
        assert!(flooded >= 0.95 * quiet, "{}", method.name());
    }
    let counts = [
        "flows opened",
        "flows evicted: table full",
        "requests displaced by newer ones",
    ];
    let [opened, evicted, displaced] = counts.map(|name| finished.count(name));
    println!("{opened} flows opened, {evicted} evicted, {displaced} requests displaced");
    assert!(displaced > 10_000, "{displaced}");
    // Each is counted once, and those that the table holds not at all: it has an eighth more slots
    // than flows. On a slow machine some have left before.
    let slots = 65_536 / 8 * 9;
    assert!(
        evicted >= opened - slots || took > CLOSED,
        "{evicted} of {opened} in {took:?}"
    );
    assert!(evicted < opened - 40_000, "{evicted} of {opened}");
}
