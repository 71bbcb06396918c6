//! How an MPTCP connection, which subflows carry, stands at a moment, and the making of its
//! profiles.

use fathom_record::Nanoseconds;

use super::connection::{Connection, End, ProfileBuilder, Snapshot};
use super::ending::{flow_end_reason, is_last};
use super::reorder::ProfileRecord;
use super::totals::add;
use super::{Indicator, MptcpProfile, State};
use crate::profile::native::{self, profile_meta, profile_moment_of};

impl Snapshot for profile_meta {
    type Totals = MptcpTotals;

    fn of(&self) -> &profile_moment_of {
        &self.of
    }

    /// Its subflows may.
    fn may_coalesce(&self) -> bool {
        false
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
        if is_last(end_state, reason) {
            connection.totals.tell(&mut profile);
        }
        profile.into()
    }
}

impl profile_meta {
    fn until_now(
        &self,
        connection: &Connection<Self>,
        (end_state, reason): End,
        builder: &mut ProfileBuilder,
    ) -> MptcpProfile {
        let before = connection.last.as_deref().copied().unwrap_or_default();
        let duration = Nanoseconds(self.of.time.saturating_sub(connection.start_ns));
        let is_establishment = connection.is_client()
            && connection.state == State::New
            && end_state == State::Established
            && duration.0 != 0;
        let is_of_subflow = matches!(
            u32::from(self.of.moment),
            native::PROFILE_META_ADDED | native::PROFILE_META_REMOVED
        );
        let capabilities = &builder.capabilities;
        let (pid, process) = connection.process.clone().unzip();
        let bytes = |now: u64, before: u64| {
            let is_counted = capabilities.can(Indicator::MptcpBytes);
            is_counted.then(|| now.saturating_sub(before))
        };
        MptcpProfile {
            time: builder.time(self.of.time),
            flow: connection.flow,
            start_state: connection.state,
            end_state,
            reason,
            flow_end_reason: flow_end_reason(end_state, reason),
            start_time: connection
                .start_time
                .unwrap_or_else(|| builder.time(connection.start_ns)),
            duration_ns: duration,
            connection: connection.id,
            role: connection.role,
            is_existing: connection.is_existing.then_some(true),
            mptcp_token: self.token,
            path_index: is_of_subflow.then_some(self.path),
            establishment_ns: is_establishment.then_some(duration),
            accept_queue_ns: connection.accept_queue_ns.map(Nanoseconds),
            bytes_sent: bytes(self.bytes_sent, before.bytes_sent),
            bytes_received: bytes(self.bytes_received, before.bytes_received),
            bytes_acknowledged: bytes(acknowledged(self), acknowledged(&before)),
            bytes_reinjected: bytes(self.bytes_reinjected, before.bytes_reinjected),
            stalls: capabilities
                .can(Indicator::MptcpStalls)
                .then(|| self.stalls.wrapping_sub(before.stalls)),
            subflow_count: self.subflow_count,
            receive_buffer_bytes: self.receive_buffer,
            pid,
            process,
            group: builder.names.group(self.cgroup),
            network_namespace: self.net_namespace,
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
pub(super) struct MptcpTotals {
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
