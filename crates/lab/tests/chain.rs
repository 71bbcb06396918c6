//! Chains of routers answer, delay, spread and turn as they were told.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use fathom_lab::traffic::probe::Prober;
use fathom_lab::{
    Chain, Direction, Error, Family, Layer, Link, LinkConfig, PacketFate, Quote, Transport, Way,
    stolen_time, wait_until,
};

use common::alone;

const MILLISECOND: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// Who answers at each hop until the server does.
fn trace(chain: &Chain, family: Family) -> Vec<IpAddr> {
    let prober = Prober::new(&chain.client, chain.server_address(family), 0).unwrap();
    let mut responders = Vec::new();
    for hop in 1..=16 {
        let answer = prober.probe(hop, PATIENCE).unwrap();
        let answer = answer.unwrap_or_else(|| panic!("hop {hop} is silent after {responders:?}"));
        responders.push(answer.responder);
        if answer.has_arrived {
            break;
        }
    }
    responders
}

/// From when to when each packet in `way` was under way.
fn delivered(truth: &[PacketFate], way: Way) -> impl Iterator<Item = Range<u64>> {
    let of_way = truth.iter().filter(move |packet| packet.way == way);
    of_way.filter_map(|packet| Some(packet.read_ns..packet.written_ns?))
}

fn delays_ns(truth: &[PacketFate], way: Way) -> Vec<u64> {
    let delivered = delivered(truth, way);
    delivered
        .map(|under_way| under_way.end - under_way.start)
        .collect()
}

#[fathom_lab::test]
fn every_hop_answers_and_every_link_delays() {
    let _turn = alone();
    let mut builder = Chain::builder(8);
    for number in 1..=9 {
        let delay = MILLISECOND * number as u32;
        let config = LinkConfig {
            forward: Direction::delayed(delay),
            backward: Direction::delayed(delay / 2),
            seed: 0,
        };
        builder = builder.link(number, config);
    }
    let chain = builder.build().unwrap();
    for family in Family::BOTH {
        assert_eq!(trace(&chain, family), chain.path(0, family));
        assert_eq!(chain.responder(9, family), chain.server_address(family));
        let prober = Prober::new(&chain.client, chain.server_address(family), 0).unwrap();
        let mut least = Duration::ZERO;
        for hop in 1..=9_u8 {
            least += MILLISECOND * u32::from(hop) * 3 / 2;
            let answer = prober.probe(hop, PATIENCE).unwrap().unwrap();
            assert!(answer.round_trip >= least, "hop {hop}: {answer:?}");
        }
    }
    for (number, link) in (1..).zip(chain.links()) {
        let truth = link.truth();
        for (way, configured_ns) in [
            (Way::Forward, number * 1_000_000),
            (Way::Backward, number * 500_000),
        ] {
            let delays_ns = delays_ns(&truth, way);
            // Every probe that lives long enough to enter the link, and its answer.
            assert_eq!(delays_ns.len() as u64, 4 * (10 - number));
            assert!(delays_ns.iter().all(|delay_ns| *delay_ns >= configured_ns));
        }
    }
}

/// The first link's record alone tells the round trip of each probe to each hop, by what the
/// answers quote.
#[fathom_lab::test]
fn answers_name_their_probes_in_the_truth() {
    let _turn = alone();
    let delayed = LinkConfig::symmetric(3 * MILLISECOND);
    let chain = Chain::builder(3).link(2, delayed).build().unwrap();
    for family in Family::BOTH {
        let before = chain.link(1).truth();
        trace(&chain, family);
        // A packet may have arrived before the link has noted that it was written.
        wait_until(PATIENCE, "the link's notes", || {
            let truth = chain.link(1).truth();
            truth.iter().all(|fate| fate.written_ns.is_some())
        })
        .unwrap();
        let truth = chain.link(1).truth();
        let fates = truth.iter().filter(|fate| !before.contains(fate));
        let headers: Vec<_> = fates.map(|fate| (fate, fate.header.unwrap())).collect();
        let is_v6 = family == Family::V6;
        for hop in 1..=4 {
            let (sent, probe) = headers
                .iter()
                .find(|(fate, header)| fate.way == Way::Forward && header.hop_limit == hop)
                .unwrap();
            let is_answer = |quote: Quote| {
                (
                    quote.source_port,
                    quote.destination_port,
                    quote.identification,
                ) == (
                    probe.source_port,
                    probe.destination_port,
                    probe.identification,
                )
            };
            let answers: Vec<_> = headers
                .iter()
                .filter(|(fate, header)| {
                    let Transport::IcmpError { kind, quote, .. } = header.transport else {
                        return false;
                    };
                    let expected = match (hop, is_v6) {
                        (4, false) => 3,
                        (4, true) => 1,
                        (_, false) => 11,
                        (_, true) => 3,
                    };
                    fate.way == Way::Backward
                        && kind == expected
                        && header.source == chain.responder(hop.into(), family)
                        && is_answer(quote.unwrap())
                })
                .collect();
            let [(came, _)] = answers[..] else {
                panic!("{family:?} hop {hop}: {answers:?}");
            };
            let round_trip_ns = came.written_ns.unwrap() - sent.read_ns;
            assert!(hop == 1 || round_trip_ns >= 6_000_000, "hop {hop}");
        }
    }
}

#[fathom_lab::test]
fn veth_and_ethernet_links_answer_alike() {
    let _turn = alone();
    let chain = Chain::builder(3)
        .layer(Layer::Ethernet)
        .plain(2)
        .plain(4)
        .build()
        .unwrap();
    for family in Family::BOTH {
        assert_eq!(trace(&chain, family), chain.path(0, family));
    }
    assert_eq!(chain.links().count(), 2);
    // Neighbours are known: what passes are the four probes and their answers.
    assert_eq!(chain.link(1).truth().len(), 16);
}

/// A tool that knows nothing of the lab sees the same routers.
#[fathom_lab::test]
fn mtr_finds_the_routers() {
    let _turn = alone();
    let chain = Chain::builder(3).build().unwrap();
    for family in Family::BOTH {
        for protocol in ["", "--udp", "--tcp"] {
            let server = chain.server_address(family);
            let listener = SocketAddr::new(server, 80);
            let _listener = chain.server.enter(|| TcpListener::bind(listener)).unwrap();
            let command = format!("mtr {protocol} -n -c 2 -i 0.2 -G 1 --csv {server}");
            let report = match chain.client.run(&command) {
                Ok(report) => report,
                Err(error @ Error::Start { .. }) => {
                    println!("skipped: {error}");
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            for responder in chain.path(0, family) {
                let line = format!(",{responder},");
                assert!(report.contains(&line), "no {responder}: {report}");
            }
        }
    }
}

#[fathom_lab::test]
fn impossible_chains_are_refused() {
    let builders = [
        Chain::builder(0),
        Chain::builder(9),
        Chain::builder(2).link(4, LinkConfig::default()),
        Chain::builder(2).plain(0),
        Chain::builder(2).branch(1, [LinkConfig::default()]),
        Chain::builder(3).branch(2, []),
    ];
    for builder in builders {
        assert!(matches!(builder.build(), Err(Error::Arrangement { .. })));
    }
}

#[fathom_lab::test]
fn only_the_limited_router_falls_silent() {
    let _turn = alone();
    let chain = Chain::builder(3).build().unwrap();
    chain.limit_icmp(1).unwrap();
    chain.limit_icmp(2).unwrap();
    for family in Family::BOTH {
        let prober = Prober::new(&chain.client, chain.server_address(family), 0).unwrap();
        let start = Instant::now();
        let mut answered = [0; 3];
        let patience = [20 * MILLISECOND, 20 * MILLISECOND, PATIENCE];
        for _ in 0..20 {
            for ((hop, patience), count) in (1..).zip(patience).zip(&mut answered) {
                *count += u64::from(prober.probe(hop, patience).unwrap().is_some());
            }
        }
        // A burst of six, and one for each second.
        let allowed = 6 + start.elapsed().as_secs() + 1;
        assert!(
            (1..=allowed).contains(&answered[0]),
            "{family:?}: {answered:?}"
        );
        assert!(
            (1..=allowed).contains(&answered[1]),
            "{family:?}: {answered:?}"
        );
        assert_eq!(answered[2], 20, "{family:?}: {answered:?}");
    }
    assert!(matches!(
        chain.limit_icmp(4),
        Err(Error::Arrangement { .. })
    ));
}

/// Sends as fast as TCP may from the client to the server, or back, for `period`.
fn flood(chain: &Chain, way: Way, period: Duration) {
    let server = SocketAddr::new(chain.server_address(Family::V4), 5001);
    let listener = chain.server.enter(|| TcpListener::bind(server)).unwrap();
    let listener = listener.unwrap();
    let near = chain.client.enter(|| TcpStream::connect(server)).unwrap();
    let (near, far) = (near.unwrap(), listener.accept().unwrap().0);
    let (mut sender, mut receiver) = match way {
        Way::Forward => (near, far),
        Way::Backward => (far, near),
    };
    let reader = std::thread::spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()));
    let end = Instant::now() + period;
    while Instant::now() < end {
        sender.write_all(&[0; 16_384]).unwrap();
    }
    sender.shutdown(Shutdown::Write).unwrap();
    reader.join().unwrap().unwrap();
}

/// Largest delay of a packet in `way`, without the time when a processor was away, and how many
/// were dropped before the bottleneck.
fn queue(link: &Link, way: Way) -> (Duration, u64) {
    let gaps = stolen_time();
    let of_queue_ns = |under_way: Range<u64>| {
        let (from, until) = (under_way.start, under_way.end);
        let overlap = |gap: &Range<u64>| gap.end.min(until).saturating_sub(gap.start.max(from));
        (until - from).saturating_sub(gaps.iter().map(overlap).sum())
    };
    let worst_ns = delivered(&link.truth(), way).map(of_queue_ns).max();
    let delay = Duration::from_nanos(worst_ns.unwrap_or_default());
    (delay, link.totals(way).queue_dropped)
}

#[fathom_lab::test]
fn bulk_traffic_fills_the_queue_of_the_slowest_link() {
    let _turn = alone();
    let chain = Chain::builder(3).build().unwrap();
    for host in [&chain.client, &chain.server] {
        host.set_congestion_control("reno").unwrap();
    }
    // 256,000 bytes at 20 Mbit/s are 102 ms.
    let narrow = || Direction::default().rate(20_000_000, 256_000);
    let full = Duration::from_millis(102);
    for (number, way) in [(2, Way::Forward), (4, Way::Backward)] {
        let link = chain.link(number);
        link.reconfigure(way, narrow());
        flood(&chain, way, Duration::from_millis(1_500));
        let (delay, dropped) = queue(link, way);
        assert!(delay > full * 3 / 4 && delay < full * 5 / 4, "{delay:?}");
        assert!(dropped > 0);
        // And wide again: the congestion moves on to where it is told.
        link.reconfigure(way, Direction::default());
    }
    for (number, way) in [(1, Way::Forward), (3, Way::Forward), (3, Way::Backward)] {
        let mut delays_ns = delays_ns(&chain.link(number).truth(), way);
        delays_ns.sort_unstable();
        // Their threads may wait for a processor, but they have no queue.
        assert!(delays_ns[delays_ns.len() / 2] < 5_000_000, "link {number}");
        assert_eq!(chain.link(number).totals(way).queue_dropped, 0);
    }
}

/// A chain whose router 2 has three others beside it, the last of them slower.
fn fan() -> Chain {
    let mut builder = Chain::builder(3);
    for _ in 0..2 {
        builder = builder.branch(2, [LinkConfig::default(), LinkConfig::default()]);
    }
    let slow = LinkConfig::symmetric(10 * MILLISECOND);
    builder
        .branch(2, [slow, LinkConfig::default()])
        .build()
        .unwrap()
}

#[fathom_lab::test]
fn flows_spread_over_all_branches_and_keep_to_theirs() {
    let _turn = alone();
    let chain = fan();
    chain.reroute(2, &[0, 1, 2, 3]).unwrap();
    for family in Family::BOTH {
        let mut flows: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for port in 20_000..20_064 {
            let server = chain.server_address(family);
            let prober = Prober::new(&chain.client, server, port).unwrap();
            let first = prober.probe(2, PATIENCE).unwrap().unwrap();
            let second = prober.probe(2, PATIENCE).unwrap().unwrap();
            assert_eq!(first.responder, second.responder);
            *flows.entry(first.responder).or_default() += 1;
            if first.responder == chain.path(3, family)[1] {
                assert!(first.round_trip >= 20 * MILLISECOND);
            }
            // Whichever way it came, router 3 answers as itself.
            let behind = prober.probe(3, PATIENCE).unwrap().unwrap();
            assert_eq!(behind.responder, chain.responder(3, family));
        }
        let branches: Vec<_> = (0..=3).map(|it| chain.path(it, family)[1]).collect();
        let counts: Vec<_> = branches.iter().map(|it| flows.remove(it)).collect();
        println!("{family:?}: {counts:?}");
        assert!(flows.is_empty(), "{flows:?}");
        assert!(counts.iter().all(|count| count.unwrap_or_default() >= 4));
    }
}

#[fathom_lab::test]
fn traffic_turns_to_another_way() {
    let _turn = alone();
    let chain = Chain::builder(4)
        .branch(3, [LinkConfig::default(), LinkConfig::default()])
        .branch(3, [LinkConfig::default()])
        .branch(3, vec![LinkConfig::default(); 3])
        .build()
        .unwrap();
    for branches in [&[0][..], &[1], &[2], &[0, 1, 3], &[3], &[0]] {
        chain.reroute(3, branches).unwrap();
        for family in Family::BOTH {
            let responders = trace(&chain, family);
            let expected: Vec<_> = branches.iter().map(|it| chain.path(*it, family)).collect();
            if let [only] = &expected[..] {
                assert_eq!(&responders, only);
            } else {
                assert!(expected.contains(&responders), "{responders:?}");
            }
        }
    }
    for branch in [0, 1, 4] {
        assert!(matches!(
            chain.reroute(2, &[branch]),
            Err(Error::Arrangement { .. })
        ));
    }
    chain.reroute_way(3, Way::Backward, &[1]).unwrap();
    let before = chain.branches[0].links[0].truth().len();
    trace(&chain, Family::V4);
    let fates = &chain.branches[0].links[0].truth()[before..];
    assert!(!fates.is_empty() && fates.iter().all(|packet| packet.way == Way::Backward));
}
