//! The record of the measurement.

use fathom_record::{FlowKey, Fold, Metric, Nanoseconds, Time, Unit, record};

record! {
    /// What a flow carried in an interval, both directions of it, and what of that was lost. Only
    /// TCP tells of loss; of other flows nothing is said of it.
    #[record = "traffic"]
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct TrafficRecord {
        /// The end of the interval.
        #[field(ipfix = 325, fold = Fold::End)]
        pub time: Time,
        /// How long it was.
        #[field(label = "in", own_ipfix = 103, fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// The flow, in the direction of who sent the SYN. If none was seen, from the end with a
        /// port of at least 32768 to one below it, else in the direction of the first packet.
        pub flow: FlowKey,
        /// Packets in this direction.
        #[field(unit = Unit::Packets, ipfix = 2, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets: u64,
        /// Their IP bytes, as on the wire.
        #[field(unit = Unit::Bytes, label = "bytes", ipfix = 1, fold = Fold::Sum, metric = Metric::Increase)]
        pub bytes: u64,
        /// Packets sent again in this direction: those lost on either side of this point, and those
        /// that were not needed.
        #[field(unit = Unit::Packets, label = "retransmitted", unless_zero, own_ipfix = 118, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets_retransmitted: Option<u64>,
        /// Their payload.
        #[field(unit = Unit::Bytes, label = "bytes_retransmitted", unless_zero, own_ipfix = 117, fold = Fold::Sum)]
        pub bytes_retransmitted: Option<u64>,
        /// Packets overtaken in this direction before they came here.
        #[field(unit = Unit::Packets, label = "out_of_order", unless_zero, own_ipfix = 134, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets_out_of_order: Option<u64>,
        /// Packets lost before they came here: they filled a hole in the sequence numbers too late
        /// to have been overtaken.
        #[field(unit = Unit::Packets, label = "lost_before", unless_zero, own_ipfix = 350, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets_lost_before: Option<u64>,
        /// Packets lost behind this point: they passed here again, and had not been acknowledged.
        #[field(unit = Unit::Packets, label = "lost_after", unless_zero, own_ipfix = 351, fold = Fold::Sum, metric = Metric::Increase)]
        pub packets_lost_after: Option<u64>,
        /// What was lost on either side, as a part of the packets sent with data, SYN or FIN: 0 to
        /// 1. Absent where there were none.
        #[field(label = "loss", own_ipfix = 352, fold = Fold::Mean("packets"))]
        pub loss_ratio: Option<f64>,
        /// Packets in the other direction.
        #[field(unit = Unit::Packets, reverse_ipfix = 2, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_packets: u64,
        /// IP bytes in the other direction.
        #[field(unit = Unit::Bytes, label = "reverse_bytes", reverse_ipfix = 1, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_bytes: u64,
        /// Packets sent again in the other direction.
        #[field(unit = Unit::Packets, label = "reverse_retransmitted", unless_zero, own_ipfix = 266, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_packets_retransmitted: Option<u64>,
        /// Their payload.
        #[field(unit = Unit::Bytes, label = "reverse_bytes_retransmitted", unless_zero, own_ipfix = 353, fold = Fold::Sum)]
        pub reverse_bytes_retransmitted: Option<u64>,
        /// Packets overtaken in the other direction.
        #[field(unit = Unit::Packets, label = "reverse_out_of_order", unless_zero, own_ipfix = 267, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_packets_out_of_order: Option<u64>,
        /// Packets of the other direction lost before they came here.
        #[field(unit = Unit::Packets, label = "reverse_lost_before", unless_zero, own_ipfix = 354, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_packets_lost_before: Option<u64>,
        /// Packets of the other direction lost behind this point.
        #[field(unit = Unit::Packets, label = "reverse_lost_after", unless_zero, own_ipfix = 355, fold = Fold::Sum, metric = Metric::Increase)]
        pub reverse_packets_lost_after: Option<u64>,
        /// What was lost of the other direction on either side, as a part of what was sent.
        #[field(label = "reverse_loss", own_ipfix = 356, fold = Fold::Mean("reverse_packets"))]
        pub reverse_loss_ratio: Option<f64>,
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
    }
}
