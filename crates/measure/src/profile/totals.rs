//! What a connection did in all: the sums of its profiles, told with the last of them.

use fathom_record::parts::{Part, Shape};
use fathom_record::{Nanoseconds, Record, Unit, Value, Visitor, record};

use super::TcpProfile;
use super::group::Behind;

record! {
    /// What a connection did since its first profile began, in the last of its profiles.
    #[record = "profile_totals"]
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct TcpTotals {
        /// In the last profile of a connection: the time from the beginning of its first to now.
        #[field(label = "total_after", own_ipfix = 180)]
        pub total_duration_ns: Nanoseconds,
        /// In the last profile: `establishment_ns` of the first.
        #[field(absent, own_ipfix = 196)]
        pub total_establishment_ns: Option<Nanoseconds>,
        /// In the last profile: `accept_queue_ns` of the first.
        #[field(absent, own_ipfix = 197)]
        pub total_accept_queue_ns: Option<Nanoseconds>,
        /// In the last profile: all packets sent.
        #[field(unit = Unit::Packets, absent, ipfix = 86)]
        pub total_packets: u64,
        /// In the last profile: their IP bytes.
        #[field(unit = Unit::Bytes, absent, ipfix = 85)]
        pub total_bytes: u64,
        /// In the last profile: all packets received.
        #[field(unit = Unit::Packets, absent, reverse_ipfix = 86)]
        pub total_reverse_packets: u64,
        /// In the last profile: their IP bytes.
        #[field(unit = Unit::Bytes, absent, reverse_ipfix = 85)]
        pub total_reverse_bytes: u64,
        /// In the last profile: all payload sent, also when sent again.
        #[field(unit = Unit::Bytes, label = "total_sent", own_ipfix = 181)]
        pub total_bytes_sent: u64,
        /// In the last profile: all payload received in order.
        #[field(unit = Unit::Bytes, label = "total_received", own_ipfix = 182)]
        pub total_bytes_received: u64,
        /// In the last profile: all payload that the peer acknowledged.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 183)]
        pub total_bytes_acknowledged: u64,
        /// In the last profile: all packets with payload sent.
        #[field(unit = Unit::Packets, absent, own_ipfix = 184)]
        pub total_packets_sent: u64,
        /// In the last profile: all packets with payload received.
        #[field(unit = Unit::Packets, absent, own_ipfix = 185)]
        pub total_packets_received: u64,
        /// In the last profile: all packets that the stack marked as lost.
        #[field(unit = Unit::Packets, absent, own_ipfix = 186)]
        pub total_packets_lost: u64,
        /// In the last profile: all payload sent again.
        #[field(unit = Unit::Bytes, absent, own_ipfix = 187)]
        pub total_bytes_retransmitted: u64,
        /// In the last profile: all packets sent again.
        #[field(unit = Unit::Packets, label = "total_retransmitted", unless_zero, own_ipfix = 188)]
        pub total_packets_retransmitted: u64,
        /// In the last profile: all round trips.
        #[field(absent, own_ipfix = 189)]
        pub total_rtt_samples: Option<u64>,
        /// In the last profile: their mean.
        #[field(absent, own_ipfix = 190)]
        pub total_rtt_mean_ns: Option<Nanoseconds>,
        /// In the last profile: all packets received whose payload had all been received before.
        #[field(unit = Unit::Packets, absent, own_ipfix = 191)]
        pub total_packets_duplicate: Option<u64>,
        /// In the last profile: all packets received before others that they follow.
        #[field(unit = Unit::Packets, absent, own_ipfix = 192)]
        pub total_packets_out_of_order: u64,
        /// In the last profile: all stalls.
        #[field(unless_zero, own_ipfix = 193)]
        pub total_stalls: u64,
        /// In the last profile: all time between retransmission timeouts and the recoveries from
        /// them.
        #[field(label = "total_stalled", unless_zero, own_ipfix = 194)]
        pub total_stalled_ns: Nanoseconds,
    }
}

impl TcpTotals {
    /// One more profile of the connection.
    pub(super) fn add(&mut self, profile: &TcpProfile) {
        self.total_duration_ns.0 += profile.duration_ns.0;
        let establishment = self.total_establishment_ns.or(profile.establishment_ns);
        self.total_establishment_ns = establishment;
        self.total_accept_queue_ns = self.total_accept_queue_ns.or(profile.accept_queue_ns);
        self.total_packets += profile.packets;
        self.total_bytes += profile.bytes;
        self.total_reverse_packets += profile.reverse_packets;
        self.total_reverse_bytes += profile.reverse_bytes;
        self.total_bytes_sent += profile.bytes_sent;
        self.total_bytes_received += profile.bytes_received;
        self.total_bytes_acknowledged += profile.bytes_acknowledged;
        self.total_packets_sent += u64::from(profile.packets_sent);
        self.total_packets_received += u64::from(profile.packets_received);
        self.total_packets_lost += u64::from(profile.packets_lost);
        self.total_bytes_retransmitted += profile.bytes_retransmitted;
        self.total_packets_retransmitted += u64::from(profile.packets_retransmitted);
        self.total_packets_out_of_order += u64::from(profile.packets_out_of_order);
        self.total_stalls += u64::from(profile.stalls);
        self.total_stalled_ns.0 += profile.stalled_ns.0;
        add(
            &mut self.total_packets_duplicate,
            profile.packets_duplicate.map(u64::from),
        );
        self.add_round_trips(profile);
    }

    fn add_round_trips(&mut self, profile: &TcpProfile) {
        let sum = |count: Option<u64>, mean: Option<Nanoseconds>| {
            u128::from(count.unwrap_or(0)) * u128::from(mean.map_or(0, |mean| mean.0))
        };
        let count = profile.rtt_samples.map(u64::from);
        let sum =
            sum(self.total_rtt_samples, self.total_rtt_mean_ns) + sum(count, profile.rtt_mean_ns);
        add(&mut self.total_rtt_samples, count);
        let all = u128::from(self.total_rtt_samples.unwrap_or(0));
        let mean = (sum + all / 2).checked_div(all);
        self.total_rtt_mean_ns = mean.map(|mean| Nanoseconds(mean as u64));
    }
}

/// A sum of what there is.
pub(super) fn add(total: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *total = Some(total.unwrap_or(0) + more);
    }
}

/// The totals of a connection, where a profile is its last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AtEnd(pub Option<Box<TcpTotals>>);

impl Part for AtEnd {
    const SHAPE: Shape = Shape::Group(TcpTotals::SCHEMA.fields);

    fn part(&self, index: usize) -> Value<'_> {
        self.0
            .as_ref()
            .map_or(Value::Missing, |totals| totals.value(index))
    }

    fn visit(&self, index: usize, visitor: &mut dyn Visitor) {
        if let Some(totals) = &self.0 {
            totals.visit(&mut Behind(index, visitor));
        }
    }
}
