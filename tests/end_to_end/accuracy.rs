//! Every sample of every method, over IPv4 and IPv6, against the truth of its own two packets.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::IpAddr;
use std::time::Duration;

use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{LinkConfig, Tap, Topology};
use fathom_tests::{
    Comparison, Fathom, Finished, Method, Pair, Passing, check_close, pairs, passed_by_tap, quic,
    settle,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const SERVERS: [IpAddr; 2] = [Topology::SERVER_V4, Topology::SERVER_V6];
/// All packets, also towards the router's own addresses.
const EVERYTHING: [&str; 5] = ["--sample-interval", "0", "--per-rtt", "0", "--near-side"];

/// A lab with delays of 5 ms to the client and 20 ms to the server.
fn lab() -> Topology {
    Topology::builder()
        .lan(LinkConfig::symmetric(5 * MILLISECOND))
        .wan(LinkConfig::symmetric(20 * MILLISECOND))
        .build()
        .unwrap()
}

/// Runs `traffic` to each server at once under the eyes of a `fathom` on `wan0`; what it printed,
/// and what really passed.
fn measure(lab: &Topology, traffic: impl Fn(IpAddr) + Sync) -> (Finished, Vec<Passing>) {
    let tap = Tap::start(&lab.router, Topology::WAN_INTERFACE).unwrap();
    let fathom = Fathom::start(&lab.router, &[Topology::WAN_INTERFACE], &EVERYTHING).unwrap();
    std::thread::scope(|scope| {
        for server in SERVERS {
            let traffic = &traffic;
            scope.spawn(move || traffic(server));
        }
    });
    settle(lab).unwrap();
    let finished = fathom.finish().unwrap();
    (finished, passed_by_tap(tap).unwrap())
}

/// Checks the samples of `method` and that there is one for nearly each pair of both families and
/// towards both ends.
fn check(lab: &Topology, finished: &Finished, method: Method, truth: &[Pair]) {
    let mut samples = finished.samples();
    samples.retain(|sample| sample.method == method);
    let comparison = Comparison::new(&samples, truth);
    assert!(
        comparison.unexplained.is_empty(),
        "samples without packets: {:#?}",
        comparison.unexplained
    );
    let is_answered_by_client = !matches!(method, Method::Echo | Method::Dns);
    for server in SERVERS {
        for is_towards_server in [true, false] {
            if !is_towards_server && !is_answered_by_client {
                continue;
            }
            let figures = comparison.figures_of(|pair| {
                let (near, far) = (pair.flow.source, pair.flow.destination);
                if is_towards_server {
                    far == server
                } else {
                    near == server
                }
            });
            let family = if server.is_ipv4() { "IPv4" } else { "IPv6" };
            let side = if is_towards_server {
                "server"
            } else {
                "client"
            };
            println!("{} {family} towards the {side}: {figures}", method.name());
            assert!(figures.samples >= 10, "{figures}");
            assert!(figures.is_accurate(), "{figures}");
            // An edge of the spin bit that comes late makes the next one too early to be believed.
            let most = if method == Method::Spin { 3 } else { 1 };
            assert!(
                figures.missed * 100 <= most * figures.samples,
                "{figures}, missed: {:?}",
                comparison.missed
            );
        }
    }
    check_close(&comparison.matches);
    let bytes_unread = [fathom_lab::Way::Forward, fathom_lab::Way::Backward]
        .map(|way| lab.wan.unread_drops(way).unwrap());
    assert_eq!(bytes_unread, [0, 0], "the lab lost packets unseen");
}

/// Several connections at once, each with several requests of a few segments.
fn exchange_over_tcp(lab: &Topology, server: IpAddr) {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let client = tcp::Client {
                    requests: 40,
                    request_bytes: 5_000,
                    response_bytes: 6_000,
                    pause: 7 * MILLISECOND,
                    ..tcp::Client::new((server, 8080).into())
                };
                client.run(&lab.client).unwrap();
            });
        }
    });
}

fn tcp_servers(lab: &Topology) -> [tcp::Server; 2] {
    SERVERS.map(|address| tcp::Server::start(&lab.server, (address, 8080).into()).unwrap())
}

#[fathom_lab::test]
fn timestamp() {
    let lab = lab();
    let _servers = tcp_servers(&lab);
    let (finished, passed) = measure(&lab, |server| exchange_over_tcp(&lab, server));
    let truth = pairs::timestamp(&passed);
    check(&lab, &finished, Method::Timestamp, &truth);
}

#[fathom_lab::test]
fn sequence() {
    let lab = lab();
    lab.client.set_tcp_timestamps(false).unwrap();
    lab.server.set_tcp_timestamps(false).unwrap();
    let _servers = tcp_servers(&lab);
    let (finished, passed) = measure(&lab, |server| exchange_over_tcp(&lab, server));
    let truth = pairs::sequence(&passed);
    check(&lab, &finished, Method::Sequence, &truth);
}

#[fathom_lab::test]
fn tcp_handshake() {
    let lab = lab();
    let _servers = tcp_servers(&lab);
    let (finished, passed) = measure(&lab, |server| {
        let client = tcp::Client {
            requests: 1,
            ..tcp::Client::new((server, 8080).into())
        };
        for _ in 0..30 {
            client.run(&lab.client).unwrap();
        }
    });
    let truth = pairs::handshake(&passed);
    check(&lab, &finished, Method::Handshake, &truth);
}

#[fathom_lab::test]
fn echo() {
    let lab = lab();
    let (finished, passed) = measure(&lab, |server| {
        let times = tools::ping(&lab.client, server, 150, 10 * MILLISECOND).unwrap();
        assert_eq!(times.len(), 150);
    });
    let truth = pairs::echo(&passed);
    check(&lab, &finished, Method::Echo, &truth);
}

fn quic_servers(lab: &Topology) -> [quic::Server; 2] {
    SERVERS.map(|address| quic::Server::start(&lab.server, (address, 443).into()).unwrap())
}

#[fathom_lab::test]
fn spin() {
    let lab = lab();
    let servers = quic_servers(&lab);
    let (finished, passed) = measure(&lab, |server| {
        let server = &servers[usize::from(server.is_ipv6())];
        let answers = server.talk(&lab.client, 5_000 * MILLISECOND).unwrap();
        assert!(answers > 1_000, "{answers}");
    });
    let mut truth = pairs::spin(&passed);
    // Once a round trip of 50 ms, and of what either side waits for its next packet, in either
    // direction of either family.
    assert!((280..=400).contains(&truth.len()), "{}", truth.len());
    // The first edges of a connection are not believed yet.
    truth.sort_by_key(|pair| pair.answer_ns);
    let start_ns = truth[0].answer_ns + 400_000_000;
    let (early, late): (Vec<_>, Vec<_>) = truth.iter().partition(|pair| pair.answer_ns < start_ns);
    println!(
        "{} edges of the first 400 ms of {}",
        early.len(),
        truth.len()
    );
    let mut finished = finished;
    finished.records.retain(|record| match record {
        fathom_tests::Record::Sample(sample) => sample.time_ns >= start_ns + 1_000_000,
        _ => true,
    });
    check(&lab, &finished, Method::Spin, &late);
}

#[fathom_lab::test]
fn quic_handshake() {
    let lab = lab();
    let servers = quic_servers(&lab);
    let (finished, passed) = measure(&lab, |server| {
        let server = &servers[usize::from(server.is_ipv6())];
        for _ in 0..20 {
            server.talk(&lab.client, 50 * MILLISECOND).unwrap();
        }
    });
    let truth = pairs::quic_handshake(&passed);
    check(&lab, &finished, Method::Handshake, &truth);
}

fn dns_over(is_tcp: bool) {
    let lab = lab();
    let think = dns::Think {
        minimum: MILLISECOND,
        maximum: 10 * MILLISECOND,
    };
    let _servers = SERVERS
        .map(|address| dns::Server::start(&lab.server, (address, 53).into(), think).unwrap());
    let (finished, passed) = measure(&lab, |server| {
        let client = dns::Client {
            queries: 60,
            is_tcp,
            ..dns::Client::new((server, 53).into())
        };
        let exchanges = client.run(&lab.client).unwrap();
        assert!(exchanges.iter().all(|exchange| exchange.attempts == 1));
    });
    let truth = pairs::dns(&passed);
    check(&lab, &finished, Method::Dns, &truth);
}

#[fathom_lab::test]
fn dns_over_udp() {
    dns_over(false);
}

#[fathom_lab::test]
fn dns_over_tcp() {
    dns_over(true);
}
