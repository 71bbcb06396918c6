//! MPTCP connections, which subflows carry.

use std::sync::Arc;

use fathom_record::Nanoseconds;

use super::connection::Maker;
use super::connections::Report;
use super::{MptcpProfile, State};
use crate::native::profile_meta;

/// The state of a socket that waits for the answer to its SYN.
const SYN_SENT: u8 = 2;

/// What is known of an MPTCP connection between two profiles.
#[derive(Debug)]
pub(super) struct Meta {
    role: Option<&'static str>,
    state: State,
    is_existing: bool,
    start_ns: u64,
    process: Option<(u32, Arc<str>)>,
    last: profile_meta,
}

impl Meta {
    fn new(meta: &profile_meta, state: State) -> Self {
        Self {
            role: None,
            state,
            is_existing: false,
            start_ns: meta.of.time,
            process: None,
            last: profile_meta::default(),
        }
    }

    /// This host opens it.
    pub(super) fn opened(meta: &profile_meta, maker: &mut Maker) -> Self {
        Self {
            role: Some("client"),
            process: maker.process(&meta.of),
            ..Self::new(meta, State::New)
        }
    }

    /// The peer has opened it, or this host has and that was not told: a selection cannot know where a socket without addresses goes.
    pub(super) fn arrived(meta: &profile_meta) -> Self {
        let is_opened_here = meta.of.old_state == SYN_SENT;
        Self {
            role: Some(if is_opened_here { "client" } else { "server" }),
            ..Self::new(meta, State::New)
        }
    }

    /// Only its end was seen.
    pub(super) fn unknown(meta: &profile_meta) -> Self {
        Self {
            is_existing: true,
            ..Self::new(meta, State::Desync)
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
        let before = &self.last;
        let duration_ns = now.of.time.saturating_sub(self.start_ns);
        let is_establishment =
            self.role == Some("client") && end_state == State::Established && duration_ns != 0;
        let is_counted = now.bytes_reinjected != u64::MAX;
        report(&MptcpProfile {
            time: maker.time(now.of.time),
            flow: now.of.flow(),
            start_state: self.state,
            end_state,
            reason,
            start_time: maker.time(self.start_ns),
            duration_ns: Nanoseconds(duration_ns),
            connection: now.of.connection,
            role: self.role,
            is_existing: self.is_existing.then_some(true),
            mptcp_token: now.token,
            establishment_ns: is_establishment.then_some(Nanoseconds(duration_ns)),
            bytes_sent: now.bytes_sent.wrapping_sub(before.bytes_sent),
            bytes_received: now.bytes_received.wrapping_sub(before.bytes_received),
            bytes_acknowledged: acknowledged(now).saturating_sub(acknowledged(before)),
            bytes_reinjected: is_counted
                .then(|| now.bytes_reinjected.wrapping_sub(before.bytes_reinjected)),
            stalls: now.stalls,
            additional_subflows: now.subflows,
            receive_buffer_bytes: now.receive_buffer,
            pid: self.process.as_ref().map(|(id, _)| *id),
            process: self.process.as_ref().map(|(_, name)| Arc::clone(name)),
            cgroup: maker.group(now.cgroup),
            network_namespace: now.net_namespace,
        });
        self.state = end_state;
        self.start_ns = now.of.time;
        self.last = *now;
    }
}

/// Payload acknowledged: the stack counts the end of the data as a byte.
fn acknowledged(meta: &profile_meta) -> u64 {
    meta.bytes_acknowledged.min(meta.bytes_sent)
}
