//! The records of the measurement.

use std::net::IpAddr;
use std::sync::Arc;

use fathom_record::{
    AsValue, FlowKey, Fold, Histogram, Metric, Nanoseconds, Network, Record, Time, Type, Unit,
    Value, record,
};

/// What the measurement tells of.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// What became of a probe.
    Probe(HopProbe),
    /// A hop, over an interval.
    Hop(HopSummary),
    /// A link that packets wait for, over a second.
    Congestion(Congestion),
    /// A flow passes other routers than before.
    RouteChange(RouteChange),
    /// One of the ways that flows to a destination take.
    Paths(Paths),
}

impl Report {
    /// As outputs take it.
    pub fn record(&self) -> &dyn Record {
        match self {
            Self::Probe(probe) => probe,
            Self::Hop(hop) => hop,
            Self::Congestion(congestion) => congestion,
            Self::RouteChange(change) => change,
            Self::Paths(paths) => paths,
        }
    }
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The router where its TTL ended said so.
    Answered,
    /// The destination, or somebody on the way, refused it: unreachable or prohibited.
    Refused,
    /// No answer came in time.
    Lost,
}

impl Outcome {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

impl AsValue for Outcome {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

record! {
    /// One probe: a header of the application's own flow with a low TTL, and what came of it.
    #[record = "probe"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct HopProbe {
        /// When the probe was handed to the device.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow that it was sent in; its source is this side.
        pub flow: FlowKey,
        /// The TTL, or hop limit, that it was sent with: the number of the router on the path.
        #[field(own_ipfix = 200)]
        pub ttl: u8,
        /// What became of it.
        #[field(bare, own_ipfix = 201)]
        pub outcome: Outcome,
        /// Who answered.
        #[field(own_ipfix = 202)]
        pub responder: Option<IpAddr>,
        /// From the device to the answer's arrival.
        #[field(label = "rtt", own_ipfix = 203)]
        pub rtt_ns: Option<Nanoseconds>,
        /// When the answer arrived.
        #[field(absent, own_ipfix = 244)]
        pub answer_time: Option<Time>,
        /// The number of the probe.
        #[field(absent, own_ipfix = 204)]
        pub probe: u32,
        /// Whether the application was silent, and the probe made from a stored header.
        #[field(own_ipfix = 205)]
        pub is_idle: bool,
        /// Bytes of the probe, from its IP header on, as fathom handed it to the device.
        #[field(absent, unit = Unit::Bytes, own_ipfix = 245)]
        pub length_bytes: u16,
        /// Whether the user's function edited it.
        #[field(absent, own_ipfix = 246)]
        pub is_edited: bool,
        /// What the user's function took out of the answer, eight bytes in hexadecimal.
        #[field(own_ipfix = 247)]
        pub extracted: Option<String>,
        /// TTL that the answer arrived with.
        #[field(absent, own_ipfix = 206)]
        pub reply_ttl: Option<u8>,
        /// Type and code of the ICMP message (RFC 792, RFC 4443): type times 256 plus code.
        #[field(absent, own_ipfix = 207)]
        pub icmp_type_code: Option<u16>,
        /// Labels of the MPLS stack that the probe carried at the router (RFC 4950), outermost
        /// first, as label/class/ttl with spaces between.
        #[field(label = "mpls", own_ipfix = 208)]
        pub mpls: Option<Arc<str>>,
        /// The router's interface that the probe came in by (RFC 5837): its name, address and
        /// `#index`, what there is of them.
        #[field(label = "at", own_ipfix = 209)]
        pub router_interface: Option<Arc<str>>,
        /// What the quoted probe shows to have been changed on the way: words of `source`,
        /// `destination`, `ports`, `dscp`, `ecn`, `ttl` (it had more left than 1 where the router
        /// gave up).
        #[field(label = "changed", own_ipfix = 210)]
        pub changed: Option<Arc<str>>,
        /// TCP sequence number of the probe; of an echo its identifier and sequence number.
        #[field(absent, own_ipfix = 248)]
        pub sequence: Option<u32>,
        /// Identification of the answer's IP header; absent for IPv6.
        #[field(absent, own_ipfix = 249)]
        pub answer_identification: Option<u16>,
        /// The processor that the answer arrived on, modulo 256.
        #[field(absent, own_ipfix = 250)]
        pub cpu: Option<u8>,
        /// The interface that it left by.
        #[field(absent, ipfix = 82)]
        pub interface: &'static str,
    }
}

record! {
    /// A router on the path of a flow, or its destination, over an interval.
    #[record = "hop"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct HopSummary {
        /// The end of the interval.
        #[field(ipfix = 325, fold = Fold::End)]
        pub time: Time,
        /// How long it was.
        #[field(absent, own_ipfix = 103, fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// The flow; its source is this side.
        pub flow: FlowKey,
        /// The TTL that reaches it; of a destination that answers no probe, what its packets' TTL
        /// suggests, and more than that of the last router that answers.
        #[field(own_ipfix = 200, metric = Metric::Label)]
        pub ttl: u8,
        /// Who answers there, most of the time.
        #[field(bare, own_ipfix = 202, metric = Metric::Label)]
        pub responder: Option<IpAddr>,
        /// Whether this is the flow's destination. It answers no probe: its round trips and losses
        /// are those of the flow's own packets, ten a second at most. Followed are data of TCP
        /// until their acknowledgement, which the destination may delay, keep-alives, and echo
        /// requests; lost are those that were sent again before, or had no answer in time.
        #[field(label = "destination", own_ipfix = 380)]
        pub is_destination: bool,
        /// Its name in the DNS, when asked for.
        #[field(bare, own_ipfix = 211)]
        pub responder_name: Option<Arc<str>>,
        /// The number of its autonomous system, when asked for.
        #[field(label = "as", own_ipfix = 212)]
        pub as_number: Option<u32>,
        /// Probes whose fate is known since the interval began.
        #[field(unit = Unit::Packets, label = "sent", own_ipfix = 213, fold = Fold::Sum, metric = Metric::Increase)]
        pub probes_sent: u64,
        /// Probes of these without an answer in time.
        #[field(unit = Unit::Packets, label = "lost", unless_zero, own_ipfix = 214, fold = Fold::Sum, metric = Metric::Increase)]
        pub probes_lost: u64,
        /// Why there were none: `silent`, `rate limited`, `forward loss`, `reverse loss`, `loss`
        /// where it cannot be told.
        #[field(label = "for", own_ipfix = 215, fold = Fold::Absent)]
        pub silence: Option<&'static str>,
        /// The last round trip.
        #[field(label = "last", own_ipfix = 216, fold = Fold::Absent)]
        pub rtt_last_ns: Option<Nanoseconds>,
        /// The shortest round trip since the flow began, or took this way.
        #[field(label = "min", own_ipfix = 217, fold = Fold::Least)]
        pub rtt_min_ns: Option<Nanoseconds>,
        /// The mean of the interval.
        #[field(absent, own_ipfix = 240, fold = Fold::Mean("probes_sent"))]
        pub rtt_mean_ns: Option<Nanoseconds>,
        /// The standard deviation of the interval's round trips, exact.
        #[field(label = "stdev", own_ipfix = 381, fold = Fold::Deviation { mean: "rtt_mean_ns", weight: "probes_sent" })]
        pub rtt_stdev_ns: Option<Nanoseconds>,
        /// The median of the interval, within 1.6 %.
        #[field(label = "p50", own_ipfix = 218, fold = Fold::Percentile(50), metric = Metric::Gauge)]
        pub rtt_p50_ns: Option<Nanoseconds>,
        /// The 90th percentile of the interval, within 1.6 %.
        #[field(absent, own_ipfix = 241, fold = Fold::Percentile(90))]
        pub rtt_p90_ns: Option<Nanoseconds>,
        /// The 95th percentile of the interval, within 1.6 %.
        #[field(absent, own_ipfix = 242, fold = Fold::Percentile(95))]
        pub rtt_p95_ns: Option<Nanoseconds>,
        /// The 99th percentile of the interval, within 1.6 %.
        #[field(label = "p99", own_ipfix = 219, fold = Fold::Percentile(99))]
        pub rtt_p99_ns: Option<Nanoseconds>,
        /// The greatest of the interval.
        #[field(absent, own_ipfix = 243, fold = Fold::Greatest)]
        pub rtt_max_ns: Option<Nanoseconds>,
        /// What the link to this router adds by waiting: the median over the minimum, less the same
        /// of the router before.
        #[field(label = "queue", own_ipfix = 220, fold = Fold::Mean("probes_sent"), metric = Metric::Gauge)]
        pub queue_ns: Option<Nanoseconds>,
        /// How many routers its answers seem to pass on the way back, where these are not as many
        /// as on the way there: by the TTL that they arrive with, as systems start with 64, 128 or
        /// 255.
        #[field(label = "back", own_ipfix = 238, fold = Fold::Absent)]
        pub routers_back: Option<u8>,
        /// What answers of the interval showed: words as in `changed`, `mpls` for labels,
        /// `balanced` where routers take turns packet by packet, `asymmetric` where `routers_back`
        /// says so.
        #[field(label = "marks", own_ipfix = 251, fold = Fold::Absent)]
        pub marks: Option<Arc<str>>,
        /// The interface that the flow leaves by.
        #[field(absent, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
        /// How often which round trip was measured.
        #[field(fold = Fold::Merge)]
        pub rtt_histogram: Histogram,
    }
}

record! {
    /// A link on the path of a flow that packets wait for.
    #[record = "congestion"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Congestion {
        /// The end of the second that was judged.
        #[field(ipfix = 153)]
        pub time: Time,
        /// How long was judged.
        #[field(absent, own_ipfix = 103)]
        pub duration_ns: Nanoseconds,
        /// The flow; its source is this side.
        pub flow: FlowKey,
        /// The TTL that reaches the router at the far end of the link; of TTL 1 the link begins at
        /// this host, and its own queue is part of it.
        #[field(own_ipfix = 200, metric = Metric::Label)]
        pub ttl: u8,
        /// The router at the near end: the last one before that answers; for the first link this
        /// side of the flow.
        #[field(label = "from", own_ipfix = 222)]
        pub near: IpAddr,
        /// The router at the far end.
        #[field(label = "to", own_ipfix = 223, metric = Metric::Label)]
        pub far: Option<IpAddr>,
        /// Which way packets wait, by the application's TCP timestamps: `forward`, `reverse`,
        /// `both`, `unknown` where they do not tell.
        #[field(bare, own_ipfix = 224, metric = Metric::Label)]
        pub direction: &'static str,
        /// What the link adds to round trips by waiting, at the median of the second.
        #[field(label = "queue", own_ipfix = 220, metric = Metric::Sample)]
        pub queue_ns: Nanoseconds,
        /// The interface that the flow leaves by.
        #[field(absent, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
    }
}

record! {
    /// A flow passes other routers than before.
    #[record = "route_change"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct RouteChange {
        /// When the first probe was sent that took the new way.
        #[field(ipfix = 325)]
        pub time: Time,
        /// The flow; its source is this side.
        pub flow: FlowKey,
        /// `route`, or `flap` for the way that was left less than a minute before.
        #[field(bare, own_ipfix = 225, metric = Metric::Outcome)]
        pub change: &'static str,
        /// The first hop that is another.
        #[field(own_ipfix = 200, metric = Metric::Label)]
        pub ttl: u8,
        /// Who was there.
        #[field(own_ipfix = 226)]
        pub old: IpAddr,
        /// Who is there now.
        #[field(own_ipfix = 227)]
        pub new: IpAddr,
        /// Routers that were known to be on the path: the deepest TTL of one.
        #[field(absent, own_ipfix = 228)]
        pub old_length: u8,
        /// The same from now on.
        #[field(label = "length", own_ipfix = 229)]
        pub new_length: u8,
        /// The interface that the flow leaves by.
        #[field(absent, ipfix = 82, metric = Metric::Label)]
        pub interface: &'static str,
    }
}

record! {
    /// One of several ways that flows to a destination take, over ten intervals.
    #[record = "paths"]
    #[derive(Debug, Clone, PartialEq)]
    pub struct Paths {
        /// The end of the time that was looked at.
        #[field(ipfix = 153)]
        pub time: Time,
        /// The network of the destinations: a /24 of IPv4, a /48 of IPv6.
        #[field(bare, own_ipfix = 230)]
        pub network: Network,
        /// The number of the way among those to this destination, from 1.
        #[field(label = "way", own_ipfix = 231)]
        pub number: u32,
        /// The routers, the nearest first; `*` where none is known, or some take turns packet by
        /// packet.
        #[field(bare, own_ipfix = 232)]
        pub path: String,
        /// Flows that took it.
        #[field(own_ipfix = 233)]
        pub flows: u32,
        /// The median of its round trips, one a second of each flow, to the router in `compared`.
        #[field(label = "rtt", own_ipfix = 218)]
        pub rtt_p50_ns: Option<Nanoseconds>,
        /// Where the ways are compared: the last router that all have in common behind where they
        /// part; absent: each at its deepest router.
        #[field(label = "to", own_ipfix = 235)]
        pub compared: Option<IpAddr>,
        /// How it compares to most of the others: `slower`, `faster`, `alike` (Kruskal and Wallis's
        /// test of pairs, p < 0.01 over all, and medians further apart than 200 us and 1 %).
        #[field(bare, own_ipfix = 236)]
        pub verdict: Option<&'static str>,
        /// The probability that ways of one kind differ as much as all of these do (Kruskal and
        /// Wallis); absent with too few round trips.
        #[field(label = "p", own_ipfix = 237)]
        pub p_value: Option<f64>,
    }
}
