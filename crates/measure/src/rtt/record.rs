//! The records of the measurement.

use fathom_record::{
    AsValue, FlowKey, Fold, Histogram, Metric, Nanoseconds, Network, Time, Type, Unit, Value,
    record,
};

use super::Method;

/// Where the packet was seen that ended a measurement. It says what the round trip includes: egress
/// is before the local queue, ingress after generic receive offload, XDP before it, and a capture
/// after the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Observed(pub(crate) u8);

impl Observed {
    /// The name in records.
    pub fn name(self) -> &'static str {
        crate::native::hook_names()
            .get(usize::from(self.0))
            .copied()
            .unwrap_or_default()
    }
}

impl AsValue for Observed {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

record! {
    /// A round trip between the capture point and the destination of the flow.
    #[record = "rtt"]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RttSample {
        /// When the answer passed the capture point.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow of the packet that was answered.
        pub flow: FlowKey,
        /// How the packet and its answer were matched.
        #[field(bare, own_ipfix = 260)]
        pub method: Method,
        /// From the packet to its answer.
        #[field(own_ipfix = 203, metric = Metric::Sample)]
        pub rtt_ns: Nanoseconds,
        /// The least round trip of this flow and direction so far; absent for single requests.
        #[field(label = "min", own_ipfix = 217)]
        pub rtt_min_ns: Option<Nanoseconds>,
        /// True when the request had been sent again; the time then counts from the first.
        #[field(own_ipfix = 261)]
        pub is_retransmitted: Option<bool>,
        /// True when only one direction was seen: the round trip is then the whole loop from end to
        /// end.
        #[field(own_ipfix = 262)]
        pub is_loop: Option<bool>,
        /// The VLAN tag, the outer one if there are two.
        #[field(ipfix = 58)]
        pub vlan: Option<u16>,
        /// The inner VLAN tag.
        #[field(ipfix = 245)]
        pub inner_vlan: Option<u16>,
        /// The network identifier of the tunnel around the flow, or the session of its mirror.
        #[field(own_ipfix = 263)]
        pub tunnel: Option<u32>,
        /// The interface or capture file.
        #[field(bare, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
        /// Where in the machine the answer was seen: ingress, egress, xdp, or capture.
        #[field(bare, own_ipfix = 264)]
        pub observed: Observed,
    }
}

record! {
    /// A flow that opened or closed.
    #[record = "rtt_flow"]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RttFlow {
        /// When it opened or closed.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow, in the direction of who opened it: who sent the SYN or the first Initial, else
        /// the first packet seen.
        pub flow: FlowKey,
        /// `open` or `close`.
        #[field(bare, own_ipfix = 265)]
        pub event: &'static str,
        /// Why.
        #[field(bare, own_ipfix = 102)]
        pub reason: &'static str,
        /// Packets in this direction.
        #[field(unit = Unit::Packets, ipfix = 86)]
        pub packets: u64,
        /// IP bytes in this direction.
        #[field(unit = Unit::Bytes, label = "bytes", ipfix = 85)]
        pub bytes: u64,
        /// Packets sent again in this direction.
        #[field(unit = Unit::Packets, label = "retransmitted", own_ipfix = 118)]
        pub packets_retransmitted: u32,
        /// Packets overtaken in this direction.
        #[field(unit = Unit::Packets, label = "out_of_order", own_ipfix = 134)]
        pub packets_out_of_order: u32,
        /// Packets in this direction that a router marked as having met congestion (RFC 3168).
        #[field(unit = Unit::Packets, label = "ce", own_ipfix = 148)]
        pub packets_congestion_experienced: u32,
        /// Packets in the other direction.
        #[field(unit = Unit::Packets, reverse_ipfix = 86)]
        pub reverse_packets: u64,
        /// IP bytes in the other direction.
        #[field(unit = Unit::Bytes, label = "reverse_bytes", reverse_ipfix = 85)]
        pub reverse_bytes: u64,
        /// Packets sent again in the other direction.
        #[field(unit = Unit::Packets, label = "reverse_retransmitted", own_ipfix = 266)]
        pub reverse_packets_retransmitted: u32,
        /// Packets overtaken in the other direction.
        #[field(unit = Unit::Packets, label = "reverse_out_of_order", own_ipfix = 267)]
        pub reverse_packets_out_of_order: u32,
        /// Packets in the other direction that a router marked as having met congestion.
        #[field(unit = Unit::Packets, label = "reverse_ce", own_ipfix = 268)]
        pub reverse_packets_congestion_experienced: u32,
        /// The VLAN tag, the outer one if there are two.
        #[field(ipfix = 58)]
        pub vlan: Option<u16>,
        /// The inner VLAN tag.
        #[field(ipfix = 245)]
        pub inner_vlan: Option<u16>,
        /// The network identifier of the tunnel around the flow, or the session of its mirror.
        #[field(own_ipfix = 263)]
        pub tunnel: Option<u32>,
        /// The interface or capture file.
        #[field(bare, ipfix = 82)]
        pub interface: &'static str,
    }
}

record! {
    /// The round trips of an interval towards one flow's destination, network, VLAN or interface.
    #[record = "rtt_aggregate"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct RttAggregate {
        /// The end of the interval.
        #[field(ipfix = 325, fold = Fold::End)]
        pub time: Time,
        /// How long it was.
        #[field(label = "over", own_ipfix = 103, fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// The flow, when grouped by flow; the round trips are those towards its destination.
        pub flow: Option<FlowKey>,
        /// The network of the destinations, when grouped by network.
        #[field(bare, own_ipfix = 230, metric = Metric::Network)]
        pub network: Option<Network>,
        /// The VLAN tag, the outer one if there are two, when grouped by VLAN or flow.
        #[field(ipfix = 58)]
        pub vlan: Option<u16>,
        /// The inner VLAN tag.
        #[field(ipfix = 245)]
        pub inner_vlan: Option<u16>,
        /// Round trips that were measured.
        #[field(label = "samples", own_ipfix = 123, fold = Fold::Sum)]
        pub rtt_samples: u64,
        /// The least round trip.
        #[field(label = "min", own_ipfix = 217, fold = Fold::Least)]
        pub rtt_min_ns: Option<Nanoseconds>,
        /// The mean round trip.
        #[field(label = "mean", own_ipfix = 240, fold = Fold::Mean("rtt_samples"))]
        pub rtt_mean_ns: Option<Nanoseconds>,
        /// The median, within 1.6 %.
        #[field(label = "p50", own_ipfix = 218, fold = Fold::Percentile(50))]
        pub rtt_p50_ns: Option<Nanoseconds>,
        /// The 90th percentile, within 1.6 %.
        #[field(label = "p90", own_ipfix = 241, fold = Fold::Percentile(90))]
        pub rtt_p90_ns: Option<Nanoseconds>,
        /// The 95th percentile, within 1.6 %.
        #[field(label = "p95", own_ipfix = 242, fold = Fold::Percentile(95))]
        pub rtt_p95_ns: Option<Nanoseconds>,
        /// The 99th percentile, within 1.6 %.
        #[field(label = "p99", own_ipfix = 219, fold = Fold::Percentile(99))]
        pub rtt_p99_ns: Option<Nanoseconds>,
        /// The greatest round trip.
        #[field(label = "max", own_ipfix = 243, fold = Fold::Greatest)]
        pub rtt_max_ns: Option<Nanoseconds>,
        /// Packets towards there, of the flows that have state (TCP and QUIC).
        #[field(unit = Unit::Packets, ipfix = 2, fold = Fold::Sum)]
        pub packets: u32,
        /// Their IP bytes.
        #[field(unit = Unit::Bytes, label = "bytes", ipfix = 1, fold = Fold::Sum)]
        pub bytes: u64,
        /// Of them, packets sent again.
        #[field(unit = Unit::Packets, label = "retransmitted", own_ipfix = 118, fold = Fold::Sum)]
        pub packets_retransmitted: u32,
        /// Of them, packets overtaken.
        #[field(unit = Unit::Packets, label = "out_of_order", own_ipfix = 134, fold = Fold::Sum)]
        pub packets_out_of_order: u32,
        /// Of them, packets that a router marked as having met congestion (RFC 3168).
        #[field(unit = Unit::Packets, label = "ce", own_ipfix = 148, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets_congestion_experienced: u32,
        /// The interface or capture file.
        #[field(bare, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
        /// How often which round trip was measured.
        #[field(fold = Fold::Merge, metric = Metric::Distribution)]
        pub rtt_histogram: Histogram,
    }
}
