//! An MPTCP connection, which subflows carry, and the making of its profiles.

use std::sync::Arc;

use fathom_record::{FlowKey, Nanoseconds, Time};

use super::connection::Maker;
use super::connections::Report;
use super::ending::{flow_end_reason, is_last};
use super::totals::add;
use super::{Indicator, MptcpProfile, State};
use crate::profile::native::{self, profile_meta, profile_moment_of};

/// The state of a socket that waits for the answer to its SYN.
const SYN_SENT: u8 = 2;

/// What is known of an MPTCP connection between two profiles.
#[derive(Debug)]
pub(super) struct Meta {
    /// What it is told as: the cookie of its socket, or of a subflow of one that was there before.
    pub(super) connection: u64,
    flow: FlowKey,
    role: Option<&'static str>,
    state: State,
    is_existing: bool,
    /// When the present profile began, in the kernel's time.
    pub(super) start_ns: u64,
    /// The same as it was told as the end of the profile before: the wall clock may have been set since.
    start_time: Option<Time>,
    process: Option<(u32, Arc<str>)>,
    accept_queue_ns: Option<u64>,
    /// The establishment of a server's connection, until the application accepts it.
    unaccepted: Option<Box<profile_meta>>,
    totals: MptcpTotals,
    /// The socket of its first subflow; 0: not known.
    pub(super) first_subflow: u64,
    /// How it stood at the end of the last profile, and when it was last looked at.
    last: profile_meta,
    pub(super) seen: Option<Box<profile_meta>>,
}

impl Meta {
    fn new(meta: &profile_meta, state: State) -> Self {
        Self {
            connection: meta.of.connection,
            flow: meta.of.flow(),
            role: None,
            state,
            is_existing: false,
            start_ns: meta.of.time,
            start_time: None,
            process: None,
            accept_queue_ns: None,
            unaccepted: None,
            totals: MptcpTotals::default(),
            first_subflow: 0,
            last: profile_meta::default(),
            seen: None,
        }
    }

    /// This host opens it: the SYN of its first subflow is about to be sent.
    pub(super) fn opened(meta: &profile_meta, maker: &mut Maker) -> Self {
        Self {
            role: Some("client"),
            process: maker.process(&meta.of),
            first_subflow: meta.subflow,
            ..Self::new(meta, State::New)
        }
    }

    /// The peer has opened it; or this host has, and what told of that is lost.
    pub(super) fn arrived(meta: &profile_meta) -> Self {
        let is_opened_here = meta.of.old_state == SYN_SENT;
        Self {
            role: Some(if is_opened_here { "client" } else { "server" }),
            first_subflow: meta.subflow,
            unaccepted: Some(Box::new(*meta)),
            ..Self::new(meta, State::New)
        }
    }

    /// It was there before fathom, or before it had a subflow that is selected; what it does is told from now on.
    pub(super) fn existing(meta: &profile_meta, state: State) -> Self {
        Self {
            is_existing: true,
            last: *meta,
            ..Self::new(meta, state)
        }
    }

    /// Only its end was seen.
    pub(super) fn unknown(meta: &profile_meta) -> Self {
        Self {
            is_existing: true,
            ..Self::new(meta, State::Desync)
        }
    }

    /// The application has taken it.
    pub(super) fn accept(&mut self, of: &profile_moment_of, maker: &mut Maker, report: Report<'_>) {
        if let Some(meta) = &self.unaccepted {
            self.accept_queue_ns = Some(of.time.saturating_sub(meta.of.time));
            self.process = maker.process(of);
            self.tell_establishment(maker, report);
        }
    }

    /// The first profile of a server's connection, if it is still to be told.
    pub(super) fn tell_establishment(&mut self, maker: &mut Maker, report: Report<'_>) {
        if let Some(meta) = self.unaccepted.take() {
            self.tell(&meta, State::Established, "established", maker, report);
        }
    }

    /// A profile up to now, and the beginning of the next.
    pub(super) fn tell(
        &mut self,
        now: &profile_meta,
        end_state: State,
        reason: &'static str,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        self.tell_establishment(maker, report);
        if self.flow.source_port == 0 {
            // A connection that is about to be opened has no port yet.
            self.flow = now.of.flow();
        }
        let mut profile = self.profile(now, end_state, reason, maker);
        self.totals.add(&profile);
        if is_last(end_state, reason) {
            self.totals.tell(&mut profile);
        }
        self.start_time = Some(profile.time);
        self.state = end_state;
        self.start_ns = now.of.time;
        self.accept_queue_ns = None;
        self.last = *now;
        report(profile.into());
    }

    /// Is it not known yet who accepts it?
    pub(super) fn is_unaccepted(&self) -> bool {
        self.unaccepted.is_some()
    }

    /// A last profile of a connection that is followed no longer.
    pub(super) fn tell_desync(&mut self, maker: &mut Maker, report: Report<'_>) {
        let last = self.seen.take().map_or(self.last, |seen| *seen);
        self.tell(&last, State::Desync, "too many connections", maker, report);
    }

    /// What it did until `now`.
    fn profile(
        &self,
        now: &profile_meta,
        end_state: State,
        reason: &'static str,
        maker: &mut Maker,
    ) -> MptcpProfile {
        let before = &self.last;
        let duration = Nanoseconds(now.of.time.saturating_sub(self.start_ns));
        let is_establishment = self.role == Some("client")
            && self.state == State::New
            && end_state == State::Established
            && duration.0 != 0;
        let is_of_subflow = matches!(
            u32::from(now.of.moment),
            native::PROFILE_META_ADDED | native::PROFILE_META_REMOVED
        );
        let bytes = |now: u64, before: u64| {
            let is_counted = maker.can(Indicator::MptcpBytes);
            is_counted.then(|| now.saturating_sub(before))
        };
        MptcpProfile {
            time: maker.time(now.of.time),
            flow: self.flow,
            start_state: self.state,
            end_state,
            reason,
            flow_end_reason: flow_end_reason(end_state, reason),
            start_time: self.start_time.unwrap_or_else(|| maker.time(self.start_ns)),
            duration_ns: duration,
            connection: self.connection,
            role: self.role,
            is_existing: self.is_existing.then_some(true),
            mptcp_token: now.token,
            path_index: is_of_subflow.then_some(now.path),
            establishment_ns: is_establishment.then_some(duration),
            accept_queue_ns: self.accept_queue_ns.map(Nanoseconds),
            bytes_sent: bytes(now.bytes_sent, before.bytes_sent),
            bytes_received: bytes(now.bytes_received, before.bytes_received),
            bytes_acknowledged: bytes(acknowledged(now), acknowledged(before)),
            bytes_reinjected: bytes(now.bytes_reinjected, before.bytes_reinjected),
            stalls: maker
                .can(Indicator::MptcpStalls)
                .then(|| now.stalls.wrapping_sub(before.stalls)),
            subflow_count: now.subflow_count,
            receive_buffer_bytes: now.receive_buffer,
            pid: self.process.as_ref().map(|(id, _)| *id),
            process: self.process.as_ref().map(|(_, name)| Arc::clone(name)),
            cgroup: maker.group(now.cgroup),
            network_namespace: now.net_namespace,
            total_duration_ns: None,
            total_bytes_sent: None,
            total_bytes_received: None,
            total_bytes_acknowledged: None,
            total_bytes_reinjected: None,
            total_stalls: None,
        }
    }
}

/// What its profiles add up to.
#[derive(Debug, Default)]
struct MptcpTotals {
    duration_ns: u64,
    bytes_sent: Option<u64>,
    bytes_received: Option<u64>,
    bytes_acknowledged: Option<u64>,
    bytes_reinjected: Option<u64>,
    stalls: Option<u64>,
}

impl MptcpTotals {
    fn add(&mut self, profile: &MptcpProfile) {
        self.duration_ns += profile.duration_ns.0;
        add(&mut self.bytes_sent, profile.bytes_sent);
        add(&mut self.bytes_received, profile.bytes_received);
        add(&mut self.bytes_acknowledged, profile.bytes_acknowledged);
        add(&mut self.bytes_reinjected, profile.bytes_reinjected);
        add(&mut self.stalls, profile.stalls.map(u64::from));
    }

    fn tell(&self, profile: &mut MptcpProfile) {
        profile.total_duration_ns = Some(Nanoseconds(self.duration_ns));
        profile.total_bytes_sent = self.bytes_sent;
        profile.total_bytes_received = self.bytes_received;
        profile.total_bytes_acknowledged = self.bytes_acknowledged;
        profile.total_bytes_reinjected = self.bytes_reinjected;
        profile.total_stalls = self.stalls;
    }
}

/// Payload acknowledged: the stack counts the end of the data as a byte.
fn acknowledged(meta: &profile_meta) -> u64 {
    meta.bytes_acknowledged.min(meta.bytes_sent)
}
