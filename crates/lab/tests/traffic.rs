//! Each kind of traffic crosses the lab and takes as long as its links say.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{Direction, LinkConfig, PacketKind, Rule, Topology, Transport, Way};

const MILLISECOND: Duration = Duration::from_millis(1);
/// What scheduling may add on a busy machine.
const SLACK: Duration = Duration::from_millis(30);

/// A lab with a round trip of 10 ms.
fn lab(config: LinkConfig) -> Topology {
    Topology::builder().wan(config).build().unwrap()
}

fn ten_milliseconds() -> LinkConfig {
    LinkConfig::symmetric(5 * MILLISECOND)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[fathom_lab::test]
fn tcp_exchanges_take_a_round_trip_and_the_think_time() {
    let lab = lab(ten_milliseconds());
    lab.client.set_tcp_timestamps(false).unwrap();
    lab.client.set_congestion_control("reno").unwrap();
    for address in [Topology::SERVER_V4, Topology::SERVER_V6] {
        let address = SocketAddr::from((address, 8080));
        let _server = tcp::Server::start(&lab.server, address).unwrap();
        let client = tcp::Client {
            requests: 20,
            request_bytes: 5_000,
            response_bytes: 2_500,
            think: 7 * MILLISECOND,
            ..tcp::Client::new(address)
        };
        let exchanges = client.run(&lab.client).unwrap();
        assert_eq!(exchanges.len(), 20);
        let complete = median(exchanges.iter().map(|exchange| exchange.complete).collect());
        assert!(complete >= 17 * MILLISECOND, "{complete:?}");
        assert!(complete < 17 * MILLISECOND + SLACK, "{complete:?}");
    }
    let has_timestamps = lab.wan.truth().iter().any(|packet| {
        matches!(
            packet.header.map(|header| header.transport),
            Some(Transport::Tcp {
                timestamps: Some(_),
                ..
            })
        )
    });
    assert!(!has_timestamps);
}

#[fathom_lab::test]
fn lost_syn_is_sent_again() {
    let forward = Direction::default().rule(Rule::nth(1, PacketKind::Syn).drop());
    let lab = lab(LinkConfig {
        forward,
        ..LinkConfig::default()
    });
    let address = SocketAddr::from((Topology::SERVER_V4, 8080));
    let _server = tcp::Server::start(&lab.server, address).unwrap();
    let client = tcp::Client {
        requests: 1,
        ..tcp::Client::new(address)
    };
    assert_eq!(client.run(&lab.client).unwrap().len(), 1);
    assert_eq!(lab.wan.totals(Way::Forward).rule_dropped, 1);
}

#[fathom_lab::test]
fn dns_exchanges_over_udp_and_tcp() {
    let config = LinkConfig {
        forward: Direction::delayed(5 * MILLISECOND)
            .rule(Rule::nth(3, PacketKind::Udp).on_port(53).drop()),
        backward: Direction::delayed(5 * MILLISECOND),
        seed: 0,
    };
    let lab = lab(config);
    let address = SocketAddr::from((Topology::SERVER_V6, 53));
    let think = dns::Think::constant(4 * MILLISECOND);
    let _server = dns::Server::start(&lab.server, address, think).unwrap();
    for is_tcp in [false, true] {
        let client = dns::Client {
            queries: 10,
            is_tcp,
            ..dns::Client::new(address)
        };
        let exchanges = client.run(&lab.client).unwrap();
        let latencies: Vec<Duration> = exchanges
            .iter()
            .filter_map(|exchange| exchange.latency)
            .collect();
        assert_eq!(latencies.len(), 10);
        let latency = median(latencies);
        assert!(latency >= 14 * MILLISECOND, "{latency:?}");
        assert!(latency < 14 * MILLISECOND + SLACK, "{latency:?}");
        if !is_tcp {
            assert_eq!(exchanges[2].attempts, 2);
        }
    }
    let answer = tools::dig(&lab.client, address, "name.lab.test", false).unwrap();
    assert!(answer.contains("192.0.2.1"), "{answer}");
}

#[fathom_lab::test]
fn tools_cross_the_lab() {
    let lab = lab(ten_milliseconds());
    let any: IpAddr = Topology::SERVER_V6;
    let times = tools::ping(&lab.client, any, 5, 20 * MILLISECOND).unwrap();
    assert_eq!(times.len(), 5);
    assert!(median(times) >= 10 * MILLISECOND);

    let port = 5201;
    let _server = tools::iperf3_server(&lab.server, port).unwrap();
    let server = SocketAddr::from((Topology::SERVER_V4, port));
    let client = tools::iperf3_client(&lab.client, server, 1, &["--bitrate", "5M"]).unwrap();
    let output = client.output(Duration::from_secs(15)).unwrap();
    assert!(output.status.success());
    assert!(lab.wan.totals(Way::Forward).delivered > 300);

    let address = SocketAddr::from((Topology::SERVER_V4, 53));
    let _resolver = tools::dnsmasq(&lab.server, address, []).unwrap();
    for is_tcp in [false, true] {
        let answer = tools::dig(&lab.client, address, "name.lab.test", is_tcp).unwrap();
        assert!(answer.contains("192.0.2.1"), "{answer}");
    }
}
