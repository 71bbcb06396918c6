//! What `fathom import` puts into a store, and that its measurements join there.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::process::{Command, Stdio};

use fathom_tests::{binary, capture_of_requests};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

fn fathom(arguments: &[&str]) -> String {
    let output = Command::new(binary().unwrap())
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn rows(text: &str) -> Vec<Value> {
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

/// The records of a command of its own, of the flow towards this port, as the columns that are
/// named.
fn of_command(name: &str, capture: &str, port: u16, columns: &[(&str, &str)]) -> Vec<Value> {
    let interval = ["--interval", "2s", "--format", "json"];
    let records = rows(&fathom(&[&[name, capture][..], &interval].concat()));
    let of_flow = records.iter().filter(|it| it["destination_port"] == port);
    let chosen = of_flow.map(|record| {
        let chosen = columns
            .iter()
            .map(|(column, field)| ((*column).to_owned(), record[*field].clone()));
        Value::Object(chosen.collect())
    });
    chosen.collect()
}

#[test]
fn measurements_of_a_capture_join_and_are_those_of_their_commands() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("loop.pcap");
    capture_of_requests(&path).unwrap();
    let path = path.to_str().unwrap();
    let store = directory.path().join("store");
    let store = store.to_str().unwrap();
    fathom(&[
        "import",
        path,
        "--store",
        store,
        "--interval",
        "2s",
        "--host",
        "study",
    ]);
    let query = |statement: &str| {
        let options = ["--format", "json", statement];
        rows(&fathom(
            &[&["query", "--store", store][..], &options].concat(),
        ))
    };

    let columns = [
        ("packets", "packets"),
        ("bytes", "bytes"),
        ("reverse_bytes", "reverse_bytes"),
        ("duration_ns", "duration_ns"),
    ];
    let traffic = of_command("traffic", path, 8080, &columns);
    assert_eq!(
        query("SELECT packets, bytes, reverse_bytes, duration_ns FROM flows ORDER BY time"),
        traffic
    );
    // 10 s from half a second on: six intervals, of which the first and the last are cut.
    let lengths: Vec<_> = traffic
        .iter()
        .map(|row| row["duration_ns"].clone())
        .collect();
    let last = 495 * MS;
    let whole = 2_000 * MS;
    assert_eq!(lengths, [1_500 * MS, whole, whole, whole, whole, last]);
    let columns = [("p50", "rtt_p50_ns"), ("least", "rtt_min_ns")];
    assert_eq!(
        query("SELECT rtt_p50_ns AS p50, rtt_min_ns AS least FROM flows ORDER BY time"),
        of_command("rtt", path, 8080, &columns)
    );
    let columns = [("p50", "rtt_p50_ns"), ("least", "rtt_min_ns")];
    assert_eq!(
        query(
            "SELECT client_rtt_p50_ns AS p50, client_rtt_min_ns AS least FROM flows ORDER BY time"
        ),
        of_command("rtt", path, 40_000, &columns)
    );
    // Both have counted the same packets in the same interval.
    let differences = "SELECT count(*) AS rows FROM flows f JOIN rtt_aggregate r \
        ON r.time = f.time AND r.destination = f.destination WHERE r.packets <> f.packets \
        OR r.bytes <> f.bytes OR r.duration_ns <> f.duration_ns";
    assert_eq!(query(differences), [json!({"rows": 0})]);
    // Which are the truth.
    let near = "SELECT count(*) AS rows, \
        bool_and(abs(rtt_p50_ns / 20e6 - 1) < 0.05) AS server, \
        bool_and(abs(client_rtt_p50_ns / 5e6 - 1) < 0.05) AS client, \
        bool_and(abs(latency_p50_ns / 25e6 - 1) < 0.05) AS latency, \
        count(latency_p50_ns) AS with_latency FROM flows";
    let expected = json!({
        "rows": 6, "server": true, "client": true, "latency": true, "with_latency": 6
    });
    assert_eq!(query(near), [expected]);
    assert_eq!(
        query("SELECT DISTINCT host FROM hosts"),
        [json!({"host": "study"})]
    );
}

#[test]
fn what_cannot_be_read_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    for (arguments, told) in [
        (&["/dev/null"][..], "is no file"),
        (
            &["nothing.pcap"],
            "cannot open the capture file nothing.pcap",
        ),
    ] {
        let output = Command::new(binary().unwrap())
            .args(
                [
                    &["import", "--store", store.to_str().unwrap()][..],
                    arguments,
                ]
                .concat(),
            )
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(told),
            "{stderr}"
        );
        assert!(!store.exists());
    }
    let output = Command::new(binary().unwrap())
        .args(["import", "a.pcap"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
