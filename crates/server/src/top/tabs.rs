//! The tabs, and their columns.

use fathom_terminal::Column;

use super::columns::{
    Shown, above_least, age, agent_age, bits, by, bytes, count, flow, latency, loss, only, queue,
    rate, router, server, text, time, trouble, unanswered, whole_percent,
};
use crate::lists::List;

/// A tab.
pub(super) struct Tab {
    pub(super) list: List,
    /// Its name above the table.
    pub(super) name: &'static str,
    pub(super) columns: &'static [Shown],
    /// What tells rows apart.
    pub(super) identity: &'static [&'static str],
}

const fn tab(
    list: List,
    name: &'static str,
    columns: &'static [Shown],
    identity: &'static [&'static str],
) -> Tab {
    Tab {
        list,
        name,
        columns,
        identity,
    }
}

const FLOW_IDENTITY: &[&str] = &["host", "interface", "community_id", "source", "source_port"];
const SERVER_IDENTITY: &[&str] = &["host", "protocol", "destination", "destination_port"];
const NAME_IDENTITY: &[&str] = &["host", "query_name", "query_type", "resolver"];

/// All, from left to right.
pub(super) static TABS: [Tab; 7] = [
    tab(List::Flows, "flows", FLOWS, FLOW_IDENTITY),
    tab(List::Hops, "hops", HOPS, &["host", "ttl", "responder"]),
    tab(List::Servers, "servers", SERVERS, SERVER_IDENTITY),
    tab(
        List::Connections,
        "connections",
        CONNECTIONS,
        &["host", "community_id", "last_time"],
    ),
    tab(List::Networks, "networks", NETWORKS, &["host", "network"]),
    tab(List::Dns, "dns", DNS, NAME_IDENTITY),
    tab(List::Hosts, "hosts", HOSTS, &["host"]),
];

/// Flows that are put together, in place of their tab.
pub(super) static GROUPED: Tab = tab(List::Flows, "flows", GROUPS, &["name"]);

/// The place of a list among the tabs.
pub(super) fn place_of(list: List) -> usize {
    let place = TABS.iter().position(|tab| tab.list == list);
    place.unwrap_or_default()
}

const HOST: Shown = only(Column::text("host", 12, 20), "host", text);
const BITS: Shown = by(Column::number("bit/s", 7, 1), "busiest", "bytes", bits);
const BITS_BACK: Shown = by(
    Column::number("back", 7, 4),
    "busiest back",
    "reverse_bytes",
    bits,
);
const RTT: Shown = by(
    Column::number("rtt p50", 8, 2),
    "slowest p50",
    "rtt_p50_ns",
    time,
);
const RTT_P99: Shown = by(
    Column::number("p99", 8, 6),
    "slowest p99",
    "rtt_p99_ns",
    time,
);
const CLIENT: Shown = by(
    Column::number("client", 8, 7),
    "slowest client",
    "client_rtt_p50_ns",
    time,
);
const RESPONSE: Shown = by(
    Column::number("response", 8, 3),
    "slowest response",
    "latency_p50_ns",
    latency,
);
const RESPONSE_P99: Shown = by(
    Column::number("p99", 8, 8),
    "slowest response p99",
    "latency_p99_ns",
    latency,
);
const LOSS: Shown = by(
    Column::number("loss", 7, 5),
    "most lost",
    "loss_ratio",
    loss,
);
const LOSS_BACK: Shown = by(
    Column::number("back", 7, 9),
    "most lost back",
    "reverse_loss_ratio",
    loss,
);

const FLOWS: &[Shown] = &[
    only(Column::wide("flow", 40, 0), "", flow),
    BITS,
    BITS_BACK,
    RTT,
    RTT_P99,
    CLIENT,
    RESPONSE,
    RESPONSE_P99,
    LOSS,
    LOSS_BACK,
    HOST,
    only(Column::text("interface", 9, 21), "interface", text),
];

const GROUPS: &[Shown] = &[
    only(Column::wide("group", 24, 0), "name", text),
    BITS,
    BITS_BACK,
    by(Column::number("flows", 6, 1), "most flows", "flows", count),
    RTT,
    RTT_P99,
    CLIENT,
    RESPONSE,
    RESPONSE_P99,
    LOSS,
    LOSS_BACK,
];

const HOPS: &[Shown] = &[
    only(Column::number("hop", 3, 1), "ttl", count),
    only(Column::wide("router", 24, 0), "", router),
    by(
        Column::number("queue", 8, 2),
        "longest queue",
        "queue_ns",
        queue,
    ),
    RTT,
    RTT_P99,
    by(
        Column::number("lost", 8, 5),
        "most lost",
        "loss_ratio",
        unanswered,
    ),
    only(Column::text("silence", 12, 8), "silence", text),
    by(Column::number("flows", 6, 6), "most flows", "flows", count),
    by(
        Column::number("probes", 7, 7),
        "most probes",
        "probes_sent",
        count,
    ),
    only(Column::text("marks", 12, 9), "marks", text),
    HOST,
];

const SERVERS: &[Shown] = &[
    only(Column::wide("server", 26, 0), "", server),
    by(
        Column::number("p99", 8, 2),
        "slowest p99",
        "latency_p99_ns",
        latency,
    ),
    by(
        Column::number("p90", 8, 5),
        "slowest p90",
        "latency_p90_ns",
        latency,
    ),
    by(
        Column::number("p50", 8, 1),
        "slowest p50",
        "latency_p50_ns",
        latency,
    ),
    by(
        Column::number("responses/s", 11, 3),
        "busiest",
        "responses",
        rate,
    ),
    by(Column::number("flows", 6, 4), "most flows", "flows", count),
    by(
        Column::number("waiting", 8, 6),
        "longest waiting",
        "waiting_ns",
        latency,
    ),
    only(Column::number("sure", 5, 7), "sure", whole_percent),
    HOST,
];

const CONNECTIONS: &[Shown] = &[
    only(Column::wide("connection", 40, 0), "", flow),
    only(Column::text("process", 14, 1), "process", text),
    only(Column::text("ended by", 12, 3), "reason", text),
    by(
        Column::number("ended", 7, 2),
        "last ended",
        "last_time",
        age,
    ),
    by(
        Column::number("duration", 8, 4),
        "longest",
        "duration_ns",
        time,
    ),
    by(
        Column::number("set up", 8, 9),
        "slowest set up",
        "establishment_ns",
        latency,
    ),
    by(Column::number("rtt", 8, 5), "slowest", "rtt_mean_ns", time),
    by(
        Column::number("sent", 7, 7),
        "most sent",
        "bytes_sent",
        bytes,
    ),
    by(
        Column::number("received", 8, 8),
        "most received",
        "bytes_received",
        bytes,
    ),
    by(
        Column::number("lost", 5, 6),
        "most lost",
        "packets_lost",
        trouble,
    ),
    by(
        Column::number("stalled", 8, 10),
        "longest stalled",
        "stalled_ns",
        latency,
    ),
    only(Column::text("unit", 16, 22), "systemd_unit", text),
    only(Column::text("pod", 16, 23), "pod", text),
    HOST,
];

const NETWORKS: &[Shown] = &[
    only(Column::wide("network", 20, 0), "network", text),
    by(
        Column::number("rtt p99", 8, 2),
        "slowest p99",
        "rtt_p99_ns",
        above_least,
    ),
    by(
        Column::number("p50", 8, 1),
        "slowest p50",
        "rtt_p50_ns",
        above_least,
    ),
    by(
        Column::number("least", 8, 3),
        "farthest",
        "rtt_min_ns",
        time,
    ),
    by(Column::number("flows", 7, 4), "most flows", "flows", count),
    by(
        Column::number("samples", 9, 5),
        "most samples",
        "rtt_samples",
        count,
    ),
    HOST,
];

const DNS: &[Shown] = &[
    only(Column::wide("name", 24, 0), "query_name", text),
    only(Column::text("type", 5, 6), "query_type", text),
    only(Column::text("resolver", 16, 5), "resolver", text),
    by(
        Column::number("queries", 7, 1),
        "most asked",
        "queries",
        count,
    ),
    by(
        Column::number("failed", 6, 3),
        "most failed",
        "failures",
        trouble,
    ),
    by(
        Column::number("again", 6, 7),
        "most asked again",
        "retries",
        trouble,
    ),
    by(
        Column::number("p50", 8, 4),
        "slowest p50",
        "latency_p50_ns",
        latency,
    ),
    by(
        Column::number("p99", 8, 2),
        "slowest p99",
        "latency_p99_ns",
        latency,
    ),
    only(Column::text("process", 14, 8), "process", text),
    HOST,
];

const HOSTS: &[Shown] = &[
    only(Column::text("host", 20, 0), "host", text),
    by(
        Column::number("last record", 11, 1),
        "newest",
        "last_time",
        agent_age,
    ),
    by(
        Column::number("records", 11, 3),
        "most records",
        "records",
        count,
    ),
    only(Column::number("interval", 8, 4), "interval_ns", time),
    only(Column::wide("measurements", 24, 2), "measurements", text),
    only(Column::text("interfaces", 16, 5), "interfaces", text),
    only(Column::text("version", 8, 6), "version", text),
    only(Column::text("labels", 20, 7), "labels", text),
];
