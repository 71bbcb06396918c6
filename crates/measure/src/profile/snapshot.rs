//! How a TCP connection stands at a moment, and the making of its profiles.

use std::borrow::Cow;

use fathom_record::Nanoseconds;

use super::carried::{SynPackets, carried};
use super::connection::{Connection, End, ProfileBuilder, Snapshot};
use super::ending::{flow_end_reason, is_last};
use super::increase::{acknowledged, received, stalled_ns};
use super::indicator::Capabilities;
use super::reorder::ProfileRecord;
use super::statistics::{Spread, spread};
use super::totals::{AtEnd, TcpTotals};
use super::{Indicator, State, TcpProfile};
use crate::flow::address;
use crate::native::flow_address;
use crate::profile::native::{increase, profile_moment_of, profile_snapshot};

impl Snapshot for profile_snapshot {
    type Totals = TcpTotals;

    fn of(&self) -> &profile_moment_of {
        &self.of
    }

    fn may_coalesce(&self) -> bool {
        self.packets_retransmitted == 0
    }

    fn profile(
        &self,
        connection: &mut Connection<Self>,
        end: End,
        builder: &mut ProfileBuilder,
    ) -> ProfileRecord {
        let mut profile = self.until_now(connection, end, builder);
        let (end_state, reason) = end;
        connection.totals.add(&profile);
        let is_last = is_last(end_state, reason);
        profile.total = AtEnd(is_last.then(|| Box::new(connection.totals.clone())));
        profile.into()
    }
}

impl profile_snapshot {
    /// As long as the record has fields, in their order.
    #[expect(clippy::too_many_lines, reason = "a line for each field of the record")]
    fn until_now(
        &self,
        connection: &Connection<Self>,
        (end_state, reason): End,
        builder: &mut ProfileBuilder,
    ) -> TcpProfile {
        let last = connection.last.as_deref();
        let found = &last.map_or(Cow::Borrowed(self), |last| Cow::Owned(increase(last, self)));
        let disorder = &found.disorder;
        let is_client = connection.is_client();
        // It is in this profile, as its end or, of a short connection, before that.
        let is_establishment = connection.state == State::New && end_state == State::Established;
        let established = is_establishment
            .then_some(self)
            .or(connection.establishment.as_deref());
        // The first packets that a server's socket sent again were those of its handshake.
        let syn_acks = established
            .filter(|_| !is_client)
            .map_or(0, |it| it.packets_retransmitted);
        let since_start = |it: &Self| Nanoseconds(it.of.time.saturating_sub(connection.start_ns));
        let is_start_known =
            |it: &&Self| connection.is_opening_seen || it.packets_retransmitted == 0;
        let capabilities = &builder.capabilities;
        let trips = found.spread_of_round_trips(capabilities, established);
        let distances = spread(
            disorder.distance_count,
            disorder.distance_sum,
            disorder.distance_squares,
        );
        let jiffies = |count: u32| Nanoseconds(u64::from(count) * capabilities.jiffy_ns);
        let has_disorder = capabilities.can(Indicator::Disorder);
        let has_duplicates = capabilities.can(Indicator::Duplicates);
        let (pid, process) = connection.process.clone().unzip();
        let syn_packets = connection.syn_packets(found, established);
        let [sent, arrived] = carried(found, last, self, syn_packets);
        TcpProfile {
            time: builder.time(self.of.time),
            flow: connection.flow,
            start_state: connection.state,
            end_state,
            reason,
            flow_end_reason: flow_end_reason(end_state, reason),
            start_time: connection
                .start_time
                .unwrap_or_else(|| builder.time(connection.start_ns)),
            duration_ns: since_start(self),
            connection: connection.id,
            role: connection.role,
            is_existing: connection.is_existing.then_some(true),
            establishment_ns: established.filter(is_start_known).map(since_start),
            accept_queue_ns: connection.accept_queue_ns.map(Nanoseconds),
            total: AtEnd::default(),
            packets: sent.packets,
            bytes: sent.bytes,
            reverse_packets: arrived.packets,
            reverse_bytes: arrived.bytes,
            bytes_sent: found.bytes_sent,
            packets_sent: found.packets_sent,
            bytes_received: received(self).saturating_sub(last.map_or(0, received)),
            packets_received: found.packets_received,
            bytes_acknowledged: acknowledged(self, is_client)
                .saturating_sub(last.map_or(0, |last| acknowledged(last, is_client))),
            packets_acknowledged: found.packets_delivered,
            packets_lost: found.packets_lost,
            bytes_retransmitted: found.bytes_retransmitted,
            packets_retransmitted: found.packets_retransmitted,
            syn_acks_retransmitted: syn_acks,
            checksum_errors: capabilities
                .can(Indicator::Checksums)
                .then_some(disorder.checksum_errors),
            srtt_ns: microseconds(self.round_trip),
            rtt_min_ns: microseconds(self.round_trip_minimum)
                .filter(|_| self.round_trip_minimum != u32::MAX),
            rtt_samples: capabilities
                .can(Indicator::RoundTrips)
                .then_some(trips.count),
            rtt_mean_ns: trips.mean.map(in_nanoseconds),
            rtt_variance_us2: trips.variance,
            jitter_ns: microseconds(self.round_trip_deviation).filter(|_| self.round_trip != 0),
            packets_duplicate: has_duplicates.then_some(disorder.duplicate_packets),
            bytes_duplicate: has_duplicates.then_some(disorder.duplicate_bytes),
            packets_partially_duplicate: has_disorder.then_some(disorder.partial_duplicate_packets),
            bytes_partially_duplicate: has_disorder.then_some(disorder.partial_duplicate_bytes),
            packets_out_of_order: found.packets_out_of_order,
            bytes_out_of_order: has_disorder.then_some(disorder.out_of_order_bytes),
            out_of_order_distance_mean_bytes: distances.mean,
            out_of_order_distance_variance: distances.variance,
            out_of_order_distance_max_bytes: (disorder.distance_max != 0)
                .then_some(disorder.distance_max),
            stalls: disorder.stalls.saturating_add(syn_acks),
            stalled_ns: Nanoseconds(stalled_ns(connection.start_ns, self)),
            window_limited_ns: jiffies(found.limited[1]),
            send_buffer_limited_ns: jiffies(found.limited[2]),
            // The stack counts time that is limited apart from other busy time.
            busy_ns: jiffies(found.limited.iter().sum()),
            unanswered_probes: self.probes,
            packets_reported_duplicate: found.duplicates_reported,
            reordering_seen: found.reordering_seen,
            packets_congestion_experienced: found.packets_marked,
            congestion_control: builder
                .names
                .text(&self.congestion_control)
                .unwrap_or_default(),
            congestion_window: self.congestion_window,
            mss_bytes: self.segment_size,
            receive_buffer_bytes: self.receive_buffer,
            send_buffer_bytes: self.send_buffer,
            pid,
            process,
            group: builder.names.group(self.cgroup),
            network_namespace: self.net_namespace,
            interface: builder.names.text(&self.interface),
            next_hop: (self.next_hop != flow_address::default()).then(|| address(&self.next_hop)),
            mptcp_token: (self.is_subflow != 0).then_some(self.token),
            path_index: (self.is_subflow != 0).then_some(self.subflow),
        }
    }

    /// Round trips of a profile: that of the handshake, before the kernel calls back for each, then
    /// those.
    fn spread_of_round_trips(
        &self,
        capabilities: &Capabilities,
        established: Option<&Self>,
    ) -> Spread {
        if !capabilities.can(Indicator::RoundTrips) {
            return Spread::default();
        }
        let trips = &self.round_trips;
        let is_uncounted = |it: &&Self| it.round_trips.count == 0 && it.round_trip != 0;
        match established.filter(is_uncounted) {
            Some(it) => {
                let first = u64::from(it.round_trip);
                let squares = trips.squares + first * first;
                spread(trips.count + 1, trips.sum + first, squares)
            }
            None => spread(trips.count, trips.sum, trips.squares),
        }
    }
}

impl Connection<profile_snapshot> {
    /// Which packets with SYN a profile has, that of its establishment or of an attempt.
    fn syn_packets(
        &self,
        found: &profile_snapshot,
        established: Option<&profile_snapshot>,
    ) -> SynPackets {
        let received = u32::from(established.is_some());
        let handshake = established.unwrap_or(found);
        match self.role {
            _ if self.is_established => SynPackets::default(),
            Some("client") => SynPackets {
                sent: handshake.segments_out,
                received,
                is_counted: true,
            },
            _ => SynPackets {
                sent: 1 + handshake.packets_retransmitted,
                received,
                is_counted: false,
            },
        }
    }
}

#[expect(clippy::cast_sign_loss, reason = "the mean of unsigned numbers")]
fn in_nanoseconds(mean_us: f64) -> Nanoseconds {
    Nanoseconds((mean_us * 1e3).round() as u64)
}

/// Zero is what the stack holds before it has measured.
fn microseconds(value: u32) -> Option<Nanoseconds> {
    (value != 0).then(|| Nanoseconds(u64::from(value) * 1_000))
}
