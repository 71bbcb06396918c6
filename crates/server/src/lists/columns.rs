//! The columns of lists.

use serde::Serialize;
use utoipa::ToSchema;

use super::List;

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Column {
    /// Its name, as in records and views.
    pub(crate) name: &'static str,
    /// What it is called above a table.
    pub(crate) title: &'static str,
    /// What its values are.
    pub(crate) unit: Unit,
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// A name or a word.
    Text,
    /// An IP address or a network.
    Address,
    /// A port.
    Port,
    /// RFC 3339, in UTC.
    Time,
    /// A duration in nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// A number of bytes.
    Bytes,
    /// A part, 0 to 1.
    Ratio,
}

impl Unit {
    /// Does a filter look into it?
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Address | Self::Port)
    }
}

const fn column(name: &'static str, title: &'static str, unit: Unit) -> Column {
    Column { name, title, unit }
}

const HOST: Column = column("host", "Host", Unit::Text);
const INTERFACE: Column = column("interface", "Interface", Unit::Text);
const COMMUNITY: Column = column("community_id", "Community ID", Unit::Text);
const PROTOCOL: Column = column("protocol", "Protocol", Unit::Text);
const SOURCE: Column = column("source", "Source", Unit::Address);
const SOURCE_PORT: Column = column("source_port", "Port", Unit::Port);
const DESTINATION: Column = column("destination", "Destination", Unit::Address);
const DESTINATION_PORT: Column = column("destination_port", "Port", Unit::Port);
const PROCESS: Column = column("process", "Process", Unit::Text);
const RTT_P50: Column = column("rtt_p50_ns", "RTT median", Unit::Nanoseconds);
const RTT_P99: Column = column("rtt_p99_ns", "RTT p99", Unit::Nanoseconds);
const LATENCY_P50: Column = column("latency_p50_ns", "Latency median", Unit::Nanoseconds);
const LATENCY_P99: Column = column("latency_p99_ns", "Latency p99", Unit::Nanoseconds);
const LOSS: Column = column("loss_ratio", "Loss", Unit::Ratio);
const LAST: Column = column("last_time", "Last", Unit::Time);
const FLOWS_OF: Column = column("flows", "Flows", Unit::Count);

/// Of flows, what `traffic` alone says.
pub(super) const OF_TRAFFIC: [&str; 13] = [
    "last_time",
    "bytes",
    "reverse_bytes",
    "packets",
    "reverse_packets",
    "loss_ratio",
    "reverse_loss_ratio",
    "host",
    "interface",
    "community_id",
    "protocol",
    "source",
    "destination",
];

const FLOWS: [Column; 21] = [
    SOURCE,
    SOURCE_PORT,
    DESTINATION,
    DESTINATION_PORT,
    PROTOCOL,
    column("bytes", "Sent", Unit::Bytes),
    column("reverse_bytes", "Received", Unit::Bytes),
    RTT_P50,
    RTT_P99,
    column("client_rtt_p50_ns", "Client RTT median", Unit::Nanoseconds),
    column("client_rtt_p99_ns", "Client RTT p99", Unit::Nanoseconds),
    LATENCY_P50,
    LATENCY_P99,
    LOSS,
    column("reverse_loss_ratio", "Loss back", Unit::Ratio),
    column("packets", "Packets", Unit::Count),
    column("reverse_packets", "Packets back", Unit::Count),
    HOST,
    INTERFACE,
    LAST,
    COMMUNITY,
];

const HOPS: [Column; 13] = [
    HOST,
    column("ttl", "Hop", Unit::Count),
    column("responder", "Router", Unit::Address),
    column("responder_name", "Name", Unit::Text),
    FLOWS_OF,
    RTT_P50,
    RTT_P99,
    column("queue_ns", "Queue", Unit::Nanoseconds),
    LOSS,
    column("probes_sent", "Probes", Unit::Count),
    column("silence", "Silence", Unit::Text),
    column("marks", "Marks", Unit::Text),
    LAST,
];

const SERVERS: [Column; 12] = [
    column("destination", "Server", Unit::Address),
    DESTINATION_PORT,
    PROTOCOL,
    LATENCY_P50,
    column("latency_p90_ns", "Latency p90", Unit::Nanoseconds),
    LATENCY_P99,
    column("responses", "Responses", Unit::Count),
    FLOWS_OF,
    column("sure", "Sure", Unit::Ratio),
    column("waiting_ns", "Waiting", Unit::Nanoseconds),
    HOST,
    LAST,
];

const CONNECTIONS: [Column; 22] = [
    LAST,
    PROCESS,
    SOURCE,
    SOURCE_PORT,
    DESTINATION,
    DESTINATION_PORT,
    PROTOCOL,
    column("role", "Role", Unit::Text),
    column("reason", "Ended by", Unit::Text),
    column("duration_ns", "Duration", Unit::Nanoseconds),
    column("establishment_ns", "Established in", Unit::Nanoseconds),
    column("rtt_mean_ns", "RTT mean", Unit::Nanoseconds),
    column("bytes_sent", "Sent", Unit::Bytes),
    column("bytes_received", "Received", Unit::Bytes),
    column("packets_lost", "Lost", Unit::Count),
    column("packets_retransmitted", "Sent again", Unit::Count),
    column("stalls", "Stalls", Unit::Count),
    column("stalled_ns", "Stalled", Unit::Nanoseconds),
    column("pod", "Pod", Unit::Text),
    column("systemd_unit", "Unit", Unit::Text),
    HOST,
    COMMUNITY,
];

const DNS: [Column; 12] = [
    column("query_name", "Name", Unit::Text),
    column("query_type", "Type", Unit::Text),
    column("resolver", "Resolver", Unit::Address),
    column("queries", "Queries", Unit::Count),
    column("failures", "Failures", Unit::Count),
    column("retries", "Retries", Unit::Count),
    LATENCY_P50,
    LATENCY_P99,
    column("latency_max_ns", "Latency max", Unit::Nanoseconds),
    PROCESS,
    HOST,
    LAST,
];

const HOSTS: [Column; 9] = [
    HOST,
    column("measurements", "Measurements", Unit::Text),
    column("records", "Records", Unit::Count),
    column("first_time", "First", Unit::Time),
    LAST,
    column("version", "Version", Unit::Text),
    column("interfaces", "Interfaces", Unit::Text),
    column("labels", "Labels", Unit::Text),
    column("interval_ns", "Interval", Unit::Nanoseconds),
];

const NETWORKS: [Column; 8] = [
    column("network", "Network", Unit::Address),
    FLOWS_OF,
    column("rtt_min_ns", "RTT least", Unit::Nanoseconds),
    RTT_P50,
    RTT_P99,
    column("rtt_samples", "Samples", Unit::Count),
    HOST,
    LAST,
];

/// Of groups of flows.
pub(crate) const GROUPS: [Column; 12] = [
    column("name", "Group", Unit::Text),
    FLOWS_OF,
    column("bytes", "Sent", Unit::Bytes),
    column("reverse_bytes", "Received", Unit::Bytes),
    RTT_P50,
    RTT_P99,
    column("client_rtt_p50_ns", "Client RTT median", Unit::Nanoseconds),
    LATENCY_P50,
    LATENCY_P99,
    LOSS,
    column("reverse_loss_ratio", "Loss back", Unit::Ratio),
    LAST,
];

impl List {
    /// Its columns, the most telling first.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Flows => &FLOWS,
            Self::Hops => &HOPS,
            Self::Servers => &SERVERS,
            Self::Connections => &CONNECTIONS,
            Self::Dns => &DNS,
            Self::Hosts => &HOSTS,
            Self::Networks => &NETWORKS,
        }
    }

    /// All rows of a range.
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Flows => include_str!("flows.sql"),
            Self::Hops => include_str!("hops.sql"),
            Self::Servers => include_str!("servers.sql"),
            Self::Connections => include_str!("connections.sql"),
            Self::Dns => include_str!("dns.sql"),
            Self::Hosts => include_str!("hosts.sql"),
            Self::Networks => include_str!("networks.sql"),
        }
    }

    /// The column of this name; without one, that by which the list goes of itself.
    ///
    /// # Errors
    /// When it has no such column.
    pub(crate) fn sort_column(self, name: Option<&str>) -> anyhow::Result<&'static str> {
        let usual = match self {
            Self::Flows => "bytes",
            Self::Hops => "queue_ns",
            Self::Servers => "latency_p99_ns",
            Self::Connections | Self::Hosts => "last_time",
            Self::Dns => "queries",
            Self::Networks => "rtt_p99_ns",
        };
        let name = name.unwrap_or(usual);
        let found = self.columns().iter().find(|column| column.name == name);
        found.map(|column| column.name).ok_or_else(|| {
            let names: Vec<_> = self.columns().iter().map(|it| it.name).collect();
            anyhow::anyhow!("there is no column {name:?} here, but {}", names.join(", "))
        })
    }
}
