//! One connection, and the making of its profiles.

use std::borrow::Cow;
use std::sync::Arc;

use fathom_record::{FlowKey, Nanoseconds, Time};

use super::carried::{Synchronizing, carried};
use super::connections::{Abilities, Report};
use super::ending::flow_end_reason;
use super::increase::{acknowledged, increase, received, stalled_ns};
use super::names::Names;
use super::statistics::{Spread, spread};
use super::totals::{AtEnd, TcpTotals};
use super::{Indicator, State, TcpProfile};
use crate::flow::address;
use crate::native::flow_address;
use crate::profile::native::{self, profile_moment_of, profile_slot, profile_snapshot};

/// What is known of a connection between two profiles.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) flow: FlowKey,
    role: Option<&'static str>,
    state: State,
    is_existing: bool,
    /// Has its handshake been told, or was it before?
    is_established: bool,
    /// What its profiles add up to.
    totals: TcpTotals,
    /// When the present profile began, in the kernel's time.
    pub(super) start_ns: u64,
    /// The same as it was told as the end of the profile before: the wall clock may have been set since.
    start_time: Option<Time>,
    process: Option<(u32, Arc<str>)>,
    accept_queue_ns: Option<u64>,
    /// The establishment of a server's connection, until the application accepts it.
    unaccepted: Option<Box<profile_snapshot>>,
    /// How it stood at the end of the last profile, and when it was last looked at.
    last: Option<Box<profile_snapshot>>,
    pub(super) seen: Option<Box<profile_snapshot>>,
}

impl Connection {
    fn new(of: &profile_moment_of, state: State) -> Self {
        Self {
            flow: of.flow(),
            role: None,
            state,
            is_existing: false,
            is_established: false,
            totals: TcpTotals::default(),
            start_ns: of.time,
            start_time: None,
            process: None,
            accept_queue_ns: None,
            unaccepted: None,
            last: None,
            seen: None,
        }
    }

    /// This host sends a SYN, or tries to.
    pub(super) fn opened(of: &profile_moment_of, maker: &mut Maker) -> Self {
        Self {
            role: Some("client"),
            process: maker.process(of),
            ..Self::new(of, State::New)
        }
    }

    /// The peer has opened it. What the handshake took is the first round trip, unless the SYN-ACK was sent again.
    pub(super) fn arrived(snapshot: &profile_snapshot) -> Self {
        let of = snapshot.of;
        let handshake_ns = u64::from(snapshot.round_trip) * 1_000;
        Self {
            role: Some("server"),
            start_ns: of.time.saturating_sub(handshake_ns),
            unaccepted: Some(Box::new(*snapshot)),
            ..Self::new(&of, State::New)
        }
    }

    /// It was there before fathom; what it does is told from now on.
    pub(super) fn existing(snapshot: &profile_snapshot, state: State) -> Self {
        Self {
            is_existing: true,
            is_established: true,
            last: Some(Box::new(*snapshot)),
            ..Self::new(&snapshot.of, state)
        }
    }

    /// Only its end was seen.
    pub(super) fn unknown(of: &profile_moment_of) -> Self {
        Self {
            is_existing: true,
            is_established: true,
            ..Self::new(of, State::Desync)
        }
    }

    pub(super) fn accept(&mut self, of: &profile_moment_of, maker: &mut Maker, report: Report<'_>) {
        if let Some(snapshot) = &self.unaccepted {
            self.accept_queue_ns = Some(of.time.saturating_sub(snapshot.of.time));
            self.process = maker.process(of);
            self.tell_establishment(maker, report);
        }
    }

    /// The first profile of a server's connection, if it is still to be told, with what the kernel's slot says of who accepted it.
    pub(super) fn stop_waiting(
        &mut self,
        slot: Option<&profile_slot>,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        if let Some(slot) = slot.filter(|slot| slot.holds(native::PROFILE_ACCEPTED)) {
            self.accept(&slot.told(), maker, report);
        }
        self.tell_establishment(maker, report);
    }

    /// The first profile of a server's connection, if it is still to be told.
    pub(super) fn tell_establishment(&mut self, maker: &mut Maker, report: Report<'_>) {
        if let Some(snapshot) = self.unaccepted.take() {
            let (state, reason) = (State::Established, "established");
            self.tell_until(&snapshot, (state, reason), false, maker, report);
            self.last = Some(snapshot);
        }
    }

    /// A profile up to now, and the beginning of the next.
    pub(super) fn tell(
        &mut self,
        snapshot: &profile_snapshot,
        end_state: State,
        reason: &'static str,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        self.tell_next(snapshot, (end_state, reason), false, maker, report);
        match &mut self.last {
            Some(last) => **last = *snapshot,
            none => *none = Some(Box::new(*snapshot)),
        }
    }

    /// A profile up to now, the last.
    pub(super) fn tell_end(
        &mut self,
        snapshot: &profile_snapshot,
        end_state: State,
        reason: &'static str,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        self.tell_next(snapshot, (end_state, reason), true, maker, report);
    }

    fn tell_next(
        &mut self,
        snapshot: &profile_snapshot,
        end: (State, &'static str),
        is_last: bool,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        self.tell_establishment(maker, report);
        if self.flow.source_port == 0 {
            // A connection that is about to be opened has no port yet.
            self.flow = snapshot.of.flow();
        }
        self.tell_until(snapshot, end, is_last, maker, report);
    }

    fn tell_until(
        &mut self,
        snapshot: &profile_snapshot,
        (end_state, reason): (State, &'static str),
        is_last: bool,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        let mut profile = maker.profile(self, snapshot, end_state, reason);
        self.totals.add(&profile);
        profile.total = AtEnd(is_last.then(|| Box::new(self.totals.clone())));
        self.start_time = Some(profile.time);
        self.state = end_state;
        self.is_established |= end_state == State::Established;
        self.start_ns = snapshot.of.time;
        self.accept_queue_ns = None;
        report(profile.into());
    }

    /// Is it not known yet who accepts it?
    pub(super) fn is_unaccepted(&self) -> bool {
        self.unaccepted.is_some()
    }

    /// Which packets with SYN a profile has.
    fn synchronizing(&self, found: &profile_snapshot, end_state: State) -> Synchronizing {
        let received = u32::from(end_state == State::Established);
        match self.role {
            _ if self.is_established => Synchronizing::default(),
            Some("client") => Synchronizing {
                sent: found.segments_out,
                received,
                is_counted: true,
            },
            _ => Synchronizing {
                sent: 1 + found.packets_retransmitted,
                received,
                is_counted: false,
            },
        }
    }

    /// A last profile of a connection that is followed no longer.
    pub(super) fn tell_desync(&mut self, maker: &mut Maker, report: Report<'_>) {
        self.tell_establishment(maker, report);
        if let Some(last) = self.seen.take().or_else(|| self.last.take()) {
            self.tell_end(&last, State::Desync, "too many connections", maker, report);
        }
    }
}

/// Makes profiles.
#[derive(Debug)]
pub(super) struct Maker {
    abilities: Abilities,
    names: Names,
    /// Makes the kernel's time that of the wall clock.
    pub(super) offset_ns: u64,
}

impl Maker {
    pub(super) fn new(abilities: Abilities) -> Self {
        Self {
            names: Names::new(abilities.groups.clone()),
            abilities,
            offset_ns: 0,
        }
    }

    pub(super) fn process(&mut self, of: &profile_moment_of) -> Option<(u32, Arc<str>)> {
        let name = self.names.text(&of.process)?;
        Some((of.process_id, name))
    }

    /// Whether profiles have this.
    pub(super) fn can(&self, indicator: Indicator) -> bool {
        self.abilities.can(indicator)
    }

    pub(super) fn group(&mut self, id: u64) -> Option<Arc<str>> {
        self.names.group(id)
    }

    pub(super) fn time(&self, kernel_ns: u64) -> Time {
        Time(kernel_ns.wrapping_add(self.offset_ns))
    }

    /// What `connection` did until `now`. As long as the record has fields, in their order.
    #[expect(clippy::too_many_lines, reason = "a line for each field of the record")]
    pub(super) fn profile(
        &mut self,
        connection: &Connection,
        now: &profile_snapshot,
        end_state: State,
        reason: &'static str,
    ) -> TcpProfile {
        let last = connection.last.as_deref();
        let found = &last.map_or(Cow::Borrowed(now), |last| Cow::Owned(increase(last, now)));
        let disorder = &found.disorder;
        let is_client = connection.role == Some("client");
        let is_establishment = connection.state == State::New && end_state == State::Established;
        // The first packets that a server's socket sent again were those of its handshake.
        let is_of_handshake = is_establishment && !is_client;
        let syn_acks = if is_of_handshake {
            found.packets_retransmitted
        } else {
            0
        };
        let duration = Nanoseconds(now.of.time.saturating_sub(connection.start_ns));
        let trips = self.round_trips(found, is_establishment);
        let distances = spread(
            disorder.distance_count,
            disorder.distance_sum,
            disorder.distance_squares,
        );
        let jiffies = |count: u32| Nanoseconds(u64::from(count) * self.abilities.jiffy_ns);
        let has_disorder = self.abilities.can(Indicator::Disorder);
        let has_duplicates = self.abilities.can(Indicator::Duplicates);
        let (pid, process) = connection.process.clone().unzip();
        let synchronizing = connection.synchronizing(found, end_state);
        let [sent, arrived] = carried(found, last, now, synchronizing);
        TcpProfile {
            time: self.time(now.of.time),
            flow: connection.flow,
            start_state: connection.state,
            end_state,
            reason,
            flow_end_reason: flow_end_reason(end_state, reason),
            start_time: connection
                .start_time
                .unwrap_or_else(|| self.time(connection.start_ns)),
            duration_ns: duration,
            connection: now.of.connection,
            role: connection.role,
            is_existing: connection.is_existing.then_some(true),
            establishment_ns: (is_establishment && syn_acks == 0).then_some(duration),
            accept_queue_ns: connection.accept_queue_ns.map(Nanoseconds),
            total: AtEnd::default(),
            packets: sent.packets,
            bytes: sent.bytes,
            reverse_packets: arrived.packets,
            reverse_bytes: arrived.bytes,
            bytes_sent: found.bytes_sent,
            packets_sent: found.packets_sent,
            bytes_received: received(now).saturating_sub(last.map_or(0, received)),
            packets_received: found.packets_received,
            bytes_acknowledged: acknowledged(now, is_client)
                .saturating_sub(last.map_or(0, |last| acknowledged(last, is_client))),
            packets_acknowledged: found.packets_delivered,
            packets_lost: found.packets_lost,
            bytes_retransmitted: found.bytes_retransmitted,
            packets_retransmitted: found.packets_retransmitted,
            syn_acks_retransmitted: syn_acks,
            checksum_errors: (self.abilities.can(Indicator::Checksums))
                .then_some(disorder.checksum_errors),
            srtt_ns: microseconds(now.round_trip),
            rtt_min_ns: microseconds(now.round_trip_minimum)
                .filter(|_| now.round_trip_minimum != u32::MAX),
            rtt_samples: self
                .abilities
                .can(Indicator::RoundTrips)
                .then_some(trips.count),
            rtt_mean_ns: trips.mean.map(in_nanoseconds),
            rtt_variance_us2: trips.variance,
            jitter_ns: microseconds(now.round_trip_deviation).filter(|_| now.round_trip != 0),
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
            stalled_ns: Nanoseconds(stalled_ns(connection.start_ns, now)),
            window_limited_ns: jiffies(found.limited[1]),
            send_buffer_limited_ns: jiffies(found.limited[2]),
            // The stack counts time that is limited apart from other busy time.
            busy_ns: jiffies(found.limited.iter().sum()),
            unanswered_probes: now.probes,
            packets_reported_duplicate: found.duplicates_reported,
            reordering_seen: found.reordering_seen,
            packets_congestion_experienced: found.packets_marked,
            congestion_control: self.names.text(&now.congestion_control).unwrap_or_default(),
            congestion_window: now.congestion_window,
            mss_bytes: now.segment_size,
            receive_buffer_bytes: now.receive_buffer,
            send_buffer_bytes: now.send_buffer,
            pid,
            process,
            cgroup: self.names.group(now.cgroup),
            network_namespace: now.net_namespace,
            interface: self.names.text(&now.interface),
            next_hop: (now.next_hop != flow_address::default()).then(|| address(&now.next_hop)),
            mptcp_token: (now.is_subflow != 0).then_some(now.token),
            path_index: (now.is_subflow != 0).then_some(now.subflow),
        }
    }

    /// Round trips of a profile: that of the handshake, before the kernel calls back for each, then those.
    fn round_trips(&self, found: &profile_snapshot, is_establishment: bool) -> Spread {
        if !self.abilities.can(Indicator::RoundTrips) {
            return Spread::default();
        }
        let trips = &found.round_trips;
        if is_establishment && trips.count == 0 && found.round_trip != 0 {
            let first = u64::from(found.round_trip);
            return spread(1, first, first * first);
        }
        spread(trips.count, trips.sum, trips.squares)
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
