//! On an end host the near side, its own kernel, is left out unless asked for.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::IpAddr;
use std::time::Duration;

use fathom_lab::traffic::{dns, tcp, tools};
use fathom_lab::{LinkConfig, Topology};
use fathom_tests::{EVERY_PACKET, Fathom, Sample, quic, settle};

const MILLISECOND: Duration = Duration::from_millis(1);
const SERVERS: [IpAddr; 2] = [Topology::SERVER_V4, Topology::SERVER_V6];

/// Traffic of all kinds to both addresses of the server.
fn drive(lab: &Topology, servers: &[quic::Server; 2]) {
    for address in SERVERS {
        let client = tcp::Client {
            requests: 20,
            ..tcp::Client::new((address, 8080).into())
        };
        client.run(&lab.client).unwrap();
        tools::ping(&lab.client, address, 5, 10 * MILLISECOND).unwrap();
        tools::ping(&lab.server, client_of(address), 5, 10 * MILLISECOND).unwrap();
        dns::Client::new((address, 53).into())
            .run(&lab.client)
            .unwrap();
        let server = &servers[usize::from(address.is_ipv6())];
        server.talk(&lab.client, 500 * MILLISECOND).unwrap();
    }
    settle(lab).unwrap();
}

fn client_of(server: IpAddr) -> IpAddr {
    if server.is_ipv4() {
        Topology::CLIENT_V4
    } else {
        Topology::CLIENT_V6
    }
}

fn towards(samples: &[Sample], addresses: [IpAddr; 2]) -> Vec<&Sample> {
    let samples = samples.iter();
    samples
        .filter(|sample| addresses.contains(&sample.flow.destination))
        .collect()
}

#[fathom_lab::test]
fn end_host_measures_the_far_side_alone() {
    let lab = Topology::builder()
        .wan(LinkConfig::symmetric(5 * MILLISECOND))
        .build()
        .unwrap();
    let _servers = SERVERS.map(|address| {
        (
            tcp::Server::start(&lab.server, (address, 8080).into()).unwrap(),
            dns::Server::start(&lab.server, (address, 53).into(), dns::Think::default()).unwrap(),
        )
    });
    let quic_servers =
        SERVERS.map(|address| quic::Server::start(&lab.server, (address, 443).into()).unwrap());
    let clients = [Topology::CLIENT_V4, Topology::CLIENT_V6];
    let interfaces = [Topology::HOST_INTERFACE];
    let far = Fathom::start(&lab.server, &interfaces, &EVERY_PACKET).unwrap();
    let all = ["--sample-interval", "0", "--per-rtt", "0", "--near-side"];
    let both = Fathom::start(&lab.server, &interfaces, &all).unwrap();
    drive(&lab, &quic_servers);
    let far = far.finish().unwrap().samples();
    let both = both.finish().unwrap().samples();
    let near = towards(&far, SERVERS);
    assert!(near.is_empty(), "{near:#?}");
    for address in clients {
        let count = |samples: &[Sample]| towards(samples, [address; 2]).len();
        let (without, with) = (count(&far), count(&both));
        println!("{address}: {without} samples, {with} with --near-side");
        assert!(without >= 20);
        assert_eq!(
            without, with,
            "the far side does not depend on the near one"
        );
    }
    for address in SERVERS {
        let near = towards(&both, [address; 2]);
        println!("{address}: {} samples with --near-side", near.len());
        assert!(near.len() >= 20);
        // Only this host's own kernel and programs are on that side.
        let mut times: Vec<u64> = near.iter().map(|sample| sample.rtt_ns).collect();
        times.sort_unstable();
        assert!(times[times.len() / 2] < 5_000_000, "{times:?}");
    }
}
