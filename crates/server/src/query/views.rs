//! Views: questions that everybody has, as tables. They are SQL over the kinds of records.

use std::collections::BTreeMap;
use std::path::Path;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::prelude::SessionContext;
use fathom_store::{Snapshot, histogram_type};

use super::{addresses, functions};

/// A view.
struct View {
    name: &'static str,
    about: &'static str,
    sql: &'static str,
}

const VIEWS: [View; 9] = [
    View {
        name: "flows",
        about: "What a flow carried in an interval, how long round trips took towards its server (rtt) and its client (client_rtt), and what its client waited (latency).",
        sql: include_str!("views/flows.sql"),
    },
    View {
        name: "servers",
        about: "What the clients of a server's port waited in an interval.",
        sql: include_str!("views/servers.sql"),
    },
    View {
        name: "connections",
        about: "Connections of the host that have ended, and what they went through.",
        sql: include_str!("views/connections.sql"),
    },
    View {
        name: "processes",
        about: "Whose a connection of the host is, and between which times: flows join it by host, community_id and time.",
        sql: include_str!("views/processes.sql"),
    },
    View {
        name: "dns",
        about: "DNS queries of the host, and what became of them.",
        sql: include_str!("views/dns.sql"),
    },
    View {
        name: "hops",
        about: "Routers on the path of flows, and their destinations, by interval.",
        sql: include_str!("views/hops.sql"),
    },
    View {
        name: "hosts",
        about: "Who observed what, since when and until when.",
        sql: include_str!("views/hosts.sql"),
    },
    View {
        name: "agents",
        about: "What the agent of a host measures, as it said last.",
        sql: include_str!("views/agents.sql"),
    },
    View {
        name: "labels",
        about: "What hosts are called besides (`fathom agent --label`): a row each.",
        sql: include_str!("views/labels.sql"),
    },
];

const EXAMPLES: [&str; 5] = [
    "SELECT * FROM servers ORDER BY latency_p99_ns DESC LIMIT 10",
    "SELECT prefix(destination, 24) AS network, quantile(merge(rtt_histogram), 0.99) / 1e6 AS rtt_p99_ms FROM rtt_aggregate GROUP BY 1 ORDER BY 2 DESC",
    "SELECT p.process, p.pod, sum(f.bytes + f.reverse_bytes) AS bytes FROM flows f JOIN processes p ON p.host = f.host AND p.community_id = f.community_id AND f.time BETWEEN p.first_time AND p.last_time + INTERVAL '5 minutes' GROUP BY 1, 2",
    "SELECT l.value AS site, sum(s.responses_per_second) AS responses FROM servers s JOIN labels l ON l.host = s.host AND l.name = 'site' GROUP BY 1",
    "SELECT source, destination, sum(bytes + reverse_bytes) AS bytes FROM flows WHERE time > now() - INTERVAL '10 minutes' GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 10",
];

/// The columns that views and other commands read, by kind of record: `u` unsigned, `t` time, `f`
/// float, `p` port, `b` boolean, `h` histogram, text without.
const WANTED: [(&str, &str); 12] = [
    (
        "traffic",
        "time:t duration_ns:u protocol source source_port:p destination destination_port:p community_id packets:u bytes:u packets_retransmitted:u reverse_packets:u reverse_bytes:u reverse_packets_retransmitted:u loss_ratio:f reverse_loss_ratio:f interface packets_lost_before:u packets_lost_after:u reverse_packets_lost_before:u reverse_packets_lost_after:u",
    ),
    (
        "rtt_aggregate",
        "time:t protocol source source_port:p destination destination_port:p community_id rtt_samples:u rtt_min_ns:u rtt_mean_ns:u rtt_p50_ns:u rtt_p99_ns:u interface rtt_histogram:h",
    ),
    (
        "response_aggregate",
        "time:t protocol source source_port:p destination destination_port:p community_id duration_ns:u flows:u responses_per_second:f think_ns:u latency_p50_ns:u latency_p99_ns:u sure:f epochs_without:u waiting_ns:u interface latency_histogram:h latency_p90_ns:u",
    ),
    (
        "profile",
        "time:t protocol source source_port:p destination destination_port:p community_id reason start_time:t role pid:u process cgroup container container_runtime pod systemd_unit network_namespace:u establishment_ns:u accept_queue_ns:u total_duration_ns:u total_establishment_ns:u total_accept_queue_ns:u total_bytes_sent:u total_bytes_received:u total_packets_lost:u total_packets_retransmitted:u total_rtt_mean_ns:u total_stalls:u total_stalled_ns:u stalls:u stalled_ns:u packets_lost:u interface start_state end_state total_rtt_samples:u packets_retransmitted:u srtt_ns:u jitter_ns:u duration_ns:u is_existing:b syn_acks_retransmitted:u window_limited_ns:u busy_ns:u",
    ),
    (
        "profile_dns",
        "time:t protocol source destination destination_port:p query_name query_type response_code reason latency_ns:u retries:u process container pod systemd_unit end_state start_time:t pid:u",
    ),
    (
        "hop",
        "time:t protocol source source_port:p destination destination_port:p community_id duration_ns:u ttl:u responder responder_name probes_sent:u probes_lost:u silence rtt_min_ns:u rtt_p50_ns:u rtt_p99_ns:u queue_ns:u marks interface rtt_histogram:h is_destination:b rtt_stdev_ns:u",
    ),
    (
        "congestion",
        "time:t community_id ttl:u near far direction queue_ns:u interface source source_port:p destination destination_port:p",
    ),
    (
        "route_change",
        "time:t community_id change ttl:u old new interface source source_port:p destination destination_port:p",
    ),
    (
        "response_wait",
        "time:t community_id waiting_ns:u interface",
    ),
    (
        "balance",
        "time:t service server address share:f latency_ns:u state why",
    ),
    ("balance_service", "time:t service network port:p"),
    (
        "agent",
        "time:t version measurements interfaces interval_ns:u labels",
    ),
];

/// The columns that views read of each kind of record.
pub(super) fn wanted_columns() -> BTreeMap<&'static str, Vec<Field>> {
    let column = |text: &str| {
        let (name, kind) = text.split_once(':').unwrap_or((text, ""));
        let kind = match kind {
            "u" => DataType::UInt64,
            "f" => DataType::Float64,
            "p" => DataType::UInt16,
            "t" => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            "b" => DataType::Boolean,
            "h" => histogram_type(),
            _ => DataType::Utf8,
        };
        Field::new(name, kind, true)
    };
    let kinds = WANTED.iter().map(|(kind, columns)| {
        let columns = ["host"].into_iter().chain(columns.split(' '));
        (*kind, columns.map(column).collect())
    });
    kinds.collect()
}

/// Makes them.
///
/// # Errors
/// When a view is no SQL.
pub(super) async fn register(context: &SessionContext) -> anyhow::Result<()> {
    for view in &VIEWS {
        let table = context.sql(view.sql).await?.into_view();
        context.register_table(view.name, table)?;
    }
    Ok(())
}

/// Says what there is to ask for.
///
/// # Errors
/// When a table is not there.
pub(super) async fn list(
    context: &SessionContext,
    snapshot: &Snapshot,
    directory: &Path,
) -> anyhow::Result<()> {
    println!(
        "Store: {}\n\nTables, one for each kind of record (fathom-records(7)):",
        directory.display()
    );
    for kind in snapshot.kinds() {
        println!(
            "  {:<20} {} segments, {:.1} MB",
            kind.name,
            kind.segments.len(),
            kind.bytes as f64 / 1e6
        );
    }
    println!("\nViews:");
    for view in &VIEWS {
        println!("  {}  {}", view.name, view.about);
        let table = context.table(view.name).await?;
        let names: Vec<_> = table
            .schema()
            .fields()
            .iter()
            .map(|it| it.name().as_str())
            .collect();
        println!("      {}", names.join(", "));
    }
    println!("\nFunctions:");
    for (name, about) in functions::ABOUT.iter().chain(&addresses::ABOUT) {
        println!("  {name}  {about}");
    }
    println!("\nExamples:");
    for example in EXAMPLES {
        println!("  fathom query \"{example}\"");
    }
    Ok(())
}
