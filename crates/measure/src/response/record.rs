//! The records of the measurement.

use std::net::IpAddr;

use fathom_record::{
    CommunityId, FlowKey, Fold, Histogram, Metric, Nanoseconds, Network, Port, Protocol, Time,
    record,
};

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

record! {
    /// What clients waited for responses, over an interval: of a flow, a server, a service, or the
    /// clients of a network. Each epoch of a flow counts as often as it has causal gaps, and
    /// so as often as clients waited.
    #[record = "response_aggregate"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct ResponseAggregate {
        /// When the interval ended.
        #[field(ipfix = 325, fold = Fold::End)]
        pub time: Time,
        /// The transport, by flow and by service.
        #[field(bare, ipfix = 4, metric = Metric::Service)]
        pub protocol: Option<Protocol>,
        /// The client, by flow.
        #[field(label = "from", ipfix = 8)]
        pub source: Option<IpAddr>,
        /// Its port, by flow.
        #[field(label = "port", ipfix = 7, metric = Metric::Service)]
        pub source_port: Option<Port>,
        /// The server, by flow, by server and by service.
        #[field(bare, ipfix = 12, metric = Metric::Network)]
        pub destination: Option<IpAddr>,
        /// Its port, by flow and by service.
        #[field(label = "port", ipfix = 11, metric = Metric::Service)]
        pub destination_port: Option<Port>,
        /// The Community ID, by flow.
        #[field(absent, own_ipfix = 340)]
        pub community_id: Option<CommunityId>,
        /// The network of the clients, by network.
        #[field(bare, own_ipfix = 230, metric = Metric::Network)]
        pub network: Option<Network>,
        /// How long it was.
        #[field(label = "over", own_ipfix = 103, fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Flows with an estimate.
        #[field(own_ipfix = 233, fold = Fold::Greatest)]
        pub flows: u64,
        /// Responses that were waited for, a second.
        #[field(own_ipfix = 290, fold = Fold::Rate)]
        pub responses_per_second: f64,
        /// The shortest.
        #[field(label = "min", own_ipfix = 291, fold = Fold::Least)]
        pub latency_min_ns: Option<Nanoseconds>,
        /// The mean.
        #[field(label = "mean", own_ipfix = 292, fold = Fold::Mean("responses_per_second"))]
        pub latency_mean_ns: Option<Nanoseconds>,
        /// The median, within 1.6 %.
        #[field(label = "p50", own_ipfix = 293, fold = Fold::Percentile(50))]
        pub latency_p50_ns: Option<Nanoseconds>,
        /// The 90th percentile, within 1.6 %.
        #[field(label = "p90", own_ipfix = 294, fold = Fold::Percentile(90))]
        pub latency_p90_ns: Option<Nanoseconds>,
        /// The 95th percentile, within 1.6 %.
        #[field(label = "p95", own_ipfix = 295, fold = Fold::Percentile(95))]
        pub latency_p95_ns: Option<Nanoseconds>,
        /// The 99th percentile, within 1.6 %.
        #[field(label = "p99", own_ipfix = 296, fold = Fold::Percentile(99))]
        pub latency_p99_ns: Option<Nanoseconds>,
        /// The longest.
        #[field(label = "max", own_ipfix = 297, fold = Fold::Greatest)]
        pub latency_max_ns: Option<Nanoseconds>,
        /// What clients thought before they sent the next request, on average over the responses
        /// of which that is known; it is no part of the latency. Packets that wait on their way
        /// from the server to the point of observation look like thinking.
        #[field(label = "think", own_ipfix = 333, fold = Fold::Mean("responses_per_second"))]
        pub think_ns: Option<Nanoseconds>,
        /// Of the responses, the part whose epochs are sure: 0 to 1.
        #[field(own_ipfix = 298, fold = Fold::Mean("responses_per_second"))]
        pub sure: f64,
        /// Epochs without an estimate.
        #[field(unless_zero, own_ipfix = 299, fold = Fold::Sum)]
        pub epochs_without: u64,
        /// Gaps that were left out: longer than a retransmission timeout.
        #[field(unless_zero, own_ipfix = 284, fold = Fold::Sum, metric = Metric::Increase)]
        pub timeout_gaps: u64,
        /// The longest that a flow was waiting at the end of an epoch in which it had fallen
        /// silent.
        #[field(own_ipfix = 287, fold = Fold::Greatest)]
        pub waiting_ns: Option<Nanoseconds>,
        /// The interface or capture file.
        #[field(bare, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
        /// How often which time was waited.
        #[field(fold = Fold::Merge, metric = Metric::Distribution)]
        pub latency_histogram: Histogram,
    }
}
