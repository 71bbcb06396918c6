//! The records of the measurement.

use fathom_record::{FlowKey, Metric, Nanoseconds, Time, record};

use super::{Confidence, Estimator, Reason};

record! {
    /// What the client of a flow waited for responses, over an epoch.
    #[record = "response"]
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ResponseEpoch {
        /// When the epoch ended.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow; its destination is the server.
        pub flow: FlowKey,
        /// How long the epoch was.
        #[field(label = "over", own_ipfix = 103)]
        pub duration_ns: Nanoseconds,
        /// From a request to what its response triggered, on average; absent where a number would
        /// be wrong, see `reason`.
        #[field(label = "latency", own_ipfix = 172, metric = Metric::Mean("causal_gaps"))]
        pub latency_ns: Option<Nanoseconds>,
        /// What clients thought before they sent the next request, on average; it is no part of the
        /// latency. Absent where it is not known.
        #[field(label = "think", own_ipfix = 333)]
        pub think_ns: Option<Nanoseconds>,
        /// The latency, measured in the packets of the other direction, where a capture has them
        /// and it was asked for.
        #[field(label = "by responses", own_ipfix = 280)]
        pub reverse_latency_ns: Option<Nanoseconds>,
        /// `high`: it was seen what triggered each request, and how long the client thought.
        /// `medium`: it holds if something holds that was not seen, see `reason`. `low`: thinking
        /// cannot be excluded, fewer than three causal gaps, or no estimate.
        #[field(own_ipfix = 281)]
        pub confidence: Confidence,
        /// Gaps between requests that stand for a response each.
        #[field(own_ipfix = 282)]
        pub causal_gaps: u32,
        /// Requests that are outstanding together, on average.
        #[field(own_ipfix = 283)]
        pub concurrency: Option<f64>,
        /// Gaps that were left out: longer than a retransmission timeout.
        #[field(unless_zero, own_ipfix = 284)]
        pub timeout_gaps: u32,
        /// Gaps that were left out: the client had its answer and was silent.
        #[field(unless_zero, own_ipfix = 285)]
        pub idle_gaps: u32,
        /// Packets that were sent before: retransmissions, and what arrived out of order.
        #[field(unit = fathom_record::Unit::Packets, label = "repeated", unless_zero, own_ipfix = 286)]
        pub packets_repeated: u32,
        /// How long the flow has been waiting for the answer to its last request; absent when that
        /// was answered.
        #[field(own_ipfix = 287)]
        pub waiting_ns: Option<Nanoseconds>,
        /// From the SYN to what answered the SYN-ACK.
        #[field(own_ipfix = 288)]
        pub handshake_ns: Option<Nanoseconds>,
        /// Why there is no estimate, or no sure one.
        #[field(own_ipfix = 102)]
        pub reason: Option<Reason>,
        /// How gaps became a latency.
        #[field(absent, own_ipfix = 289)]
        pub estimator: Estimator,
        /// The VLAN tag, the outer one if there are two.
        #[field(ipfix = 58)]
        pub vlan: Option<u16>,
        /// The inner VLAN tag.
        #[field(ipfix = 245)]
        pub inner_vlan: Option<u16>,
        /// The network identifier of the tunnel around the flow; of ESP, its SPI.
        #[field(own_ipfix = 263)]
        pub tunnel: Option<u32>,
        /// The interface or capture file.
        #[field(bare, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
    }
}

record! {
    /// A flow whose last request has been unanswered for long: a sign between epochs. TCP alone
    /// tells.
    #[record = "response_wait"]
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ResponseWait {
        /// When it was looked at.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow; its destination is the server.
        pub flow: FlowKey,
        /// How long the request has been unanswered.
        #[field(label = "waiting", own_ipfix = 287)]
        pub waiting_ns: Nanoseconds,
        /// The VLAN tag, the outer one if there are two.
        #[field(ipfix = 58)]
        pub vlan: Option<u16>,
        /// The inner VLAN tag.
        #[field(ipfix = 245)]
        pub inner_vlan: Option<u16>,
        /// The network identifier of the tunnel around the flow.
        #[field(own_ipfix = 263)]
        pub tunnel: Option<u32>,
        /// The interface.
        #[field(bare, ipfix = 82)]
        pub interface: &'static str,
    }
}
