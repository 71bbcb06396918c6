//! What `fathom-server compare` says of stores whose sessions are known.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod records;

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Output};

use fathom_record::{FlowKey, Histogram, Nanoseconds, Protocol, Record, Time};
use fathom_store::{Batches, Settings, Writer};
use records::{Agent, Dns, Profile, Responses, RoundTrips, Traffic};
use serde_json::Value;
use tempfile::TempDir;

const MILLISECOND: u64 = 1_000_000;
/// 2025-11-24T16:00:00Z.
const BEGIN_S: u64 = 1_764_000_000;
const PERIOD: [&str; 4] = [
    "--since",
    "2025-11-24T16:00:00Z",
    "--until",
    "2025-11-24T17:00:00Z",
];
const NETWORKS: &str =
    "prefix,name\n192.0.2.0/24,north\n2001:db8:1::/48,north\n198.51.100.0/24,south\n";
/// The client's ports follow it.
const CLIENT_PORT: u16 = 40_000;
/// Sessions of each kind.
const SESSIONS: u16 = 20;

fn time(second: u64) -> Time {
    Time((BEGIN_S + second) * 1_000_000_000)
}

fn flow(server: IpAddr, port: u16) -> FlowKey {
    let client = match server {
        IpAddr::V4(_) => IpAddr::from([10, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1)),
    };
    FlowKey {
        protocol: Protocol::TCP,
        source: client,
        source_port: port,
        destination: server,
        destination_port: 443,
    }
}

/// The profile of a short connection, which sent data again.
fn short_connection(flow: FlowKey, rtt_ms: u64) -> Profile {
    let [first, last] = connection(flow, rtt_ms, 0);
    Profile {
        start_state: first.start_state,
        establishment_ns: first.establishment_ns,
        packets_retransmitted: 1,
        ..last
    }
}

/// The two profiles of a connection that the host opened.
fn connection(flow: FlowKey, rtt_ms: u64, syn_losses: u64) -> [Profile; 2] {
    let second = u64::from(flow.source_port - CLIENT_PORT);
    let first = Profile {
        time: time(second),
        flow,
        start_state: "NEW",
        end_state: "ESTABLISHED",
        role: "client",
        establishment_ns: Some(Nanoseconds((rtt_ms + 1_000 * syn_losses) * MILLISECOND)),
        total_duration_ns: None,
        total_rtt_samples: None,
        total_rtt_mean_ns: None,
        total_stalled_ns: None,
        packets_retransmitted: syn_losses,
        jitter_ns: Some(Nanoseconds(rtt_ms * MILLISECOND / 2)),
        interface: "eth0",
    };
    let last = Profile {
        time: time(second + 10),
        start_state: "ESTABLISHED",
        end_state: "FINISHED",
        establishment_ns: None,
        total_duration_ns: Some(Nanoseconds(10_000 * MILLISECOND)),
        total_rtt_samples: Some(100),
        total_rtt_mean_ns: Some(Nanoseconds(rtt_ms * MILLISECOND)),
        total_stalled_ns: Some(Nanoseconds(syn_losses * 1_000 * MILLISECOND)),
        packets_retransmitted: 0,
        jitter_ns: Some(Nanoseconds(rtt_ms * MILLISECOND / 10)),
        ..first
    };
    [first, last]
}

/// What packets tell of the same flow, at two interfaces of a router.
fn packets(flow: FlowKey, rtt_ms: u64) -> Vec<Box<dyn Record>> {
    let mut records: Vec<Box<dyn Record>> = Vec::new();
    let (time, duration_ns) = (time(60), Nanoseconds(60_000 * MILLISECOND));
    for interface in ["lan0", "wan0"] {
        let round_trips = |flow, ms| RoundTrips {
            time,
            duration_ns,
            flow,
            rtt_samples: 5,
            rtt_mean_ns: Nanoseconds(ms * MILLISECOND),
            interface,
        };
        let mut latency_histogram = Histogram::new();
        latency_histogram.record(2 * rtt_ms * MILLISECOND);
        records.push(Box::new(Traffic {
            time,
            duration_ns,
            flow,
            interface,
        }));
        records.push(Box::new(round_trips(flow, rtt_ms)));
        records.push(Box::new(round_trips(flow.reversed(), 1)));
        records.push(Box::new(Responses {
            time,
            duration_ns,
            flow,
            latency_p50_ns: Some(Nanoseconds(2 * rtt_ms * MILLISECOND)),
            interface,
            latency_histogram,
        }));
    }
    records
}

/// Sessions to three servers: over IPv4 20 to 39 ms away, of which five lose their SYN; over IPv6
/// 10 to 29 ms; both of the network `north`; and of `south`, 50 ms and over IPv4 alone.
fn store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let north_6 = IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
    let (north_4, south) = (
        IpAddr::from([192, 0, 2, 1]),
        IpAddr::from([198, 51, 100, 1]),
    );
    let mut records: Vec<Box<dyn Record>> = vec![Box::new(Agent {
        time: time(1),
        labels: "site=ber1",
    })];
    for number in 1..=SESSIONS {
        let more = u64::from(number) - 1;
        let syn_losses = u64::from(number <= 5);
        for (server, rtt_ms, syn_losses) in
            [(north_4, 20 + more, syn_losses), (north_6, 10 + more, 0)]
        {
            let flow = flow(server, CLIENT_PORT + number);
            records.extend(connection(flow, rtt_ms, syn_losses).map(|it| Box::new(it) as _));
            records.extend(packets(flow, rtt_ms));
        }
        let to_south = flow(south, CLIENT_PORT + number);
        records.push(Box::new(short_connection(to_south, 50)));
        records.extend(packets(to_south, 50));
        let resolver = FlowKey {
            protocol: Protocol::UDP,
            destination_port: 53,
            ..flow(north_4, number)
        };
        records.push(Box::new(Dns {
            time: time(more),
            flow: resolver,
            latency_ns: Nanoseconds((1 + more) * MILLISECOND),
        }));
    }
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    let mut batches = Batches::new("desk");
    for record in &records {
        batches.put(&**record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap();
    std::fs::write(directory.path().join("networks.csv"), NETWORKS).unwrap();
    directory
}

fn compare(store: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom-server"))
        .arg("compare")
        .arg("--store")
        .arg(store)
        .args(arguments)
        .output()
        .unwrap()
}

/// The rows of groups, then those of comparisons.
fn rows(store: &Path, arguments: &[&str]) -> [Vec<Value>; 2] {
    let arguments = [&PERIOD, arguments, &["--format", "json"]].concat();
    let output = compare(store, &arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let (groups, comparisons) = rows.partition(|row: &Value| row["kind"] == "group");
    [groups, comparisons]
}

fn in_ms(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap() / MILLISECOND as f64
}

/// The sessions and the median of each group, by its name.
fn medians(groups: &[Value]) -> Vec<(&str, u64, f64)> {
    let told = groups.iter().map(|row| {
        let sessions = row["sessions"].as_u64().unwrap();
        (
            row["group"].as_str().unwrap(),
            sessions,
            in_ms(row, "median_ns"),
        )
    });
    let mut told: Vec<_> = told.collect();
    told.sort_by(|one, other| one.0.cmp(other.0));
    told
}

/// What is compared of the same sessions, and what its medians are over IPv4 (towards `north`
/// alone) and IPv6.
const METRICS: [(&str, f64, f64); 6] = [
    ("establishment", 34.5, 19.5),
    ("rtt", 29.5, 19.5),
    ("jitter", 2.95, 1.95),
    ("stalls", 0.0, 0.0),
    ("response", 59.0, 39.0),
    ("flow-rtt", 29.5, 19.5),
];

#[test]
fn every_metric_has_a_value_for_each_session() {
    let store = store();
    for (metric, four, six) in METRICS {
        let arguments = ["--metric", metric, "--towards"];
        let towards = |network| [&arguments[..], &[network]].concat();
        for (network, family, expected) in [
            ("192.0.2.0/24", "IPv4", four),
            ("2001:db8:1::/48", "IPv6", six),
        ] {
            let [groups, _] = rows(store.path(), &towards(network));
            let told = medians(&groups);
            let [(group, sessions, median)] = told[..] else {
                panic!("{metric}: {told:?}");
            };
            assert_eq!((group, sessions), (family, u64::from(SESSIONS)), "{metric}");
            // Histograms are within 1.6 %.
            let error = (median - expected).abs();
            assert!(
                error <= 0.016 * expected,
                "{metric}: {median}, not {expected}"
            );
        }
    }
}

#[test]
fn every_grouping_tells_sessions_apart() {
    let store = store();
    let networks = store.path().join("networks.csv");
    let networks = ["--networks", networks.to_str().unwrap()];
    let north = "192.0.2.0/24";
    for (grouping, options, expected) in [
        ("family", &[][..], &[("IPv4", 40), ("IPv6", 20)][..]),
        (
            "network",
            &[],
            &[
                (north, 20),
                ("198.51.100.0/24", 20),
                ("2001:db8:1::/48", 20),
            ],
        ),
        ("network", &networks, &[("north", 40), ("south", 20)]),
        ("interface", &[], &[("eth0", 60)]),
        ("service", &[], &[("tcp/443", 60)]),
        ("host", &[], &[("desk", 60)]),
        ("label=site", &[], &[("ber1", 60)]),
        (
            "label=site,family",
            &[],
            &[("ber1, IPv4", 40), ("ber1, IPv6", 20)],
        ),
    ] {
        let arguments = [&["--metric", "rtt", "--by", grouping], options].concat();
        let [groups, _] = rows(store.path(), &arguments);
        let told: Vec<_> = medians(&groups)
            .iter()
            .map(|it| (it.0.to_owned(), it.1))
            .collect();
        let expected: Vec<_> = expected.iter().map(|it| (it.0.to_owned(), it.1)).collect();
        assert_eq!(told, expected, "{grouping}");
    }
    // A flow that two interfaces see is two sessions only where they are compared.
    let of_interfaces = ["--metric", "flow-rtt", "--by", "interface"];
    let [groups, _] = rows(store.path(), &of_interfaces);
    let told: Vec<_> = medians(&groups)
        .iter()
        .map(|it| (it.0.to_owned(), it.1))
        .collect();
    assert_eq!(told, [("lan0".to_owned(), 60), ("wan0".to_owned(), 60)]);
    // Of a server's side the other end of each flow is its client.
    let of_clients = [
        "--metric", "flow-rtt", "--by", "network", "--role", "server",
    ];
    let [groups, _] = rows(store.path(), &of_clients);
    let told = medians(&groups);
    assert_eq!(
        told,
        [("10.0.0.0/24", 40, 1.0), ("2001:db8:9::/48", 20, 1.0)]
    );
}

/// The figures of `SciPy`: `mannwhitneyu(range(20, 40), range(10, 30), method="asymptotic")`, and
/// `fisher_exact([[5, 15], [0, 20]])`.
#[test]
fn groups_are_tested_against_each_other() {
    let store = store();
    let north = |metric, towards: &'static str| ["--metric", metric, "--towards", towards];
    let networks = store.path().join("networks.csv");
    let networks = ["--networks", networks.to_str().unwrap()];
    let dual = |metric| [&north(metric, "dual-stack")[..], &networks].concat();
    let [groups, comparisons] = rows(store.path(), &dual("rtt"));
    assert_eq!(groups.len(), 2);
    let [comparison] = &comparisons[..] else {
        panic!("{comparisons:?}");
    };
    assert_eq!(
        (&comparison["group"], &comparison["other_group"]),
        (&Value::from("IPv4"), &Value::from("IPv6"))
    );
    assert!((in_ms(comparison, "median_difference_ns") - 10.0).abs() < 1e-6);
    let close = |field: &str, expected: f64| {
        let told = comparison[field].as_f64().unwrap();
        assert!((told / expected - 1.0).abs() < 1e-6, "{field}: {told}");
    };
    close("p", 5.212_549_620_603_752e-5);
    close("corrected_p", 5.212_549_620_603_752e-5);
    close("effect", 0.75);
    assert_eq!(comparison["magnitude"], "large");

    let [groups, comparisons] = rows(store.path(), &dual("syn-loss"));
    assert_eq!(
        (groups[0]["share"].as_f64(), groups[1]["share"].as_f64()),
        (Some(0.25), Some(0.0))
    );
    let p = comparisons[0]["p"].as_f64().unwrap();
    assert!((p / 0.047_124_047_124_047_13 - 1.0).abs() < 1e-6, "{p}");
    // What a short connection sent again was no SYN.
    let [groups, _] = rows(store.path(), &["--metric", "syn-loss", "--by", "network"]);
    let south = groups
        .iter()
        .find(|it| it["group"] == "198.51.100.0/24")
        .unwrap();
    assert_eq!(
        (south["sessions"].as_u64(), south["share"].as_f64()),
        (Some(u64::from(SESSIONS)), Some(0.0))
    );
    // Of three groups each p is that of three comparisons.
    let by_network = ["--metric", "rtt", "--by", "network"];
    let [_, comparisons] = rows(store.path(), &by_network);
    assert_eq!(comparisons.len(), 3);
    let weakest = comparisons
        .iter()
        .find(|it| it["group"] != "198.51.100.0/24" && it["other_group"] != "198.51.100.0/24");
    let weakest = weakest.unwrap();
    let [p, corrected] = ["p", "corrected_p"].map(|it| weakest[it].as_f64().unwrap());
    assert!((corrected - p).abs() < 1e-12, "the weakest is the last");
}

#[test]
fn metrics_stand_beside_each_other() {
    let store = store();
    let arguments = ["--metric", "establishment,dns", "--by", "network"];
    let [groups, comparisons] = rows(store.path(), &arguments);
    let dns = groups.iter().find(|row| row["metric"] == "dns").unwrap();
    assert_eq!(
        (&dns["group"], in_ms(dns, "median_ns")),
        (&Value::from("192.0.2.0/24"), 10.5)
    );
    // Establishment by network, thrice; and of the network of the resolver against its replies.
    assert_eq!(comparisons.len(), 4);
    let across = comparisons
        .iter()
        .find(|row| row["metric"] != row["other_metric"]);
    assert_eq!(across.unwrap()["group"], across.unwrap()["other_group"]);
}

#[test]
fn people_see_distributions_and_verdicts() {
    let store = store();
    let arguments = [
        &PERIOD[..],
        &["--metric", "rtt", "--by", "network", "--groups", "2"],
    ]
    .concat();
    let output = compare(store.path(), &arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "Mean round trip of TCP connections, by network of the other end",
        "2025-11-24T16:00:00Z to 2025-11-24T17:00:00Z",
        "29.50 ms",
        "█",
        "left out: 1 of 3 groups, with 20 sessions",
        "Mann-Whitney",
        "a large difference, p < 0.0001",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let arguments = [&PERIOD[..], &["--metric", "connections"]].concat();
    let text = String::from_utf8(compare(store.path(), &arguments).stdout).unwrap();
    assert!(text.contains("66.7 %") && text.contains("33.3 %"), "{text}");
    let arguments = [&PERIOD[..], &["--metric", "syn-loss", "--format", "csv"]].concat();
    let text = String::from_utf8(compare(store.path(), &arguments).stdout).unwrap();
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    assert!(text.starts_with("kind,time,since,metric,by,group,sessions"));
    assert_eq!(lines.clone().count(), 3);
    assert!(
        lines.all(|line| line.split(',').count() == columns),
        "{text}"
    );
}

/// Each picture of the paper is shown by what is listed for it.
#[test]
fn the_examples_work() {
    let store = store();
    let networks = store.path().join("networks.csv");
    let listed = String::from_utf8(compare(store.path(), &[]).stdout).unwrap();
    let examples = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fathom compare "));
    let examples: Vec<_> = examples.map(|it| it.replace("asn", "network")).collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        let mut arguments: Vec<_> = example.split(' ').collect();
        arguments.extend(["--networks", networks.to_str().unwrap()]);
        let [groups, _] = rows(store.path(), &arguments);
        assert!(groups.len() > 1, "{example}: {groups:?}");
    }
}

#[test]
fn what_cannot_be_compared_is_told() {
    let store = store();
    let told = |arguments: &[&str]| {
        let output = compare(store.path(), arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&["--metric", "rtt"]).contains("--since"));
    assert!(told(&["--metric", "rtt,syn-loss"]).contains("cannot be compared with each other"));
    assert!(told(&["--metric", "rtt", "--by", "asn"]).contains("--asn"));
    assert!(told(&["--metric", "rtt", "--towards", "dual-stack"]).contains("--networks"));
    assert!(told(&["--metric", "rtt", "--by", "weather"]).contains("label=NAME"));
    let unlabelled = [&PERIOD[..], &["--metric", "rtt", "--by", "label=rack"]].concat();
    assert!(told(&unlabelled).contains("60 sessions have no label=rack"));
    // A few sessions are shown, not tested.
    let few = [
        "--metric",
        "rtt",
        "--since",
        "2025-11-24T16:00:00Z",
        "--until",
        "2025-11-24T16:00:15Z",
    ];
    let output = compare(store.path(), &few);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not tested: fewer than 8 sessions"), "{text}");
}
