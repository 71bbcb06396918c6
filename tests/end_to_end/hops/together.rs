//! All commands at once, on the host that sends probes and on the first router: each tells what it
//! tells without probes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use fathom_lab::{Chain, Family, Namespace, Passed, Tap};
use fathom_tests::{EVERY_PACKET, Fathom, Finished, FlowEvent, Method, Profile, Record};

use crate::stage::{MILLISECOND, PATIENCE, alone, chain, connect};

const REQUESTS: usize = 80;
const QUERIES: usize = 12;
/// More than an epoch from one query to the next, so that each is alone in its own.
const EPOCH: &str = "100ms";
const APART: Duration = Duration::from_millis(120);
/// Ports of the servers without and with probes.
const PORTS: [u16; 2] = [7001, 7002];
/// More than any probe has, and less than what an application sends.
const TTL_OF_PROBES: u8 = 32;
const MESSAGE: [u8; 100] = [7; 100];
/// Of a link, in each direction.
const DELAY: Duration = Duration::from_millis(3);

/// What was told of packets that are no part of a flow.
const OWN: &str = "probe of fathom hops on this host";
const OVERLONG: &str = "datagram longer than its packet";
const LEFT_OUT: [&str; 2] = [
    "segments without timestamps in a connection that has them",
    "segments with a TTL far below their connection's",
];
/// What a stack counted of a connection, but for packets.
const COUNTED: [&str; 17] = [
    "bytes_sent",
    "bytes_received",
    "bytes_acknowledged",
    "packets_sent",
    "packets_received",
    "packets_acknowledged",
    "packets_lost",
    "packets_retransmitted",
    "packets_duplicate",
    "packets_partially_duplicate",
    "packets_out_of_order",
    "packets_reported_duplicate",
    "packets_congestion_experienced",
    "checksum_errors",
    "reordering_seen",
    "stalls",
    "unanswered_probes",
];

/// An exchange: requests one after the other on a connection, and queries one by one, in both
/// families. The ports are the clients'.
struct Exchange {
    tcp: [u16; 2],
    udp: [u16; 2],
    /// What a request waited for its response, at the median.
    waited: Duration,
}

/// The server ends the connection, so that the client's stack knows of each of its packets.
fn requests(chain: &Chain, family: Family, port: u16) -> (u16, Vec<Duration>) {
    let bound = (chain.server_address(family), port);
    let listener = chain.server.enter(|| TcpListener::bind(bound).unwrap());
    let listener = listener.unwrap();
    let mut stream = connect(&chain.client, bound.into());
    let (mut accepted, _) = listener.accept().unwrap();
    for stream in [&stream, &accepted] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let echo = std::thread::spawn(move || {
        let mut message = MESSAGE;
        for _ in 0..REQUESTS {
            accepted.read_exact(&mut message).unwrap();
            accepted.write_all(&message).unwrap();
        }
    });
    let (mut waited, mut message) = (Vec::new(), MESSAGE);
    for _ in 0..REQUESTS {
        let begin = Instant::now();
        stream.write_all(&message).unwrap();
        stream.read_exact(&mut message).unwrap();
        waited.push(begin.elapsed());
    }
    assert_eq!(stream.read(&mut message).unwrap(), 0);
    echo.join().unwrap();
    (stream.local_addr().unwrap().port(), waited)
}

fn queries(chain: &Chain, family: Family, port: u16) -> u16 {
    let bind = |host: &Namespace, address| {
        let socket = host.enter(|| UdpSocket::bind(address).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let server = bind(&chain.server, (chain.server_address(family), port));
    let client = bind(&chain.client, (chain.client_address(family), 0));
    client.connect(server.local_addr().unwrap()).unwrap();
    let mut message = MESSAGE;
    for _ in 0..QUERIES {
        client.send(&message).unwrap();
        let (length, from) = server.recv_from(&mut message).unwrap();
        server.send_to(&message[..length], from).unwrap();
        client.recv(&mut message).unwrap();
        std::thread::sleep(APART);
    }
    client.local_addr().unwrap().port()
}

impl Exchange {
    fn run(chain: &Chain, port: u16) -> Self {
        std::thread::scope(|scope| {
            let tcp = Family::BOTH.map(|family| scope.spawn(move || requests(chain, family, port)));
            let udp = Family::BOTH.map(|family| scope.spawn(move || queries(chain, family, port)));
            let tcp = tcp.map(|thread| thread.join().unwrap());
            let mut waited: Vec<_> = tcp.iter().flat_map(|(_, waited)| waited.clone()).collect();
            waited.sort_unstable();
            Self {
                tcp: tcp.map(|(port, _)| port),
                udp: udp.map(|thread| thread.join().unwrap()),
                waited: waited[waited.len() / 2],
            }
        })
    }
}

/// What was told of an exchange at one place, less what passed there.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// Of each connection: how it was measured.
    methods: [BTreeSet<Method>; 2],
    /// Of each: packets there, packets back, less what passed; and those that were taken for sent
    /// again or overtaken.
    packets: [([i64; 2], u32); 2],
    /// Of each UDP flow: epochs. (Whether the gap between two counts depends on how late the second
    /// came.)
    queries: [usize; 2],
}

impl Told {
    fn new(exchange: &Exchange, rtt: &Finished, response: &Finished, passed: &[Passed]) -> Self {
        let samples = rtt.samples();
        let methods = |port| {
            let own = samples.iter().filter(|it| it.flow.source_port == port);
            own.map(|it| it.method).collect()
        };
        let packets = |port| {
            let event = closing(rtt, port);
            let passed = passed_of(passed, port);
            let counted = [event.packets, event.reverse_packets];
            let disturbed = event.packets_retransmitted
                + event.reverse_packets_retransmitted
                + event.packets_out_of_order
                + event.reverse_packets_out_of_order;
            (less(counted, passed), disturbed)
        };
        let queries = |port| {
            let epochs = response.epochs().into_iter();
            let own = epochs.filter(|epoch| epoch.source_port == port);
            own.inspect(|epoch| assert!(epoch.reason.is_some(), "{epoch:?}"))
                .count()
        };
        Self {
            methods: exchange.tcp.map(methods),
            packets: exchange.tcp.map(packets),
            queries: exchange.udp.map(queries),
        }
    }
}

fn less(counted: [u64; 2], passed: [u64; 2]) -> [i64; 2] {
    [0, 1].map(|way| counted[way].cast_signed() - passed[way].cast_signed())
}

/// How the connection of a client's port ended.
fn closing(rtt: &Finished, port: u16) -> &FlowEvent {
    let mut events = rtt.records.iter().filter_map(|record| match record {
        Record::FlowEvent(event) => Some(event),
        _ => None,
    });
    let event = events.find(|it| it.event == "close" && it.flow.source_port == port);
    event.unwrap_or_else(|| panic!("port {port} has no end: {}", rtt.errors))
}

/// The application's packets of a connection: there and back.
fn passed_of(passed: &[Passed], port: u16) -> [u64; 2] {
    let is_own =
        |passed: &&Passed| passed.header.protocol == 6 && passed.header.hop_limit > TTL_OF_PROBES;
    let own = passed.iter().filter(is_own);
    own.fold([0; 2], |[there, back], Passed { header, .. }| {
        [
            there + u64::from(header.source_port == port),
            back + u64::from(header.destination_port == port),
        ]
    })
}

/// What a stack told of a connection: why its profiles end, and what it counted.
type Account = (Vec<(String, String)>, Vec<(&'static str, u64)>);

fn of<'a>(profiles: &'a [Profile], host: &Namespace, port: u16) -> Vec<&'a Profile> {
    let own = profiles.iter().filter(|profile| profile.is_of(host));
    own.filter(|profile| profile.has_port(port)).collect()
}

fn sum(profiles: &[&Profile], name: &str) -> u64 {
    let values = profiles.iter().filter_map(|profile| profile.number(name));
    values.sum()
}

fn account(profiles: &[Profile], host: &Namespace, port: u16) -> Account {
    let own = of(profiles, host, port);
    let ends = own.iter().map(|profile| {
        let text = |name| profile.text(name).to_owned();
        (text("reason"), text("end_state"))
    });
    let counted = COUNTED.map(|name| (name, sum(&own, name)));
    (ends.collect(), counted.to_vec())
}

/// The latency of requests is what the client waited: at the median, and in nine epochs of ten. (An
/// epoch has five requests, and a client that is held up once is later in one.)
fn check_latencies(exchange: &Exchange, response: &Finished) {
    let truth_ns = exchange.waited.as_nanos() as f64;
    for port in exchange.tcp {
        let epochs = response.epochs().into_iter();
        let own = epochs.filter(|epoch| epoch.source_port == port);
        let errors = own
            .filter_map(|epoch| epoch.latency_ns)
            .map(|latency_ns| (latency_ns as f64 - truth_ns).abs() / truth_ns);
        let mut errors: Vec<_> = errors.collect();
        errors.sort_by(f64::total_cmp);
        assert!(errors.len() >= 10, "{errors:?}");
        assert!(errors[errors.len() / 2] < 0.1, "{errors:?}");
        assert!(errors[errors.len() * 9 / 10 - 1] < 0.25, "{errors:?}");
    }
}

/// The round trip of a connection is that of the links behind the place, at the median.
fn check_round_trips(exchange: &Exchange, rtt: &Finished, links: u32) {
    let truth = 2 * links * DELAY;
    for port in exchange.tcp {
        let samples = rtt.samples().into_iter();
        let own = samples.filter(|sample| sample.flow.source_port == port);
        let mut own: Vec<_> = own.map(|it| Duration::from_nanos(it.rtt_ns)).collect();
        own.sort_unstable();
        assert!(own.len() >= REQUESTS, "{} samples", own.len());
        let median = own[own.len() / 2];
        let bound = truth..truth + 2 * MILLISECOND;
        assert!(bound.contains(&median), "{median:?}, truth {truth:?}");
    }
}

/// Probes were there, at both places, and were left out under their names.
fn check_probes(hops: &Finished, exchange: &Exchange, measured: &[[Finished; 2]; 2]) {
    let probes = hops.probes();
    for (ports, least) in [(exchange.tcp, 15), (exchange.udp, 6)] {
        for port in ports {
            let own = probes.iter().filter(|it| it.flow.source_port == port);
            let count = own.count();
            assert!(count >= least, "{count} probes of port {port}");
        }
    }
    for [host, router] in measured {
        let left_out: u64 = LEFT_OUT.iter().map(|name| router.count(name)).sum();
        let numbers = [host.count(OWN), left_out, router.count(OVERLONG)];
        println!("{} probes; left out: {numbers:?}", probes.len());
        assert!(numbers[0] >= probes.len() as u64, "{}", host.errors);
        assert!(numbers[1] >= 15 && numbers[2] >= 5, "{}", router.errors);
    }
}

#[fathom_lab::test]
fn all_commands_at_once_tell_what_they_tell_without_probes() {
    let _turn = alone();
    let chain = chain(2, |_| DELAY).build().unwrap();
    let (host, router) = (&chain.client, &chain.routers[0]);
    let link = Chain::interface(2);
    let places = [(host, Chain::HOST_INTERFACE), (router, link.as_str())];
    let taps = places.map(|(namespace, interface)| Tap::start(namespace, interface).unwrap());
    let start = |command, options: &[&str]| {
        places.map(|(namespace, interface)| {
            Fathom::start_command(command, namespace, &[interface], options).unwrap()
        })
    };
    // One before it at the hook, the other behind it.
    let rtt = start("rtt", &[&EVERY_PACKET[..], &["--events"]].concat());
    let probed = PORTS[1].to_string();
    let options = ["--rate", "50", "--port", probed.as_str()];
    let hops = Fathom::hops(host, Chain::HOST_INTERFACE, &options).unwrap();
    let response = start("response", &["--epoch", EPOCH]);
    let profiler = Fathom::profile(host, &[]).unwrap();
    let exchanges = PORTS.map(|port| Exchange::run(&chain, port));

    let hops = hops.finish().unwrap();
    let measured = [rtt, response].map(|both| both.map(|fathom| fathom.finish().unwrap()));
    let profiles = profiler.finish().unwrap().profiles();
    let passed = taps.map(|tap| tap.finish().unwrap());
    check_probes(&hops, &exchanges[1], &measured);
    let [rtt, response] = &measured;
    for (at, links) in [(0, 3), (1, 2)] {
        let told = |exchange: &Exchange| Told::new(exchange, &rtt[at], &response[at], &passed[at]);
        let [without, with] = exchanges.each_ref().map(told);
        assert_eq!(with, without, "with and without probes");
        // The first two packets of the handshake make no flow, and the last one comes after its
        // end.
        assert_eq!(without.packets, [([-1, -2], 0); 2]);
        let methods = BTreeSet::from([Method::Timestamp, Method::Handshake]);
        assert_eq!(without.methods, [methods.clone(), methods]);
        assert_eq!(without.queries, [QUERIES; 2]);
        for exchange in &exchanges {
            check_round_trips(exchange, &rtt[at], links);
            check_latencies(exchange, &response[at]);
        }
    }
    for namespace in [host, &chain.server] {
        let [without, with] = exchanges.each_ref().map(|exchange| {
            let account = |port| account(&profiles, namespace, port);
            exchange.tcp.map(account)
        });
        assert_eq!(with, without, "with and without probes");
    }
    for exchange in &exchanges {
        for port in exchange.tcp {
            let own = of(&profiles, host, port);
            let packets = ["packets", "reverse_packets"].map(|name| sum(&own, name));
            assert_eq!(packets, passed_of(&passed[0], port), "port {port}");
        }
    }
}
