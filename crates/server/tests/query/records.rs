//! Records as far as views need them.

use fathom_record::{FlowKey, Fold, Histogram, Nanoseconds, Time, record};

record! {
    /// As an older fathom wrote it: without most of its columns.
    #[record = "rtt_aggregate"]
    pub(crate) struct Aggregate {
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
        pub rtt_p50_ns: Option<Nanoseconds>,
        /// Where.
        pub interface: &'static str,
        /// All.
        #[field(fold = Fold::Merge)]
        pub rtt_histogram: Histogram,
    }
}

record! {
    /// The same of traffic.
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
        /// How much.
        #[field(fold = Fold::Sum)]
        pub bytes: u64,
        /// Where.
        pub interface: &'static str,
    }
}
