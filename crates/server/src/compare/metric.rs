//! What can be compared. A metric has one value for each session: packets of one connection depend
//! on each other, and would make every difference look sure.

use clap::ValueEnum;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Metric {
    /// How long TCP connections took to be established.
    Establishment,
    /// The mean round trip of a TCP connection, as its stack measured it.
    Rtt,
    /// How much the round trips of a TCP connection differ: the deviation that its stack smooths;
    /// of connections with at least 16 round trips.
    Jitter,
    /// What the client of a flow waited for responses: its median, from packets, on any box.
    Response,
    /// How long a TCP connection was stalled in all, by retransmission timeouts.
    Stalls,
    /// Which part of the connections lost their first SYN, or the answer to it.
    SynLoss,
    /// The mean round trip of a flow, from packets, on any box.
    FlowRtt,
    /// How long DNS replies took.
    Dns,
    /// How many TCP connections there were.
    Connections,
}

/// What the value of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nanoseconds.
    Duration,
    /// 1 where it happened, else 0.
    Share,
    /// Nothing: sessions are counted.
    Count,
}

impl Metric {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it is, and what its sessions are.
    pub(super) fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Establishment => ("Establishment of TCP connections", "connections"),
            Self::Rtt => ("Mean round trip of TCP connections", "connections"),
            Self::Jitter => ("Jitter of TCP connections", "connections"),
            Self::Response => ("Median wait for responses", "flows"),
            Self::Stalls => ("Time that TCP connections were stalled", "connections"),
            Self::SynLoss => ("TCP connections that lost their first SYN", "connections"),
            Self::FlowRtt => ("Mean round trip of flows", "flows"),
            Self::Dns => ("DNS replies", "replies"),
            Self::Connections => ("TCP connections", "connections"),
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::SynLoss => Kind::Share,
            Self::Connections => Kind::Count,
            _ => Kind::Duration,
        }
    }

    /// Sessions with their host, interface, remote end, service and value. `$1` and `$2` are from
    /// when until when, `$3` the role of the host, and `$4` whether interfaces are told apart.
    pub(super) fn sessions(self) -> &'static str {
        match self {
            Self::Establishment => include_str!("metrics/establishment.sql"),
            Self::Rtt => include_str!("metrics/rtt.sql"),
            Self::Jitter => include_str!("metrics/jitter.sql"),
            Self::Response => include_str!("metrics/response.sql"),
            Self::Stalls => include_str!("metrics/stalls.sql"),
            Self::SynLoss => include_str!("metrics/syn_loss.sql"),
            Self::FlowRtt => include_str!("metrics/flow_rtt.sql"),
            Self::Dns => include_str!("metrics/dns.sql"),
            Self::Connections => include_str!("metrics/connections.sql"),
        }
    }
}
