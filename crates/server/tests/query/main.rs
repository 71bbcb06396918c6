//! What `fathom-server query` answers about stores whose records are known.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod addresses;
mod agents;
mod records;

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fathom_record::{FlowKey, Histogram, Nanoseconds, Protocol, Record, Time};
use fathom_store::{Batches, Settings, Writer};
use records::{Aggregate, Traffic};

const BEGIN_S: u64 = 1_764_000_000;
const INTERVAL: Nanoseconds = Nanoseconds(10_000_000_000);

fn flow(client: u8, port: u16) -> FlowKey {
    FlowKey {
        protocol: Protocol::TCP,
        source: IpAddr::from([10, 0, client, 1]),
        source_port: port,
        destination: IpAddr::from([192, 0, 2, 1]),
        destination_port: 443,
    }
}

fn histogram(times_ms: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    times_ms
        .into_iter()
        .for_each(|ms| histogram.record(ms * 1_000_000));
    histogram
}

fn time(second: u64) -> Time {
    Time((BEGIN_S + second) * 1_000_000_000)
}

fn rtt(second: u64, flow: FlowKey, rtt_histogram: Histogram) -> Aggregate {
    Aggregate {
        time: time(second),
        duration_ns: INTERVAL,
        flow,
        rtt_p50_ns: rtt_histogram.quantile(0.5).map(Nanoseconds),
        interface: "eth0",
        rtt_histogram,
    }
}

fn traffic(second: u64, flow: FlowKey, bytes: u64) -> Traffic {
    Traffic {
        time: time(second),
        duration_ns: INTERVAL,
        flow,
        bytes,
        interface: "eth0",
    }
}

/// Puts records into a store, and lets go of it.
fn keep(directory: &Path, records: &[&dyn Record]) {
    let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
    append(&mut writer, records);
    writer.finish().unwrap();
}

fn append(writer: &mut Writer, records: &[&dyn Record]) {
    let mut batches = Batches::new("gateway");
    for record in records {
        batches.put(*record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.sync().unwrap();
}

fn query(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom-server"))
        .arg("query")
        .arg("--store")
        .arg(directory)
        .args(arguments)
        .output()
        .unwrap()
}

/// The answer in CSV, without the names of the columns.
fn answer(directory: &Path, statement: &str) -> String {
    let output = query(directory, &["--format", "csv", statement]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{statement}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_once('\n')
        .map_or("", |(_, rows)| rows)
        .to_owned()
}

fn refusal(directory: &Path, arguments: &[&str]) -> String {
    let output = query(directory, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_answer_without_rows_has_a_header() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[&rtt(0, flow(1, 1), histogram(1..=2))]);
    let shown = |format| {
        let statement = "SELECT source, rtt_histogram FROM rtt_aggregate WHERE false";
        let output = query(directory.path(), &["--format", format, statement]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(shown("csv"), "source,rtt_histogram\n");
    assert!(shown("text").contains("| source | rtt_histogram |"));
    assert_eq!(shown("json"), "");
}

#[test]
fn histograms_of_many_records_are_one() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (histogram(1..=60), histogram(41..=100));
    let all = {
        let mut all = one.clone();
        all.merge(&other);
        all
    };
    keep(directory.path(), &[&rtt(0, flow(1, 1), one)]);
    keep(directory.path(), &[&rtt(10, flow(2, 2), other)]);
    let statement = "SELECT quantile(merge(rtt_histogram), 0.5), quantile(merge(rtt_histogram), 0.99), quantile(merge(rtt_histogram), 0.25) FROM rtt_aggregate";
    let expected = [0.5, 0.99, 0.25].map(|part| all.quantile(part).unwrap().to_string());
    assert_eq!(
        answer(directory.path(), statement).trim(),
        expected.join(",")
    );
    let each = "SELECT quantile(rtt_histogram, 0.5) = rtt_p50_ns FROM rtt_aggregate";
    assert_eq!(answer(directory.path(), each), "true\ntrue\n");
    let by_network = "SELECT prefix(source, 16), prefix(destination, 64), count(*) FROM rtt_aggregate GROUP BY 1, 2";
    assert_eq!(
        answer(directory.path(), by_network),
        "10.0.0.0/16,192.0.2.1/32,2\n"
    );
}

#[test]
fn what_is_in_no_segment_yet_is_answered_too_and_once() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[&rtt(0, flow(1, 1), histogram([5]))]);
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    append(&mut writer, &[&rtt(10, flow(1, 1), histogram([7]))]);
    let statement = "SELECT host, count(*), max(time) FROM rtt_aggregate GROUP BY host";
    let expected = "gateway,2,2025-11-24T16:00:10Z\n";
    assert_eq!(answer(directory.path(), statement), expected);
    writer.finish().unwrap();
    assert_eq!(answer(directory.path(), statement), expected);
}

#[test]
fn views_join_what_measurements_say_of_a_flow() {
    let directory = tempfile::tempdir().unwrap();
    let flow = flow(1, 40_000);
    let back = flow.reversed();
    let traffic = |second, bytes| traffic(second, flow, bytes);
    keep(
        directory.path(),
        &[
            &rtt(0, flow, histogram([30])),
            &rtt(0, back, histogram([4])),
            &traffic(0, 100),
            &traffic(10, 200),
        ],
    );
    let statement = "SELECT bytes, round(rtt_p50_ns / 1e6), round(client_rtt_p50_ns / 1e6), latency_p50_ns FROM flows ORDER BY time";
    assert_eq!(
        answer(directory.path(), statement),
        "100,30.0,4.0,\n200,,,\n"
    );
    // There are views of what nobody has measured, and they are empty.
    for view in ["servers", "connections", "dns", "hops", "agents", "labels"] {
        assert_eq!(
            answer(directory.path(), &format!("SELECT * FROM {view}")),
            "",
            "{view}"
        );
    }
    let hosts = "SELECT kind, records FROM hosts ORDER BY kind";
    assert_eq!(answer(directory.path(), hosts), "rtt,2\ntraffic,2\n");
}

/// An hour has become rows of a minute, and the next one has not.
#[test]
fn views_join_rows_of_several_resolutions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let flow = flow(1, 40_000);
    for second in [10, 20, 70, 3_610, 3_620] {
        let milliseconds = if second == 20 { 50 } else { 30 };
        let round_trips = rtt(second, flow, histogram([milliseconds; 3]));
        keep(path, &[&round_trips, &traffic(second, flow, second)]);
    }
    let settings = Settings {
        minutes_after: Some(Duration::from_secs(3_600)),
        ..Settings::default()
    };
    let (mut writer, _) = Writer::open(path, settings).unwrap();
    writer.roll_up_due(time(2 * 3_600)).unwrap();
    assert_eq!(writer.status().rolled_up_segments, 6);
    writer.finish().unwrap();
    let statement = "SELECT duration_ns, bytes, round(rtt_p50_ns / 1e6) FROM flows ORDER BY time";
    let expected =
        "60000000000,30,30.0\n60000000000,70,30.0\n10000000000,3610,30.0\n10000000000,3620,30.0\n";
    assert_eq!(answer(path, statement), expected);
    // Of the first minute there are six samples, of which three are 50 ms.
    let slow = "SELECT round(quantile(merge(rtt_histogram), 0.6) / 1e6) FROM rtt_aggregate GROUP BY time ORDER BY time LIMIT 1";
    assert_eq!(answer(path, slow), "50.0\n");
}

#[test]
fn there_are_formats_for_people_and_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[&rtt(0, flow(1, 1), histogram([5, 6]))]);
    let statement = "SELECT source, source_port, rtt_histogram FROM rtt_aggregate";
    let json = query(directory.path(), &["--format", "json", statement]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (json["source"].as_str(), json["source_port"].as_u64()),
        (Some("10.0.1.1"), Some(1))
    );
    assert_eq!(json["rtt_histogram"].as_array().unwrap().len(), 2);
    let csv = answer(directory.path(), statement);
    let histogram = csv.trim().strip_prefix("10.0.1.1,1,\"").unwrap();
    let histogram = histogram.strip_suffix('"').unwrap().replace("\"\"", "\"");
    let histogram: serde_json::Value = serde_json::from_str(&histogram).unwrap();
    assert_eq!(histogram, json["rtt_histogram"]);
    let text = query(directory.path(), &["SELECT 1 AS one"]).stdout;
    assert!(String::from_utf8(text).unwrap().contains("| one |"));
    let file = directory.path().join("answer.parquet");
    let file = file.to_str().unwrap();
    let done = query(
        directory.path(),
        &["--format", "parquet", "--output", file, statement],
    );
    assert!(done.status.success());
    assert!(std::fs::read(file).unwrap().starts_with(b"PAR1"));
    let listed = query(directory.path(), &[]).stdout;
    let listed = String::from_utf8(listed).unwrap();
    for word in [
        "rtt_aggregate",
        "flows",
        "quantile(histogram, q)",
        "fathom query \"SELECT",
    ] {
        assert!(listed.contains(word), "{listed}");
    }
}

/// Every example that is listed is answered.
#[test]
fn the_examples_work() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[&rtt(0, flow(1, 1), histogram([5]))]);
    let listed = String::from_utf8(query(directory.path(), &[]).stdout).unwrap();
    let examples = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fathom query \""));
    let examples: Vec<_> = examples.filter_map(|line| line.strip_suffix('"')).collect();
    assert!(examples.len() >= 3);
    for example in examples {
        answer(directory.path(), example);
    }
}

#[test]
fn bad_questions_are_told_and_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    assert!(refusal(&store, &["SELECT 1"]).contains("cannot read"));
    std::fs::create_dir(&store).unwrap();
    assert!(refusal(&store, &["SELECT 1"]).contains("is no store"));
    keep(&store, &[&rtt(0, flow(1, 1), histogram([5]))]);
    assert!(refusal(&store, &["SELECT nothing FROM rtt_aggregate"]).contains("nothing"));
    let told = refusal(&store, &["SELECT 1 / (count(*) - 1) FROM rtt_aggregate"]);
    assert_eq!(told.matches("ivide").count(), 1, "{told}");
    for statement in [
        "DROP TABLE rtt_aggregate",
        "CREATE TABLE mine AS SELECT 1",
        "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION '/etc/passwd'",
        "COPY rtt_aggregate TO 'x.parquet'",
        "INSERT INTO rtt_aggregate SELECT * FROM rtt_aggregate",
        "SET datafusion.execution.batch_size = 1",
    ] {
        assert!(
            refusal(&store, &[statement]).contains("not supported"),
            "{statement}"
        );
    }
    assert!(refusal(&store, &["--format", "parquet", "SELECT 1"]).contains("--output"));
    assert_eq!(answer(&store, "SELECT count(*) FROM rtt_aggregate"), "1\n");
}

/// Segments merge and go while questions are asked, which are answered all the same: with all that
/// was there before, each once.
#[test]
fn questions_are_answered_while_segments_merge() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    keep(path, &[&rtt(0, flow(1, 1), histogram([5]))]);
    let (kept, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let has_merged = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at_once = Settings {
                log_age: Duration::ZERO,
                ..Settings::default()
            };
            let (mut writer, _) = Writer::open(path, at_once).unwrap();
            let mut second = 0;
            while !is_over.load(Ordering::Relaxed) && Instant::now() < deadline {
                second += 1;
                let record = rtt(second, flow(1, 1), histogram([5]));
                append(&mut writer, &[&record]);
                kept.store(second + 1, Ordering::Release);
                writer.tick(time(second)).unwrap();
                writer.merge_due(time(second)).unwrap();
                has_merged.fetch_or(writer.status().merged_segments > 0, Ordering::Relaxed);
                // A merge in half a second: a question takes a tenth of one.
                std::thread::park_timeout(Duration::from_millis(30));
            }
        });
        let statement = "SELECT count(*), count(DISTINCT time) FROM rtt_aggregate";
        let mut asked = 0;
        while asked < 40 || !has_merged.load(Ordering::Relaxed) {
            assert!(Instant::now() < deadline, "nothing merges");
            asked += 1;
            let before = kept.load(Ordering::Acquire);
            let told = answer(path, statement);
            let numbers: Vec<u64> = told
                .trim()
                .split(',')
                .map(|it| it.parse().unwrap())
                .collect();
            assert!(
                numbers[0] >= before && numbers[0] == numbers[1],
                "{told} of {before}"
            );
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
