//! What belongs together in a table: a kind of traffic, its IP version, a method and a direction.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, ensure};
use fathom_lab::Topology;
use fathom_tests::{Flow, Method, Sample};

/// The servers' ports, by which traffic is told apart.
pub(crate) const BULK_PORTS: [u16; 2] = [5201, 5202];
pub(crate) const REQUEST_PORT: u16 = 8080;
pub(crate) const QUIC_PORT: u16 = 443;
pub(crate) const DNS_PORT: u16 = 53;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Bulk,
    Requests,
    Quic,
    Ping,
    DnsOverUdp,
    DnsOverTcp,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Bulk,
        Self::Requests,
        Self::Quic,
        Self::Ping,
        Self::DnsOverUdp,
        Self::DnsOverTcp,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Bulk => "TCP bulk",
            Self::Requests => "TCP requests",
            Self::Quic => "QUIC",
            Self::Ping => "ping",
            Self::DnsOverUdp => "DNS over UDP",
            Self::DnsOverTcp => "DNS over TCP",
        }
    }

    fn of(flow: &Flow) -> Option<Self> {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        let has_port = |port| [flow.source_port, flow.destination_port].contains(&port);
        match flow.protocol {
            TCP if has_port(DNS_PORT) => Some(Self::DnsOverTcp),
            TCP if has_port(REQUEST_PORT) => Some(Self::Requests),
            TCP if BULK_PORTS.into_iter().any(has_port) => Some(Self::Bulk),
            UDP if has_port(DNS_PORT) => Some(Self::DnsOverUdp),
            UDP if has_port(QUIC_PORT) => Some(Self::Quic),
            1 | 58 => Some(Self::Ping),
            _ => None,
        }
    }
}

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    kind: Kind,
    is_v6: bool,
    method: Method,
    is_towards_client: bool,
}

impl Row {
    /// The titles above the columns of a row.
    pub(crate) const HEADER: &str = "traffic       IP  method     towards";

    pub(crate) fn of(flow: &Flow, method: Method) -> Option<Self> {
        let clients = [Topology::CLIENT_V4, Topology::CLIENT_V6];
        Some(Self {
            kind: Kind::of(flow)?,
            is_v6: flow.source.is_ipv6(),
            method,
            is_towards_client: clients.contains(&flow.destination),
        })
    }

    pub(crate) fn of_sample(sample: &Sample) -> Option<Self> {
        Self::of(&sample.flow, sample.method)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:<12}  v{}  {:<9}  {:<7}",
            self.kind.name(),
            if self.is_v6 { 6 } else { 4 },
            self.method.name(),
            if self.is_towards_client {
                "client"
            } else {
                "server"
            },
        )
    }
}

/// Fails when a kind of traffic was not measured over one of the two families.
pub(crate) fn check_complete(rows: &[Row]) -> Result<()> {
    for kind in Kind::ALL {
        for is_v6 in [false, true] {
            let has_row = rows
                .iter()
                .any(|row| (row.kind, row.is_v6) == (kind, is_v6));
            let family = if is_v6 { 6 } else { 4 };
            ensure!(has_row, "no {} over IPv{family} was measured", kind.name());
        }
    }
    Ok(())
}

/// What was measured so far.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    by_row: BTreeMap<Row, Vec<u64>>,
}

/// The round trips of a row, in ns.
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) last_ns: u64,
    pub(crate) least_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) greatest_ns: u64,
}

impl Rows {
    pub(crate) fn add(&mut self, sample: &Sample) {
        if let Some(row) = Row::of_sample(sample) {
            self.by_row.entry(row).or_default().push(sample.rtt_ns);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.by_row.values().map(Vec::len).sum()
    }

    /// The median of all round trips towards one side, in ns.
    pub(crate) fn median_ns(&self, is_towards_client: bool) -> Option<u64> {
        let of_side = self
            .by_row
            .iter()
            .filter(|(row, _)| row.is_towards_client == is_towards_client);
        let mut rtt_ns: Vec<u64> = of_side.flat_map(|(_, rtt_ns)| rtt_ns).copied().collect();
        rtt_ns.sort_unstable();
        rtt_ns.get(rtt_ns.len() / 2).copied()
    }

    /// Each row with its figures, in the order of the tables.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = (&Row, Summary)> {
        self.by_row.iter().filter_map(|(row, rtt_ns)| {
            let last_ns = *rtt_ns.last()?;
            let mut sorted_ns = rtt_ns.clone();
            sorted_ns.sort_unstable();
            let summary = Summary {
                count: sorted_ns.len(),
                last_ns,
                least_ns: sorted_ns[0],
                median_ns: sorted_ns[sorted_ns.len() / 2],
                greatest_ns: sorted_ns[sorted_ns.len() - 1],
            };
            Some((row, summary))
        })
    }
}
