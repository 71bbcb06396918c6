//! Links between real namespaces do what was asked, and their truth record says so.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod common;

use std::time::Duration;

use fathom_lab::{
    Direction, Fate, Layer, Link, LinkConfig, LinkEnd, Namespace, PacketFate, PacketKind, Rule,
    Schedule, Tap, Topology, Transport, Way, wait_until,
};

use common::alone;

const MILLISECOND: Duration = Duration::from_millis(1);

struct Pair {
    client: Namespace,
    server: Namespace,
    link: Link,
}

fn pair(config: LinkConfig) -> Pair {
    let client = Namespace::new("client").unwrap();
    let server = Namespace::new("server").unwrap();
    let (first, second) = (LinkEnd::new(&client, "eth0"), LinkEnd::new(&server, "eth0"));
    let link = Link::start(first, second, config).unwrap();
    client.add_address("eth0", "10.77.1.1/24").unwrap();
    client.add_address("eth0", "fd77:1::1/64").unwrap();
    server.add_address("eth0", "10.77.1.2/24").unwrap();
    server.add_address("eth0", "fd77:1::2/64").unwrap();
    Pair {
        client,
        server,
        link,
    }
}

/// Round-trip times in ms that `ping` printed.
fn ping_times(output: &str) -> Vec<f64> {
    output
        .split("time=")
        .skip(1)
        .filter_map(|text| text.split_whitespace().next()?.parse().ok())
        .collect()
}

/// Sends numbered datagrams and returns the numbers that arrived, in order, until `link` holds no
/// more.
fn datagrams(pair: &Pair, count: u16) -> Vec<u16> {
    let bind = |address: &'static str| move || std::net::UdpSocket::bind(address).unwrap();
    let receiver = pair.server.enter(bind("10.77.1.2:9000")).unwrap();
    let sender = pair.client.enter(bind("10.77.1.1:9001")).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let mut arrived = Vec::new();
    let numbers: Vec<u16> = (0..count).collect();
    // The receiving socket holds a few hundred.
    for burst in numbers.chunks(100) {
        let before = pair.link.totals(Way::Forward).read;
        for number in burst {
            sender
                .send_to(&number.to_be_bytes(), "10.77.1.2:9000")
                .unwrap();
        }
        let expected = before + burst.len() as u64;
        wait_until(Duration::from_secs(10), "all datagrams settled", || {
            let totals = pair.link.totals(Way::Forward);
            totals.read == expected && totals.settled() == expected
        })
        .unwrap();
        let mut buffer = [0; 2];
        while let Ok(2) = receiver.recv(&mut buffer) {
            arrived.push(u16::from_be_bytes(buffer));
        }
    }
    arrived
}

fn with_fate(truth: &[PacketFate], fate: Fate) -> Vec<u16> {
    truth
        .iter()
        .filter(|packet| packet.fate == fate)
        .map(|packet| packet.index as u16)
        .collect()
}

#[fathom_lab::test]
fn ping_shows_the_configured_delay() {
    let _turn = alone();
    let pair = pair(LinkConfig {
        forward: Direction::delayed(10 * MILLISECOND),
        backward: Direction::delayed(5 * MILLISECOND),
        seed: 0,
    });
    for address in ["10.77.1.2", "fd77:1::2"] {
        let output = pair
            .client
            .run(&format!("ping -n -c 10 -i 0.02 {address}"))
            .unwrap();
        let mut times = ping_times(&output);
        times.sort_by(f64::total_cmp);
        assert_eq!(times.len(), 10, "{output}");
        assert!(times[0] >= 15.0, "{output}");
        // The quickest quarter: a processor that is away for long delays many in a row.
        assert!(times[2] < 16.0, "{output}");
    }
    let truth = pair.link.truth();
    assert_eq!(truth.len(), 40, "nothing but echoes: {truth:#?}");
    let lateness_ns = timely_lateness_ns(&truth);
    assert!(lateness_ns < 100_000, "{lateness_ns} ns late");
    for packet in &truth {
        let delay_ns = packet.written_ns.unwrap() - packet.read_ns;
        let configured_ns = match packet.way {
            Way::Forward => 10_000_000,
            Way::Backward => 5_000_000,
        };
        assert!(delay_ns >= configured_ns);
        assert!(matches!(
            packet.header.unwrap().transport,
            Transport::Echo { .. }
        ));
    }
}

#[fathom_lab::test]
fn losses_and_duplicates_equal_the_truth() {
    let _turn = alone();
    let forward = Direction::delayed(MILLISECOND).loss(0.1).duplication(0.1);
    let config = LinkConfig {
        forward,
        ..LinkConfig::default()
    };
    let pair = pair(config.seed(3));
    let arrived = datagrams(&pair, 1_000);
    let truth = pair.link.truth();
    let mut expected = Vec::new();
    for packet in truth.iter().filter(|packet| packet.fate == Fate::Delivered) {
        expected.push(packet.index as u16);
        if packet.is_duplicated {
            expected.push(packet.index as u16);
        }
    }
    assert_eq!(arrived, expected);
    let lost = with_fate(&truth, Fate::Lost).len();
    assert!((70..130).contains(&lost), "{lost}");
}

#[fathom_lab::test]
fn corrupted_datagrams_never_arrive() {
    let _turn = alone();
    let config = LinkConfig {
        forward: Direction::default().corruption(0.2),
        ..LinkConfig::default()
    };
    let pair = pair(config);
    let arrived = datagrams(&pair, 300);
    let intact: Vec<u16> = pair
        .link
        .truth()
        .iter()
        .filter(|packet| !packet.is_corrupted)
        .map(|packet| packet.index as u16)
        .collect();
    assert!(intact.len() < 300);
    assert_eq!(arrived, intact);
}

#[fathom_lab::test]
fn reordered_datagrams_arrive_in_the_order_of_writing() {
    let _turn = alone();
    let forward = Direction::delayed(MILLISECOND).reordering(0.05, 3 * MILLISECOND);
    let config = LinkConfig {
        forward,
        ..LinkConfig::default()
    };
    let pair = pair(config);
    let arrived = datagrams(&pair, 500);
    let mut truth = pair.link.truth();
    assert!(truth.iter().any(|packet| packet.is_reordered));
    truth.sort_by_key(|packet| packet.written_ns);
    let expected: Vec<u16> = truth.iter().map(|packet| packet.index as u16).collect();
    assert!(!expected.is_sorted());
    assert_eq!(arrived, expected);
}

#[fathom_lab::test]
fn rules_hit_the_numbered_packets() {
    let _turn = alone();
    let forward = Direction::default()
        .rule(Rule::nth(3, PacketKind::Udp).drop())
        .rule(Rule::nth(5, PacketKind::Udp).on_port(9000).duplicate())
        .rule(
            Rule::nth(7, PacketKind::Udp)
                .in_each_flow()
                .delay(200 * MILLISECOND),
        );
    let pair = pair(LinkConfig {
        forward,
        ..LinkConfig::default()
    });
    assert_eq!(datagrams(&pair, 9), [0, 1, 3, 4, 4, 5, 7, 8, 6]);
    assert_eq!(with_fate(&pair.link.truth(), Fate::RuleDropped), [2]);
}

#[fathom_lab::test]
fn bottleneck_drops_and_delays() {
    let _turn = alone();
    // 30-byte packets at 240 kbit/s take 1 ms each.
    let pair = pair(LinkConfig {
        forward: Direction::default().rate(240_000, 300),
        ..LinkConfig::default()
    });
    let arrived = datagrams(&pair, 50);
    let truth = pair.link.truth();
    assert_eq!(arrived, with_fate(&truth, Fate::Delivered));
    assert!((10..20).contains(&arrived.len()), "{arrived:?}");
    let last = truth.iter().rfind(|packet| packet.fate == Fate::Delivered);
    let waited_ns = last.map(|packet| packet.written_ns.unwrap() - packet.read_ns);
    assert!(waited_ns.unwrap() > 8_000_000, "{waited_ns:?}");
}

#[fathom_lab::test]
fn delay_can_change_while_running() {
    let _turn = alone();
    let pair = pair(LinkConfig::default());
    pair.client.run("ping -c 1 10.77.1.2").unwrap();
    let ramp = Schedule::ramp(20 * MILLISECOND, 60 * MILLISECOND, 200 * MILLISECOND);
    pair.link
        .reconfigure(Way::Forward, Direction::scheduled(ramp));
    pair.client.run("ping -n -c 20 -i 0.02 10.77.1.2").unwrap();
    let truth = pair.link.truth();
    let delays_ns: Vec<u64> = truth[1..21]
        .iter()
        .map(|packet| packet.due_ns - packet.read_ns)
        .collect();
    assert!(delays_ns.is_sorted(), "{delays_ns:?}");
    assert_eq!((delays_ns[0], delays_ns[19]), (20_000_000, 60_000_000));
}

/// How much later than due packets were written, in ns: at most so much for the most timely
/// quarter, as a processor may be away for long.
fn timely_lateness_ns(truth: &[PacketFate]) -> u64 {
    let mut lateness_ns: Vec<u64> = truth
        .iter()
        .map(|packet| packet.written_ns.unwrap() - packet.due_ns)
        .collect();
    lateness_ns.sort_unstable();
    lateness_ns[lateness_ns.len() / 4]
}

#[fathom_lab::test]
fn ethernet_link_passes_vlan_tags() {
    let _turn = alone();
    let lab = Topology::builder().layer(Layer::Ethernet).build().unwrap();
    lab.client.run("ping -c 1 -W 2 10.77.2.1").unwrap();
    lab.client.run("ping -c 1 -W 2 fd77:2::1").unwrap();
    let truth = lab.lan.truth();
    assert_eq!(truth.len(), 4, "no neighbour discovery: {truth:#?}");
    let add = |interface| format!("ip link add link {interface} name vlan7 type vlan id 7");
    if let Err(error) = lab.client.run(&add("eth0")) {
        println!("skipped: {error}");
        return;
    }
    lab.router.run(&add("lan0")).unwrap();
    for (namespace, address) in [(&lab.client, "10.77.3.1/24"), (&lab.router, "10.77.3.2/24")] {
        namespace.run("ip link set vlan7 up").unwrap();
        namespace.add_address("vlan7", address).unwrap();
    }
    lab.client.run("ping -c 1 -W 2 10.77.3.2").unwrap();
}

#[fathom_lab::test]
fn two_labs_at_once() {
    let _turn = alone();
    let slow = LinkConfig::symmetric(15 * MILLISECOND);
    let first = Topology::builder().wan(slow).build().unwrap();
    let second = Topology::builder().build().unwrap();
    for address in ["10.77.2.1", "fd77:2::1"] {
        let command = format!("ping -n -c 1 -W 2 {address}");
        assert!(ping_times(&first.client.run(&command).unwrap())[0] >= 30.0);
        assert!(ping_times(&second.client.run(&command).unwrap())[0] < 30.0);
    }
    for link in [&first.lan, &first.wan] {
        let truth = link.truth();
        assert_eq!(truth.len(), 4, "nothing but the echoes: {truth:#?}");
        assert_eq!(link.unread_drops(Way::Forward).unwrap(), 0);
    }
}

/// Two clocks, the kernel's and that of the link's threads, tell the same story: a packet passes
/// the device before the link reads it, and after the link has begun to write it.
#[fathom_lab::test]
fn a_tap_sees_what_the_link_carries() {
    let _turn = alone();
    let pair = pair(LinkConfig::symmetric(2 * MILLISECOND));
    let tap = Tap::start(&pair.client, "eth0").unwrap();
    for address in ["10.77.1.2", "fd77:1::2"] {
        pair.client
            .run(&format!("ping -c 20 -i 0.01 {address}"))
            .unwrap();
    }
    let passed = tap.finish().unwrap();
    let truth = pair.link.truth();
    let is_echo = |transport| matches!(transport, Transport::Echo { .. });
    for (way, is_outgoing) in [(Way::Forward, true), (Way::Backward, false)] {
        let carried = truth.iter().filter(|packet| {
            packet.way == way
                && packet
                    .header
                    .is_some_and(|header| is_echo(header.transport))
        });
        let carried: Vec<_> = carried.collect();
        let seen = passed
            .iter()
            .filter(|packet| packet.is_outgoing == is_outgoing && is_echo(packet.header.transport));
        let seen: Vec<_> = seen.collect();
        assert_eq!((carried.len(), seen.len()), (40, 40));
        let mut late_ns: Vec<i64> = Vec::new();
        for (carried, seen) in carried.iter().zip(seen) {
            assert_eq!(carried.header, Some(seen.header));
            late_ns.push(match way {
                Way::Forward => carried.read_ns.cast_signed() - seen.time_ns.cast_signed(),
                Way::Backward => {
                    seen.time_ns.cast_signed() - carried.written_ns.unwrap().cast_signed()
                }
            });
        }
        late_ns.sort_unstable();
        // The clocks are read one after the other, so they may differ by a little.
        assert!(late_ns[0] > -20_000, "{late_ns:?}");
        // And a thread is woken in between, which takes tens of microseconds.
        assert!(late_ns[20] < 500_000, "{late_ns:?}");
    }
}

#[fathom_lab::test]
fn capture_files_hold_what_passed_each_end() {
    let _turn = alone();
    let directory = std::env::temp_dir().join(format!("fathom-lab-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("first.pcap");
    let client = Namespace::new("client").unwrap();
    let server = Namespace::new("server").unwrap();
    let mut first = LinkEnd::new(&client, "eth0");
    first.capture = Some(path.clone());
    let link = Link::start(
        first,
        LinkEnd::new(&server, "eth0"),
        LinkConfig::symmetric(MILLISECOND),
    )
    .unwrap();
    client.add_address("eth0", "10.77.1.1/24").unwrap();
    server.add_address("eth0", "10.77.1.2/24").unwrap();
    client.run("ping -c 2 -i 0.05 10.77.1.2").unwrap();
    link.flush_captures().unwrap();
    let mut reader = fathom_capture::Reader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        times.push(packet.time_ns);
    }
    let truth = link.truth();
    assert_eq!(
        times,
        [
            truth[0].read_ns,
            truth[2].written_ns.unwrap(),
            truth[1].read_ns,
            truth[3].written_ns.unwrap()
        ]
    );
    std::fs::remove_dir_all(&directory).unwrap();
}
