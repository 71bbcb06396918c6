//! Answers as stores give them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::asker::{Ask, Content, Newest, Reply, Told, What};
use crate::lists::flow::FlowAnswer;
use crate::lists::{Answer, Column, List, groups};

pub(super) const SECOND: i64 = 1_000_000_000;
/// 2025-11-24T16:00:00Z.
pub(super) const NEWEST_S: i64 = 1_764_000_000;

/// A time so many seconds before the newest record.
pub(super) fn before(seconds: i64) -> String {
    let time = Timestamp::from_second(NEWEST_S - seconds).unwrap();
    time.to_string()
}

/// Rows of a list, from some of their columns.
pub(super) fn answer(list: List, rows: &[Value]) -> Answer {
    answer_of(list.columns().to_vec(), rows)
}

pub(super) fn answer_of(columns: Vec<Column>, rows: &[Value]) -> Answer {
    let values = |row: &Value| {
        let columns = columns.iter();
        columns
            .map(|it| row.get(it.name).cloned().unwrap_or_default())
            .collect()
    };
    Answer {
        rows: rows.iter().map(values).collect(),
        columns,
        total: rows.len() as u64,
        sort: "",
    }
}

pub(super) fn flow(port: u16, seconds_ago: i64, more: &Value) -> Value {
    let mut row = json!({
        "source": "10.0.0.1", "source_port": port, "protocol": "tcp",
        "destination": "192.0.2.7", "destination_port": 443,
        "bytes": 60_000 * u64::from(port), "reverse_bytes": 9_000_000,
        "rtt_p50_ns": 20_100_000, "rtt_p99_ns": 24_000_000, "client_rtt_p50_ns": 900_000,
        "latency_p50_ns": 35_000_000, "latency_p99_ns": 1_200_000_000_u64,
        "loss_ratio": 0.012, "reverse_loss_ratio": 0.07,
        "host": "gateway", "interface": "eth0", "last_time": before(seconds_ago),
        "community_id": format!("1:{port}"),
    });
    row.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    row
}

/// Rows of every tab.
pub(super) fn rows_of(list: List) -> Vec<Value> {
    let host = json!({"host": "gateway", "last_time": before(0)});
    let row = |mut more: Value| {
        more.as_object_mut()
            .unwrap()
            .extend(host.as_object().unwrap().clone());
        more
    };
    match list {
        List::Flows => vec![
            flow(1000, 0, &json!({})),
            flow(
                3000,
                10,
                &json!({"source": "2001:db8::1", "rtt_p50_ns": null}),
            ),
            flow(2000, 10, &json!({"loss_ratio": null, "protocol": "udp"})),
            flow(9000, 50, &json!({})),
        ],
        List::Hops => vec![
            row(json!({
                "ttl": 2, "responder": "192.0.2.2", "responder_name": "core1.example.net",
                "rtt_p50_ns": 4_000_000, "rtt_p99_ns": 90_000_000, "queue_ns": 86_000_000,
                "loss_ratio": 0.25, "silence": "rate limited", "flows": 3, "probes_sent": 40,
            })),
            row(json!({"ttl": 3, "responder": null, "loss_ratio": 1.0, "probes_sent": 12})),
        ],
        List::Servers => vec![row(json!({
            "destination": "192.0.2.7", "destination_port": 443, "protocol": "tcp",
            "latency_p50_ns": 35_000_000, "latency_p90_ns": 120_000_000,
            "latency_p99_ns": 1_200_000_000_u64, "responses": 600.0, "flows": 12, "sure": 0.93,
        }))],
        List::Connections => vec![row(json!({
            "source": "10.0.0.1", "source_port": 5000, "protocol": "tcp", "process": "nginx",
            "destination": "192.0.2.7", "destination_port": 443, "reason": "FIN",
            "duration_ns": 3_000_000_000_u64, "establishment_ns": 21_000_000,
            "rtt_mean_ns": 20_000_000, "bytes_sent": 1_200, "bytes_received": 4_500_000,
            "packets_lost": 3, "stalled_ns": 400_000_000, "community_id": "1:5000",
        }))],
        List::Networks => vec![row(json!({
            "network": "192.0.2.0/24", "flows": 9, "rtt_min_ns": 19_000_000,
            "rtt_p50_ns": 20_000_000, "rtt_p99_ns": 240_000_000, "rtt_samples": 12_345,
        }))],
        List::Dns => vec![row(json!({
            "query_name": "www.example.net", "query_type": "A", "resolver": "192.0.2.53",
            "queries": 20, "failures": 2, "retries": 0, "latency_p50_ns": 900_000,
            "latency_p99_ns": 5_000_000_000_u64, "process": "curl",
        }))],
        List::Hosts => vec![row(json!({
            "measurements": "rtt, traffic", "records": 1_234_567, "version": "0.1.0",
            "interfaces": "eth0", "labels": "site=ber1", "interval_ns": 10_000_000_000_u64,
        }))],
    }
}

/// Flows by their server.
pub(super) fn grouped() -> Answer {
    let row = json!({
        "name": "tcp 192.0.2.7:443", "flows": 12, "bytes": 4_000_000, "reverse_bytes": 90_000_000,
        "rtt_p50_ns": 20_000_000, "latency_p50_ns": 130_000_000, "loss_ratio": 0.001,
    });
    answer_of(groups::COLUMNS.to_vec(), &[row])
}

pub(super) fn newest() -> Newest {
    Newest {
        time_ns: Some(NEWEST_S * SECOND),
        interval_ns: Some(10_000_000_000),
    }
}

/// Answers what is asked, as a store would.
pub(super) fn reply_to(ask: Ask, newest: Newest) -> Reply {
    let content = match &ask.what {
        What::List { group: Some(_), .. } => Content::Rows(grouped()),
        What::List { list, .. } => Content::Rows(answer(*list, &rows_of(*list))),
        What::Flow { .. } => Content::Flow(Some(Box::new(page()))),
        What::Explanation(_) => Content::Explanation(None),
    };
    let range = ask.span.range(newest.time_ns.unwrap_or_default());
    Reply {
        ask,
        answer: Ok(Told {
            newest,
            range,
            content,
        }),
    }
}

/// A flow of which everything was measured.
pub(super) fn page() -> FlowAnswer {
    let point = |step: i64| {
        let is_loaded = (8..=16).contains(&step);
        let factor = if is_loaded { 4 } else { 1 };
        serde_json::from_value(json!({
            "time": before(60 - 2 * step), "bytes": 20_000 * factor, "reverse_bytes": 90_000 * factor,
            "loss_ratio": if is_loaded { 0.02 } else { 0.0 },
            "rtt_p50_ns": 20_000_000 * factor, "rtt_p99_ns": 26_000_000 * factor,
            "client_rtt_p50_ns": 1_000_000, "latency_p50_ns": 30_000_000 * factor,
        }))
        .unwrap()
    };
    let hop = |ttl: u64, queue_ns: Option<u64>| {
        serde_json::from_value(json!({
            "ttl": ttl, "responder": format!("192.0.2.{ttl}"), "rtt_p50_ns": ttl * 4_000_000,
            "rtt_p99_ns": ttl * 5_000_000, "queue_ns": queue_ns,
            "probes_sent": 40, "probes_lost": ttl - 1,
        }))
        .unwrap()
    };
    let event = |seconds_ago: i64, kind: &str, text: &str| {
        let time = before(seconds_ago);
        serde_json::from_value(json!({"time": time, "kind": kind, "text": text})).unwrap()
    };
    let found = flow(1000, 0, &json!({"first_time": before(60)}));
    FlowAnswer {
        flow: serde_json::from_value(found).unwrap(),
        series: (1..=30).map(point).collect(),
        step_ns: 2 * SECOND,
        hops: vec![
            hop(1, Some(200_000)),
            hop(2, Some(86_000_000)),
            hop(3, None),
        ],
        events: vec![
            event(44, "congestion", "hop 2 (192.0.2.2) adds 86 ms, forward"),
            event(2, "profile", "FIN"),
        ],
    }
}
