//! One connection, and the making of its profiles.

use std::sync::Arc;

use fathom_record::{FlowKey, Nanoseconds, Time};

use super::connections::{Abilities, Report};
use super::names::Names;
use super::statistics::{Spread, spread};
use super::{State, TcpProfile};
use crate::native::{self, flow_address, profile_moment_of, profile_snapshot};

/// What is known of a connection between two profiles.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) flow: FlowKey,
    role: Option<&'static str>,
    state: State,
    is_existing: bool,
    /// When the present profile began, in the kernel's time.
    pub(super) start_ns: u64,
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
            start_ns: of.time,
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
    pub(super) fn arrived(snapshot: Box<profile_snapshot>) -> Self {
        let of = snapshot.of;
        let handshake_ns = u64::from(snapshot.round_trip) * 1_000;
        Self {
            role: Some("server"),
            start_ns: of.time.saturating_sub(handshake_ns),
            unaccepted: Some(snapshot),
            ..Self::new(&of, State::New)
        }
    }

    /// It was there before fathom; what it does is told from now on.
    pub(super) fn existing(snapshot: &profile_snapshot, state: State) -> Self {
        Self {
            is_existing: true,
            last: Some(Box::new(*snapshot)),
            ..Self::new(&snapshot.of, state)
        }
    }

    /// Only its end was seen.
    pub(super) fn unknown(of: &profile_moment_of) -> Self {
        Self {
            is_existing: true,
            ..Self::new(of, State::Desync)
        }
    }

    /// When it was established, if the application has not accepted it yet.
    pub(super) fn is_waiting_since(&self) -> Option<u64> {
        self.unaccepted.as_ref().map(|snapshot| snapshot.of.time)
    }

    pub(super) fn accept(&mut self, of: &profile_moment_of, maker: &mut Maker, report: Report<'_>) {
        if let Some(snapshot) = &self.unaccepted {
            self.accept_queue_ns = Some(of.time.saturating_sub(snapshot.of.time));
            self.process = maker.process(of);
            self.tell_establishment(maker, report);
        }
    }

    /// The first profile of a server's connection, if it is still to be told.
    pub(super) fn tell_establishment(&mut self, maker: &mut Maker, report: Report<'_>) {
        if let Some(snapshot) = self.unaccepted.take() {
            self.tell(&snapshot, State::Established, "established", maker, report);
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
        self.tell_establishment(maker, report);
        if self.flow.source_port == 0 {
            // A connection that is about to be opened has no port yet.
            self.flow = snapshot.of.flow();
        }
        report(&maker.profile(self, snapshot, end_state, reason));
        self.state = end_state;
        self.start_ns = snapshot.of.time;
        self.accept_queue_ns = None;
        match &mut self.last {
            Some(last) => **last = *snapshot,
            none => *none = Some(Box::new(*snapshot)),
        }
    }

    /// A last profile of a connection that is followed no longer.
    pub(super) fn tell_desync(&mut self, maker: &mut Maker, report: Report<'_>) {
        self.tell_establishment(maker, report);
        if let Some(last) = self.seen.take().or_else(|| self.last.take()) {
            self.tell(&last, State::Desync, "too many connections", maker, report);
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

    pub(super) fn group(&mut self, id: u64) -> Option<Arc<str>> {
        self.names.group(id)
    }

    pub(super) fn time(&self, kernel_ns: u64) -> Time {
        Time(kernel_ns.wrapping_add(self.offset_ns))
    }

    /// What `connection` did until `now`.
    pub(super) fn profile(
        &mut self,
        connection: &Connection,
        now: &profile_snapshot,
        end_state: State,
        reason: &'static str,
    ) -> TcpProfile {
        let nothing = profile_snapshot::default();
        let before = connection.last.as_deref().unwrap_or(&nothing);
        let is_establishment = connection.state == State::New && end_state == State::Established;
        let is_server = connection.role == Some("server");
        let syn_acks = if is_establishment && is_server {
            now.packets_retransmitted
        } else {
            0
        };
        let duration_ns = now.of.time.saturating_sub(connection.start_ns);
        let can = &self.abilities;
        let (disorder, disorder_before) = (&now.disorder, &before.disorder);
        let round_trips = self.round_trips(before, now, is_establishment);
        let distances = spread(
            disorder
                .distance_count
                .wrapping_sub(disorder_before.distance_count),
            disorder
                .distance_sum
                .wrapping_sub(disorder_before.distance_sum),
            disorder
                .distance_squares
                .wrapping_sub(disorder_before.distance_squares),
        );
        let jiffies = |index: usize| {
            let increase = now.limited[index].wrapping_sub(before.limited[index]);
            Nanoseconds(u64::from(increase) * can.jiffy_ns)
        };
        let duplicates = |value: u64| can.has_duplicates.then_some(value);
        let measured = |value: u32| (value != 0).then(|| Nanoseconds(u64::from(value) * 1_000));
        TcpProfile {
            time: self.time(now.of.time),
            flow: connection.flow,
            start_state: connection.state,
            end_state,
            reason,
            start_time: self.time(connection.start_ns),
            duration_ns: Nanoseconds(duration_ns),
            connection: now.of.connection,
            role: connection.role,
            is_existing: connection.is_existing.then_some(true),
            establishment_ns: (is_establishment && syn_acks == 0)
                .then_some(Nanoseconds(duration_ns)),
            accept_queue_ns: connection.accept_queue_ns.map(Nanoseconds),
            bytes_sent: now.bytes_sent.wrapping_sub(before.bytes_sent),
            packets_sent: now.packets_sent.wrapping_sub(before.packets_sent),
            bytes_received: received(now).wrapping_sub(received(before)),
            packets_received: now.packets_received.wrapping_sub(before.packets_received),
            bytes_acknowledged: acknowledged(now, connection.role)
                .saturating_sub(acknowledged(before, connection.role)),
            packets_acknowledged: now.packets_delivered.wrapping_sub(before.packets_delivered),
            packets_lost: now.packets_lost.wrapping_sub(before.packets_lost),
            bytes_retransmitted: now
                .bytes_retransmitted
                .wrapping_sub(before.bytes_retransmitted),
            packets_retransmitted: now
                .packets_retransmitted
                .wrapping_sub(before.packets_retransmitted),
            syn_ack_retransmitted: syn_acks,
            checksum_errors: can.has_checksums.then(|| {
                disorder
                    .checksum_errors
                    .wrapping_sub(disorder_before.checksum_errors)
            }),
            srtt_ns: measured(now.round_trip),
            min_rtt_ns: measured(now.round_trip_minimum)
                .filter(|_| now.round_trip_minimum != u32::MAX),
            rtt_samples: can.has_round_trips.then_some(round_trips.count),
            mean_rtt_ns: round_trips
                .mean
                .map(|mean| Nanoseconds((mean * 1e3) as u64)),
            rtt_variance_us2: round_trips.variance,
            jitter_ns: measured(now.round_trip_deviation).filter(|_| now.round_trip != 0),
            duplicate_packets: can.has_duplicates.then(|| {
                disorder
                    .duplicate_packets
                    .wrapping_sub(disorder_before.duplicate_packets)
            }),
            duplicate_bytes: duplicates(
                disorder
                    .duplicate_bytes
                    .wrapping_sub(disorder_before.duplicate_bytes),
            ),
            partial_duplicate_packets: can.has_disorder.then(|| {
                disorder
                    .partial_duplicate_packets
                    .wrapping_sub(disorder_before.partial_duplicate_packets)
            }),
            partial_duplicate_bytes: can.has_disorder.then(|| {
                disorder
                    .partial_duplicate_bytes
                    .wrapping_sub(disorder_before.partial_duplicate_bytes)
            }),
            out_of_order_packets: now
                .packets_out_of_order
                .wrapping_sub(before.packets_out_of_order),
            out_of_order_bytes: can.has_disorder.then(|| {
                disorder
                    .out_of_order_bytes
                    .wrapping_sub(disorder_before.out_of_order_bytes)
            }),
            out_of_order_distance_mean_bytes: distances.mean,
            out_of_order_distance_variance: distances.variance,
            out_of_order_distance_max_bytes: (disorder.distance_max != 0)
                .then_some(disorder.distance_max),
            stalls: disorder.stalls.wrapping_sub(disorder_before.stalls),
            stalled_ns: Nanoseconds(stalled_ns(before, now)),
            window_limited_ns: jiffies(1),
            send_buffer_limited_ns: jiffies(2),
            busy_ns: jiffies(0),
            unanswered_probes: now.probes,
            duplicates_reported: now
                .duplicates_reported
                .wrapping_sub(before.duplicates_reported),
            reordering_seen: now.reordering_seen.wrapping_sub(before.reordering_seen),
            congestion_experienced: now.packets_marked.wrapping_sub(before.packets_marked),
            congestion_control: self
                .names
                .text(&now.congestion_control)
                .unwrap_or_else(|| "".into()),
            congestion_window: now.congestion_window,
            mss_bytes: now.segment_size,
            receive_buffer_bytes: now.receive_buffer,
            send_buffer_bytes: now.send_buffer,
            pid: connection.process.as_ref().map(|(id, _)| *id),
            process: connection
                .process
                .as_ref()
                .map(|(_, name)| Arc::clone(name)),
            cgroup: self.names.group(now.cgroup),
            network_namespace: now.net_namespace,
            interface: self.names.text(&now.interface),
            next_hop: (now.next_hop != flow_address::default())
                .then(|| native::address(&now.next_hop)),
            mptcp_token: (now.is_subflow != 0).then_some(now.token),
            path_index: (now.is_subflow != 0).then_some(now.subflow),
        }
    }

    /// Round trips of the profile: that of the handshake, then those that the kernel was called back for.
    fn round_trips(
        &self,
        before: &profile_snapshot,
        now: &profile_snapshot,
        is_establishment: bool,
    ) -> Spread {
        if !self.abilities.has_round_trips {
            return Spread::default();
        }
        let mut count = now.round_trips.count.wrapping_sub(before.round_trips.count);
        let mut sum = now.round_trips.sum.wrapping_sub(before.round_trips.sum);
        let mut squares = now
            .round_trips
            .squares
            .wrapping_sub(before.round_trips.squares);
        if is_establishment && count == 0 && now.round_trip != 0 {
            let first = u64::from(now.round_trip);
            (count, sum, squares) = (1, first, first * first);
        }
        spread(count, sum, squares)
    }
}

/// Payload received: the stack counts a FIN as a byte.
fn received(snapshot: &profile_snapshot) -> u64 {
    snapshot
        .bytes_received
        .saturating_sub(u64::from(snapshot.has_fin))
}

/// Payload acknowledged: the stack counts a FIN as a byte, and the SYN of the end that opened the connection.
fn acknowledged(snapshot: &profile_snapshot, role: Option<&'static str>) -> u64 {
    let of_syn = u64::from(role == Some("client"));
    let payload = snapshot
        .bytes_sent
        .saturating_sub(snapshot.bytes_retransmitted);
    snapshot
        .bytes_acknowledged
        .saturating_sub(of_syn)
        .min(payload)
}

/// How much of the time between the two had a stall in it that was not recovered from.
fn stalled_ns(before: &profile_snapshot, now: &profile_snapshot) -> u64 {
    let since_ns = match now.disorder.stalled_since {
        0 => return 0,
        since_ns => since_ns.max(before.of.time),
    };
    now.of.time.saturating_sub(since_ns)
}
