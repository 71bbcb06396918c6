//! How often something happened.

use crate::{Metric, Time, record};

record! {
    /// How often something happened that is not a measurement: what was left out, lost, evicted or
    /// refused, by name.
    #[record = "count"]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Count {
        /// When it was read.
        #[field(ipfix = 325)]
        pub time: Time,
        /// Which measurement counts: `rtt`, `hops`, `response`, `profile`, `balance`;
        /// of what became of records `store`, `ipfix`, `output`.
        #[field(bare, own_ipfix = 330, metric = Metric::Label)]
        pub measurement: &'static str,
        /// What is counted, since the start; of `balance` since forwarding began.
        #[field(bare, own_ipfix = 331, metric = Metric::Label)]
        pub name: &'static str,
        /// How often.
        #[field(own_ipfix = 332, metric = Metric::Counter)]
        pub count: u64,
    }
}

impl Count {
    /// A count of this measurement, under this name.
    pub const fn new(
        time: Time,
        measurement: &'static str,
        name: &'static str,
        count: u64,
    ) -> Self {
        Self {
            time,
            measurement,
            name,
            count,
        }
    }
}
