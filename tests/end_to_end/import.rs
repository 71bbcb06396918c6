//! What `fathom import` puts into a store, and that its measurements join there.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::path::Path;
use std::process::{Command, Stdio};

use etherparse::{PacketBuilder, TcpHeader, TcpOptionElement};
use fathom_capture::{LinkType, Writer};
use fathom_tests::binary;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
/// 2023-11-14T22:13:20Z, and half a second.
const BEGIN_NS: u64 = 1_700_000_000_500 * MS;
/// From the point of capture to the server and back.
const SERVER_NS: u64 = 20 * MS;
/// The same of the client.
const CLIENT_NS: u64 = 5 * MS;
const REQUESTS: u32 = 400;
const BYTES: usize = 100;

/// A connection whose client sends its next request when it has the answer to the last.
fn capture(path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = Writer::new(file, LinkType::IPV4, 0).unwrap();
    let mut write = |time_ns: u64, is_request: bool, echoed_ns: u64, length: usize, count: u32| {
        let (client, server) = (([10, 0, 0, 1], 40_000), ([10, 0, 1, 1], 8080));
        let (from, to) = if is_request {
            (client, server)
        } else {
            (server, client)
        };
        let mut header = TcpHeader::new(from.1, to.1, count * BYTES as u32 + 1, 65_000);
        header.ack = true;
        header.psh = length > 0;
        // The answer to a request acknowledges it.
        let answered = count + u32::from(!is_request);
        header.acknowledgment_number = answered * BYTES as u32 + 1;
        let ticks = |ns: u64| (ns / MS) as u32;
        header
            .set_options(&[TcpOptionElement::Timestamp(
                ticks(time_ns),
                ticks(echoed_ns),
            )])
            .unwrap();
        let mut bytes = Vec::new();
        let packet = PacketBuilder::ipv4(from.0, to.0, 64).tcp_header(header);
        packet.write(&mut bytes, &vec![7; length]).unwrap();
        writer.write(time_ns, bytes.len() as u32, &bytes).unwrap();
    };
    let mut time_ns = BEGIN_NS;
    for count in 0..REQUESTS {
        write(time_ns, true, time_ns - CLIENT_NS, BYTES, count);
        write(time_ns + SERVER_NS, false, time_ns, BYTES, count);
        time_ns += SERVER_NS + CLIENT_NS;
    }
    writer.finish().unwrap();
}

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
    capture(&path);
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
