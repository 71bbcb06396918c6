//! Records as far as comparing needs them.

use fathom_record::{FlowKey, Fold, Histogram, Nanoseconds, Time, record};

record! {
    /// Of a connection.
    #[record = "profile"]
    pub(crate) struct Profile {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// From.
        pub start_state: &'static str,
        /// To.
        pub end_state: &'static str,
        /// Which end.
        pub role: &'static str,
        /// How long the handshake took.
        pub establishment_ns: Option<Nanoseconds>,
        /// In the last one, how long all took.
        pub total_duration_ns: Option<Nanoseconds>,
        /// How many.
        pub total_rtt_samples: Option<u64>,
        /// Their mean.
        pub total_rtt_mean_ns: Option<Nanoseconds>,
        /// How long it was stalled.
        pub total_stalled_ns: Option<Nanoseconds>,
        /// What was sent again.
        pub packets_retransmitted: u64,
        /// How much round trips differ.
        pub jitter_ns: Option<Nanoseconds>,
        /// Where.
        pub interface: &'static str,
    }
}

record! {
    /// Of a query.
    #[record = "profile_dns"]
    pub(crate) struct Dns {
        /// When.
        pub time: Time,
        /// Whose.
        pub flow: FlowKey,
        /// How long.
        pub latency_ns: Nanoseconds,
    }
}

record! {
    /// Of a flow.
    #[record = "traffic"]
    pub(crate) struct Traffic {
        /// When.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// Where.
        pub interface: &'static str,
    }
}

record! {
    /// The same of its round trips.
    #[record = "rtt_aggregate"]
    pub(crate) struct RoundTrips {
        /// When.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// How many.
        #[field(fold = Fold::Sum)]
        pub rtt_samples: u64,
        /// Their mean.
        #[field(fold = Fold::Mean("rtt_samples"))]
        pub rtt_mean_ns: Nanoseconds,
        /// Where.
        pub interface: &'static str,
    }
}

record! {
    /// The same of its responses.
    #[record = "response_aggregate"]
    pub(crate) struct Responses {
        /// When.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// The median.
        #[field(fold = Fold::Percentile(50))]
        pub latency_p50_ns: Option<Nanoseconds>,
        /// Where.
        pub interface: &'static str,
        /// All.
        #[field(fold = Fold::Merge)]
        pub latency_histogram: Histogram,
    }
}

record! {
    /// What an agent tells.
    #[record = "agent"]
    pub(crate) struct Agent {
        /// When.
        pub time: Time,
        /// What else its host is called.
        pub labels: &'static str,
    }
}
