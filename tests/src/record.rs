//! The records that the binary prints as JSON, read by their documented names alone.

use std::net::IpAddr;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Deserializer};

use crate::responses::{Epoch, Wait};
use crate::{Congestion, Hop, Probe, Profile, RouteChange, Way};

/// One line of `--format json`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind")]
pub enum Record {
    /// A round trip.
    #[serde(rename = "rtt")]
    Sample(Sample),
    /// A flow that opened or closed.
    #[serde(rename = "rtt_flow")]
    FlowEvent(FlowEvent),
    /// How often something happened that is no measurement.
    #[serde(rename = "count")]
    Count(Count),
    /// What a TCP connection did.
    #[serde(rename = "profile")]
    Profile(Profile),
    /// What an MPTCP connection did.
    #[serde(rename = "profile_mptcp")]
    MptcpProfile(Profile),
    /// What became of a DNS query.
    #[serde(rename = "profile_dns")]
    DnsProfile(Profile),
    /// How long an application waited for the addresses of a name.
    #[serde(rename = "profile_lookup")]
    LookupProfile(Profile),
    /// What became of a probe.
    #[serde(rename = "probe")]
    Probe(Probe),
    /// A router on the path of a flow, over an interval.
    #[serde(rename = "hop")]
    Hop(Hop),
    /// A link that packets wait for.
    #[serde(rename = "congestion")]
    Congestion(Congestion),
    /// A flow passes other routers than before.
    #[serde(rename = "route_change")]
    RouteChange(RouteChange),
    /// One of the ways to a destination.
    #[serde(rename = "paths")]
    Way(Way),
    /// What a client waited for responses, over an epoch.
    #[serde(rename = "response")]
    Response(Epoch),
    /// A request that has been unanswered for long.
    #[serde(rename = "response_wait")]
    ResponseWait(Wait),
    /// Another record.
    #[serde(other)]
    Other,
}

/// Packets of one direction of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub struct Flow {
    /// IANA protocol number.
    #[serde(deserialize_with = "protocol_number")]
    pub protocol: u8,
    /// Source address.
    pub source: IpAddr,
    /// Source port; ICMP echo: the identifier.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; ICMP echo: the identifier.
    pub destination_port: u16,
}

impl Flow {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
            ..self
        }
    }
}

/// How a packet and its answer were matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// TCP timestamps.
    Timestamp,
    /// TCP data and acknowledgements.
    Sequence,
    /// Handshakes of TCP and QUIC.
    Handshake,
    /// ICMP echo.
    Echo,
    /// The QUIC spin bit.
    Spin,
    /// DNS queries.
    Dns,
}

impl Method {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Sequence => "sequence",
            Self::Handshake => "handshake",
            Self::Echo => "echo",
            Self::Spin => "spin",
            Self::Dns => "dns",
        }
    }
}

/// A round trip as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sample {
    /// When the answer passed, in ns since 1970.
    #[serde(rename = "time", deserialize_with = "time_ns")]
    pub time_ns: u64,
    /// The flow of the measured packet.
    #[serde(flatten)]
    pub flow: Flow,
    /// How packet and answer were matched.
    pub method: Method,
    /// From the packet to its answer, in ns.
    pub rtt_ns: u64,
    /// The interface or file.
    pub interface: String,
}

/// A flow that opened or closed, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FlowEvent {
    /// The flow, in one direction.
    #[serde(flatten)]
    pub flow: Flow,
    /// `open` or `close`.
    pub event: String,
    /// Packets in this direction.
    pub packets: u64,
    /// Packets sent again in this direction.
    pub packets_retransmitted: u32,
    /// Packets overtaken in this direction.
    pub packets_out_of_order: u32,
    /// Packets in the other direction.
    pub reverse_packets: u64,
    /// Packets sent again in the other direction.
    pub reverse_packets_retransmitted: u32,
    /// Packets overtaken in the other direction.
    pub reverse_packets_out_of_order: u32,
}

/// A count as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Count {
    /// What is counted.
    pub name: String,
    /// How often, since the start.
    pub count: u64,
}

pub(crate) fn time_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = humantime::parse_rfc3339(&text).map_err(serde::de::Error::custom)?;
    let since_epoch = time
        .duration_since(UNIX_EPOCH)
        .map_err(serde::de::Error::custom)?;
    u64::try_from(since_epoch.as_nanos()).map_err(serde::de::Error::custom)
}

fn protocol_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "icmp" => Ok(1),
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "icmpv6" => Ok(58),
        number => number.parse().map_err(serde::de::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = r#"{"kind":"rtt","time":"2026-11-20T12:00:00.000000001Z","protocol":"tcp","source":"10.77.1.1",
            "source_port":4000,"destination":"10.77.2.1","destination_port":80,"method":"timestamp","rtt_ns":20000123,
            "rtt_min_ns":20000000,"interface":"wan0","observed":"ingress"}"#;
        let Record::Sample(sample) = serde_json::from_str(line).unwrap() else {
            panic!("{line}");
        };
        assert_eq!(sample.time_ns % 1_000_000_000, 1);
        assert_eq!(
            (sample.method, sample.rtt_ns),
            (Method::Timestamp, 20_000_123)
        );
        assert_eq!(sample.flow.protocol, 6);
        let line = r#"{"kind":"count","time":"2026-11-20T12:00:00Z","measurement":"rtt","name":"packets","count":7}"#;
        assert!(matches!(
            serde_json::from_str(line).unwrap(),
            Record::Count(Count { count: 7, .. })
        ));
        let line = r#"{"kind":"of_the_future","time":"2026-11-20T12:00:00Z","event":"open"}"#;
        assert_eq!(serde_json::from_str::<Record>(line).unwrap(), Record::Other);
    }
}
