//! What `fathom-server compare` says of stores whose sessions are known.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod records;
mod sessions;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use sessions::{MILLISECOND, SESSIONS, store};

const PERIOD: [&str; 4] = [
    "--since",
    "2025-11-24T16:00:00Z",
    "--until",
    "2025-11-24T17:00:00Z",
];

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
