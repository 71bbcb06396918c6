//! The columns of tabs, and what they go by.

use fathom_record::format::display_duration;
use fathom_terminal::{Cell, Column, Severity, duration, percent, scaled};

use super::clock;
use super::fields::Fields;
use crate::lists::List;

/// A column of a tab.
pub(super) struct Shown {
    pub(super) column: Column,
    /// What the order by it is called, as in `slowest p99 first`, and the column of the list.
    pub(super) order: Option<(&'static str, &'static str)>,
    pub(super) cell: fn(&Fields<'_>) -> Cell,
}

const fn shown(column: Column, cell: fn(&Fields<'_>) -> Cell) -> Shown {
    Shown {
        column,
        order: None,
        cell,
    }
}

const fn ordered(
    column: Column,
    order: &'static str,
    of: &'static str,
    cell: fn(&Fields<'_>) -> Cell,
) -> Shown {
    Shown {
        column,
        order: Some((order, of)),
        cell,
    }
}

/// A tab.
pub(super) struct Tab {
    pub(super) list: List,
    /// Its name above the table.
    pub(super) name: &'static str,
    pub(super) columns: &'static [Shown],
    /// What tells rows apart.
    pub(super) identity: &'static [&'static str],
}

/// All, from left to right.
pub(super) const TABS: [Tab; 7] = [
    Tab {
        list: List::Flows,
        name: "flows",
        columns: FLOWS,
        identity: &["host", "interface", "community_id", "source", "source_port"],
    },
    Tab {
        list: List::Hops,
        name: "hops",
        columns: HOPS,
        identity: &["host", "ttl", "responder"],
    },
    Tab {
        list: List::Servers,
        name: "servers",
        columns: SERVERS,
        identity: &["host", "protocol", "destination", "destination_port"],
    },
    Tab {
        list: List::Connections,
        name: "connections",
        columns: CONNECTIONS,
        identity: &["host", "community_id", "last_time"],
    },
    Tab {
        list: List::Networks,
        name: "networks",
        columns: NETWORKS,
        identity: &["host", "network"],
    },
    Tab {
        list: List::Dns,
        name: "dns",
        columns: DNS,
        identity: &["host", "query_name", "query_type", "resolver"],
    },
    Tab {
        list: List::Hosts,
        name: "hosts",
        columns: HOSTS,
        identity: &["host"],
    },
];

/// The place of a list among the tabs.
pub(super) fn place_of(list: List) -> usize {
    TABS.iter()
        .position(|tab| tab.list == list)
        .unwrap_or_default()
}

fn text(fields: &Fields<'_>, name: &str) -> Cell {
    fields.text(name).to_owned().into()
}

fn rtt(fields: &Fields<'_>, name: &str) -> Cell {
    duration(fields.ns(name)).into()
}

fn latency(fields: &Fields<'_>, name: &str) -> Cell {
    let ns = fields.ns(name);
    Cell::rated(duration(ns), Severity::of_latency(ns))
}

fn loss(fields: &Fields<'_>, name: &str) -> Cell {
    let ratio = fields.number(name);
    Cell::rated(percent(ratio), Severity::of_loss(ratio))
}

fn bits(fields: &Fields<'_>, name: &str) -> Cell {
    let rate = fields
        .number(name)
        .map(|bytes| bytes * 8.0 / fields.seconds);
    rate.map_or_else(String::new, scaled).into()
}

fn count(fields: &Fields<'_>, name: &str) -> Cell {
    let number = fields.number(name);
    number
        .map_or_else(String::new, |number| format!("{number:.0}"))
        .into()
}

/// Something that should not be there at all.
fn trouble(fields: &Fields<'_>, name: &str) -> Cell {
    let is_there = fields.number(name).is_some_and(|number| number > 0.0);
    let severity = if is_there {
        Severity::Notable
    } else {
        Severity::Normal
    };
    Cell::rated(count(fields, name).text, severity)
}

fn bytes(fields: &Fields<'_>, name: &str) -> Cell {
    fields.number(name).map_or_else(String::new, scaled).into()
}

fn age(fields: &Fields<'_>, name: &str) -> Cell {
    let time_ns = fields.time_ns(name);
    time_ns
        .map_or_else(String::new, |ns| clock::age(fields.now_ns - ns))
        .into()
}

const HOST: Shown = shown(Column::text("host", 12, 20), |it| text(it, "host"));

const FLOWS: &[Shown] = &[
    shown(Column::wide("flow", 40, 0), |it| it.flow().into()),
    ordered(Column::number("bit/s", 7, 1), "busiest", "bytes", |it| {
        bits(it, "bytes")
    }),
    ordered(
        Column::number("back", 7, 4),
        "busiest back",
        "reverse_bytes",
        |it| bits(it, "reverse_bytes"),
    ),
    ordered(
        Column::number("rtt p50", 8, 2),
        "slowest p50",
        "rtt_p50_ns",
        |it| rtt(it, "rtt_p50_ns"),
    ),
    ordered(
        Column::number("p99", 8, 6),
        "slowest p99",
        "rtt_p99_ns",
        |it| rtt(it, "rtt_p99_ns"),
    ),
    ordered(
        Column::number("client", 8, 7),
        "slowest client",
        "client_rtt_p50_ns",
        |it| rtt(it, "client_rtt_p50_ns"),
    ),
    ordered(
        Column::number("response", 8, 3),
        "slowest response",
        "latency_p50_ns",
        |it| latency(it, "latency_p50_ns"),
    ),
    ordered(
        Column::number("p99", 8, 8),
        "slowest response p99",
        "latency_p99_ns",
        |it| latency(it, "latency_p99_ns"),
    ),
    ordered(
        Column::number("loss", 7, 5),
        "most lost",
        "loss_ratio",
        |it| loss(it, "loss_ratio"),
    ),
    ordered(
        Column::number("back", 7, 9),
        "most lost back",
        "reverse_loss_ratio",
        |it| loss(it, "reverse_loss_ratio"),
    ),
    HOST,
    shown(Column::text("interface", 9, 21), |it| text(it, "interface")),
];

const HOPS: &[Shown] = &[
    shown(Column::number("hop", 3, 1), |it| count(it, "ttl")),
    shown(Column::wide("router", 24, 0), |it| {
        router(it.text("responder"), it.text("responder_name")).into()
    }),
    ordered(
        Column::number("queue", 8, 2),
        "longest queue",
        "queue_ns",
        |it| {
            let ns = it.ns("queue_ns");
            Cell::rated(duration(ns), Severity::of_queue(ns))
        },
    ),
    ordered(
        Column::number("rtt p50", 8, 3),
        "slowest p50",
        "rtt_p50_ns",
        |it| rtt(it, "rtt_p50_ns"),
    ),
    ordered(
        Column::number("p99", 8, 4),
        "slowest p99",
        "rtt_p99_ns",
        |it| rtt(it, "rtt_p99_ns"),
    ),
    // Routers that answer few probes on purpose are no trouble: no severity.
    ordered(
        Column::number("lost", 8, 5),
        "most lost",
        "loss_ratio",
        |it| percent(it.number("loss_ratio")).into(),
    ),
    shown(Column::text("silence", 12, 8), |it| text(it, "silence")),
    ordered(Column::number("flows", 6, 6), "most flows", "flows", |it| {
        count(it, "flows")
    }),
    ordered(
        Column::number("probes", 7, 7),
        "most probes",
        "probes_sent",
        |it| count(it, "probes_sent"),
    ),
    shown(Column::text("marks", 12, 9), |it| text(it, "marks")),
    HOST,
];

/// A router by its name and address; `*` where none answers.
pub(super) fn router(address: &str, name: &str) -> String {
    match (address, name) {
        ("", _) => "*".to_owned(),
        (address, "") => address.to_owned(),
        (address, name) => format!("{name} ({address})"),
    }
}

const SERVERS: &[Shown] = &[
    shown(Column::wide("server", 26, 0), |it| {
        let endpoint = it.endpoint("destination", "destination_port");
        format!("{} {endpoint}", it.text("protocol")).into()
    }),
    ordered(
        Column::number("p99", 8, 2),
        "slowest p99",
        "latency_p99_ns",
        |it| latency(it, "latency_p99_ns"),
    ),
    ordered(
        Column::number("p90", 8, 5),
        "slowest p90",
        "latency_p90_ns",
        |it| latency(it, "latency_p90_ns"),
    ),
    ordered(
        Column::number("p50", 8, 1),
        "slowest p50",
        "latency_p50_ns",
        |it| latency(it, "latency_p50_ns"),
    ),
    ordered(
        Column::number("responses/s", 11, 3),
        "busiest",
        "responses",
        |it| {
            let rate = it.number("responses").map(|count| count / it.seconds);
            rate.map_or_else(String::new, |rate| format!("{rate:.1}"))
                .into()
        },
    ),
    ordered(Column::number("flows", 6, 4), "most flows", "flows", |it| {
        count(it, "flows")
    }),
    ordered(
        Column::number("waiting", 8, 6),
        "longest waiting",
        "waiting_ns",
        |it| latency(it, "waiting_ns"),
    ),
    shown(Column::number("sure", 5, 7), |it| {
        let share = it
            .number("sure")
            .map(|share| format!("{:.0} %", share * 100.0));
        share.unwrap_or_default().into()
    }),
    HOST,
];

const CONNECTIONS: &[Shown] = &[
    shown(Column::wide("connection", 40, 0), |it| it.flow().into()),
    shown(Column::text("process", 14, 1), |it| text(it, "process")),
    shown(Column::text("ended by", 12, 3), |it| text(it, "reason")),
    ordered(
        Column::number("ended", 7, 2),
        "last ended",
        "last_time",
        |it| age(it, "last_time"),
    ),
    ordered(
        Column::number("duration", 8, 4),
        "longest",
        "duration_ns",
        |it| rtt(it, "duration_ns"),
    ),
    ordered(
        Column::number("set up", 8, 9),
        "slowest set up",
        "establishment_ns",
        |it| latency(it, "establishment_ns"),
    ),
    ordered(
        Column::number("rtt", 8, 5),
        "slowest",
        "rtt_mean_ns",
        |it| rtt(it, "rtt_mean_ns"),
    ),
    ordered(
        Column::number("sent", 7, 7),
        "most sent",
        "bytes_sent",
        |it| bytes(it, "bytes_sent"),
    ),
    ordered(
        Column::number("received", 8, 8),
        "most received",
        "bytes_received",
        |it| bytes(it, "bytes_received"),
    ),
    ordered(
        Column::number("lost", 5, 6),
        "most lost",
        "packets_lost",
        |it| trouble(it, "packets_lost"),
    ),
    ordered(
        Column::number("stalled", 8, 10),
        "longest stalled",
        "stalled_ns",
        |it| {
            let ns = it.ns("stalled_ns").filter(|ns| *ns > 0);
            Cell::rated(duration(ns), Severity::of_latency(ns))
        },
    ),
    shown(Column::text("unit", 16, 22), |it| text(it, "systemd_unit")),
    shown(Column::text("pod", 16, 23), |it| text(it, "pod")),
    HOST,
];

const NETWORKS: &[Shown] = &[
    shown(Column::wide("network", 20, 0), |it| text(it, "network")),
    ordered(
        Column::number("rtt p99", 8, 2),
        "slowest p99",
        "rtt_p99_ns",
        |it| {
            let queue = it.ns("rtt_p99_ns").zip(it.ns("rtt_min_ns"));
            let queue = queue.map(|(ns, least)| ns.saturating_sub(least));
            Cell::rated(rtt(it, "rtt_p99_ns").text, Severity::of_queue(queue))
        },
    ),
    ordered(
        Column::number("p50", 8, 1),
        "slowest p50",
        "rtt_p50_ns",
        |it| rtt(it, "rtt_p50_ns"),
    ),
    ordered(
        Column::number("least", 8, 3),
        "farthest",
        "rtt_min_ns",
        |it| rtt(it, "rtt_min_ns"),
    ),
    ordered(Column::number("flows", 7, 4), "most flows", "flows", |it| {
        count(it, "flows")
    }),
    ordered(
        Column::number("samples", 9, 5),
        "most samples",
        "rtt_samples",
        |it| count(it, "rtt_samples"),
    ),
    HOST,
];

const DNS: &[Shown] = &[
    shown(Column::wide("name", 24, 0), |it| text(it, "query_name")),
    shown(Column::text("type", 5, 6), |it| text(it, "query_type")),
    shown(Column::text("resolver", 16, 5), |it| text(it, "resolver")),
    ordered(
        Column::number("queries", 7, 1),
        "most asked",
        "queries",
        |it| count(it, "queries"),
    ),
    ordered(
        Column::number("failed", 6, 3),
        "most failed",
        "failures",
        |it| trouble(it, "failures"),
    ),
    ordered(
        Column::number("again", 6, 7),
        "most asked again",
        "retries",
        |it| trouble(it, "retries"),
    ),
    ordered(
        Column::number("p50", 8, 4),
        "slowest p50",
        "latency_p50_ns",
        |it| latency(it, "latency_p50_ns"),
    ),
    ordered(
        Column::number("p99", 8, 2),
        "slowest p99",
        "latency_p99_ns",
        |it| latency(it, "latency_p99_ns"),
    ),
    shown(Column::text("process", 14, 8), |it| text(it, "process")),
    HOST,
];

const HOSTS: &[Shown] = &[
    shown(Column::text("host", 20, 0), |it| text(it, "host")),
    ordered(
        Column::number("last record", 11, 1),
        "newest",
        "last_time",
        |it| {
            let age_ns = it.now_ns - it.time_ns("last_time").unwrap_or(it.now_ns);
            let interval_ns = it.ns("interval_ns");
            Cell::rated(
                age(it, "last_time").text,
                severity_of_age(age_ns, interval_ns),
            )
        },
    ),
    ordered(
        Column::number("records", 11, 3),
        "most records",
        "records",
        |it| count(it, "records"),
    ),
    shown(Column::number("interval", 8, 4), |it| {
        it.ns("interval_ns")
            .map_or_else(String::new, |ns| display_duration(ns).to_string())
            .into()
    }),
    shown(Column::wide("measurements", 24, 2), |it| {
        text(it, "measurements")
    }),
    shown(Column::text("interfaces", 16, 5), |it| {
        text(it, "interfaces")
    }),
    shown(Column::text("version", 8, 6), |it| text(it, "version")),
    shown(Column::text("labels", 20, 7), |it| text(it, "labels")),
];

/// An agent that says nothing for some intervals is late, and for many more it is dead.
pub(super) fn severity_of_age(age_ns: i64, interval_ns: Option<u64>) -> Severity {
    const USUAL_NS: u64 = 10_000_000_000;
    let intervals = age_ns
        / i64::try_from(interval_ns.unwrap_or(USUAL_NS))
            .unwrap_or(i64::MAX)
            .max(1);
    match intervals {
        ..3 => Severity::Normal,
        3..10 => Severity::Notable,
        _ => Severity::Bad,
    }
}
