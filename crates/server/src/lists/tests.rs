//! Lists of a store whose records are known.
#![expect(clippy::cast_sign_loss, reason = "durations are positive")]

use std::net::IpAddr;
use std::path::Path;

use clap::Parser;
use fathom_record::{FlowKey, Histogram, Nanoseconds, Protocol, Record, Time, record};
use fathom_store::{Batches, Settings, Writer};
use serde_json::{Value, json};

use super::flow::{self, FlowQuestion};
use super::groups::{self, Group};
use super::{Answer, List, Question, Range, answer};
use crate::query::{Engine, EngineArguments};

const BEGIN_S: u64 = 1_764_000_000;
const INTERVAL: Nanoseconds = Nanoseconds(10_000_000_000);
const LISTS: [List; 7] = [
    List::Flows,
    List::Hops,
    List::Servers,
    List::Connections,
    List::Dns,
    List::Hosts,
    List::Networks,
];

record! {
    /// As far as lists need it.
    #[record = "traffic"]
    struct Traffic {
        /// When.
        pub time: Time,
        /// How long.
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// How many.
        pub packets: u64,
        /// How much.
        pub bytes: u64,
        /// What was lost.
        pub loss_ratio: Option<f64>,
        /// Where.
        pub interface: &'static str,
    }
}

record! {
    /// As far as lists need it.
    #[record = "rtt_aggregate"]
    struct RoundTrips {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// Where.
        pub interface: &'static str,
        /// All.
        pub rtt_histogram: Histogram,
    }
}

record! {
    /// As far as lists need it.
    #[record = "hop"]
    struct Hop {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// Where on the path.
        pub ttl: u64,
        /// Sent.
        pub probes_sent: u64,
        /// Lost.
        pub probes_lost: u64,
        /// Where.
        pub interface: &'static str,
    }
}

fn flow(client: u8) -> FlowKey {
    FlowKey {
        protocol: Protocol::TCP,
        source: IpAddr::from([10, 0, client, 1]),
        source_port: 40_000,
        destination: IpAddr::from([192, 0, 2, 1]),
        destination_port: 443,
    }
}

fn time(second: u64) -> Time {
    Time((BEGIN_S + second) * 1_000_000_000)
}

fn range(from: u64, to: u64) -> Range {
    let ns = |second| i64::try_from(time(second).0).unwrap();
    Range {
        from_ns: ns(from),
        to_ns: ns(to),
    }
}

fn traffic(second: u64, client: u8, packets: u64, loss_ratio: Option<f64>) -> Traffic {
    Traffic {
        time: time(second),
        duration_ns: INTERVAL,
        flow: flow(client),
        packets,
        bytes: packets * 1_000,
        loss_ratio,
        interface: "eth0",
    }
}

fn round_trips(second: u64, flow: FlowKey, milliseconds: &[u64]) -> RoundTrips {
    let mut rtt_histogram = Histogram::new();
    for ms in milliseconds {
        rtt_histogram.record(ms * 1_000_000);
    }
    RoundTrips {
        time: time(second),
        flow,
        interface: "eth0",
        rtt_histogram,
    }
}

fn keep(directory: &Path, records: &[&dyn Record]) {
    let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
    let mut batches = Batches::new("gateway");
    for record in records {
        batches.put(*record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap();
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    engine: EngineArguments,
}

fn engine(directory: &Path) -> Engine {
    let store = directory.to_str().unwrap();
    let command = Command::parse_from(["test", "--store", store]);
    Engine::open(&command.engine).unwrap()
}

fn ask(engine: &Engine, list: List, filter: &str, sort: Option<&str>, limit: usize) -> Answer {
    let question = Question {
        list,
        range: range(0, 60),
        filter: filter.to_owned(),
        sort: sort.map(str::to_owned),
        limit,
    };
    block_on(answer(engine, &question)).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(future)
}

fn values<'a>(answer: &'a Answer, name: &str) -> Vec<&'a Value> {
    let column = answer.columns.iter().position(|it| it.name == name);
    let column = column.unwrap();
    answer.rows.iter().map(|row| &row[column]).collect()
}

/// Two flows, of which the first carries more, and the second has longer round trips.
fn two_flows(directory: &Path) {
    keep(
        directory,
        &[
            &traffic(10, 1, 300, Some(0.0)),
            &traffic(20, 1, 100, Some(0.2)),
            &traffic(30, 1, 500, None),
            &traffic(20, 2, 50, None),
            &traffic(70, 3, 900, None),
            &round_trips(10, flow(1), &[20, 20]),
            &round_trips(20, flow(1), &[40, 40, 40]),
            &round_trips(10, flow(1).reversed(), &[3]),
            &round_trips(20, flow(2), &[90]),
        ],
    );
}

#[test]
fn a_flow_is_one_row_of_all_its_intervals() {
    let directory = tempfile::tempdir().unwrap();
    two_flows(directory.path());
    let engine = engine(directory.path());
    let told = ask(&engine, List::Flows, "", None, 10);
    assert_eq!((told.total, told.sort), (2, "bytes"));
    assert_eq!(values(&told, "bytes"), [900_000, 50_000]);
    assert_eq!(values(&told, "source"), ["10.0.1.1", "10.0.2.1"]);
    // Only packets of which loss is known weigh: 100 of 400 lost a fifth.
    assert_eq!(values(&told, "loss_ratio"), [&json!(0.05), &Value::Null]);
    // Of a histogram, within 1.6 %.
    let ms = |name| -> Vec<Option<u64>> {
        let values = values(&told, name).into_iter();
        let rounded = |ns: f64| (ns / 1e6).round() as u64;
        values.map(|it| it.as_f64().map(rounded)).collect()
    };
    assert_eq!(ms("rtt_p50_ns"), [Some(40), Some(89)]);
    assert_eq!(ms("client_rtt_p50_ns"), [Some(3), None]);
    assert_eq!(values(&told, "last_time")[0], "2025-11-24T16:00:30Z");
}

#[test]
fn rows_are_sorted_cut_and_filtered() {
    let directory = tempfile::tempdir().unwrap();
    two_flows(directory.path());
    let engine = engine(directory.path());
    let by_rtt = ask(&engine, List::Flows, "", Some("rtt_p99_ns"), 1);
    assert_eq!(by_rtt.total, 2);
    assert_eq!(values(&by_rtt, "source"), ["10.0.2.1"]);
    for filter in ["10.0.1.1", "10.0.1.1:40000", "0.1.1"] {
        let told = ask(&engine, List::Flows, filter, None, 10);
        assert_eq!(values(&told, "source"), ["10.0.1.1"], "{filter}");
    }
    assert_eq!(ask(&engine, List::Flows, "GATEWAY", None, 10).total, 2);
    for hostile in ["') OR 1=1 --", "%", "\0", "'\"$1", "10.0.3.1"] {
        assert_eq!(ask(&engine, List::Flows, hostile, None, 10).total, 0);
    }
    let question = Question {
        list: List::Flows,
        range: range(0, 60),
        filter: String::new(),
        sort: Some("1; DROP TABLE traffic".to_owned()),
        limit: 1,
    };
    let error = block_on(answer(&engine, &question)).unwrap_err();
    assert!(error.to_string().contains("there is no column"), "{error}");
}

#[test]
fn every_list_sorts_by_each_column_also_without_records() {
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[]);
    let empty = engine(directory.path());
    let other = tempfile::tempdir().unwrap();
    two_flows(other.path());
    let full = engine(other.path());
    for list in LISTS {
        for column in list.columns() {
            assert_eq!(ask(&empty, list, "", Some(column.name), 10).total, 0);
            ask(&full, list, "gate", Some(column.name), 10);
        }
    }
    let hosts = ask(&full, List::Hosts, "", None, 10);
    assert_eq!(values(&hosts, "measurements"), ["rtt, traffic"]);
    let networks = ask(&full, List::Networks, "", None, 10);
    assert_eq!(
        values(&networks, "network"),
        ["192.0.2.0/24", "10.0.1.0/24"]
    );
}

#[test]
fn a_flow_is_told_over_time() {
    let directory = tempfile::tempdir().unwrap();
    two_flows(directory.path());
    let hop = |ttl, probes_lost| Hop {
        time: time(20),
        flow: flow(1),
        ttl,
        probes_sent: 10,
        probes_lost,
        interface: "eth0",
    };
    keep(directory.path(), &[&hop(2, 5), &hop(1, 0)]);
    let engine = engine(directory.path());
    let mut question = FlowQuestion {
        community_id: flow(1).community_id().to_string(),
        host: None,
        range: range(0, 60),
    };
    let told = block_on(flow::answer(&engine, &question)).unwrap().unwrap();
    assert_eq!(told.flow.source.as_deref(), Some("10.0.1.1"));
    let bytes: Vec<_> = told.series.iter().map(|point| point.bytes).collect();
    assert_eq!(bytes, [Some(300_000), Some(100_000), Some(500_000)]);
    assert!(told.series[0].client_rtt_p50_ns.is_some());
    assert!(told.series[2].rtt_p50_ns.is_none());
    let lost: Vec<_> = told
        .hops
        .iter()
        .map(|hop| (hop.ttl, hop.probes_lost))
        .collect();
    assert_eq!(lost, [(1, Some(0)), (2, Some(5))]);
    question.host = Some("another".to_owned());
    assert!(
        block_on(flow::answer(&engine, &question))
            .unwrap()
            .is_none()
    );
}

#[test]
fn flows_are_put_together() {
    let directory = tempfile::tempdir().unwrap();
    two_flows(directory.path());
    let engine = engine(directory.path());
    let question = |filter: &str| Question {
        list: List::Flows,
        range: range(0, 60),
        filter: filter.to_owned(),
        sort: None,
        limit: 10,
    };
    let of = |group, filter| block_on(groups::answer(&engine, &question(filter), group)).unwrap();
    let servers = of(Group::Server, "");
    assert_eq!(values(&servers, "name"), ["tcp 192.0.2.1:443"]);
    assert_eq!(values(&servers, "flows"), [2]);
    assert_eq!(values(&servers, "bytes"), [950_000]);
    // The six round trips of both flows: 20, 20, 40, 40, 40 and 90 ms.
    let p50 = values(&servers, "rtt_p50_ns")[0].as_f64().unwrap();
    assert!((p50 / 40e6 - 1.0).abs() < 0.02, "{p50}");
    assert_eq!(values(&servers, "loss_ratio"), [0.05]);
    let networks = of(Group::Network, "");
    assert_eq!(values(&networks, "name"), ["10.0.1.0/24", "10.0.2.0/24"]);
    assert_eq!(
        values(&of(Group::Network, "0.2.0"), "name"),
        ["10.0.2.0/24"]
    );
    assert_eq!(values(&of(Group::Host, ""), "name"), ["gateway"]);
    // Nobody told whose they are.
    assert_eq!(values(&of(Group::Process, ""), "name"), [&Value::Null]);
}
