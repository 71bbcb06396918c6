//! A connection, of TCP or of MPTCP, from the first that is known of it to its last profile.

use std::fmt::Debug;
use std::sync::Arc;

use fathom_record::{FlowKey, Time};

use super::State;
use super::connections::Report;
use super::ending::{END_OF_MEASUREMENT, SYN_SENT};
use super::indicator::Capabilities;
use super::names::Names;
use super::reorder::ProfileRecord;
use crate::profile::native::profile_moment_of;

/// How a profile ends, and why.
pub(super) type End = (State, &'static str);

/// A connection that ends so soon after it was established has one profile, where that is wanted.
const SHORT_NS: u64 = 200_000_000;

/// How a connection stands at a moment.
pub(super) trait Snapshot: Copy + Debug {
    /// What the profiles of a connection add up to.
    type Totals: Debug + Default;

    /// Whose moment it is.
    fn of(&self) -> &profile_moment_of;

    /// Can this establishment and the end of the connection have one profile? What went wrong
    /// before it would not be told from what did so after it.
    fn may_coalesce(&self) -> bool;

    /// What `connection` did until now: a profile, which its totals have from now on.
    fn profile(
        &self,
        connection: &mut Connection<Self>,
        end: End,
        builder: &mut ProfileBuilder,
    ) -> ProfileRecord;
}

/// What is known of a connection between two profiles.
#[derive(Debug)]
pub(super) struct Connection<S: Snapshot> {
    /// The cookie of its socket; of MPTCP, of a subflow's if it was there before.
    pub(super) id: u64,
    pub(super) flow: FlowKey,
    pub(super) role: Option<&'static str>,
    pub(super) state: State,
    pub(super) is_existing: bool,
    /// Has its handshake been told, or was it before?
    pub(super) is_established: bool,
    pub(super) totals: S::Totals,
    /// When the present profile began, in the kernel's time.
    pub(super) start_ns: u64,
    /// Was it seen when this host opened it? Of others the start is known from the handshake's
    /// round trip, unless a packet of it was lost.
    pub(super) is_opening_seen: bool,
    /// The same as it was told as the end of the profile before: the wall clock may have been set
    /// since.
    pub(super) start_time: Option<Time>,
    pub(super) process: Option<(u32, Arc<str>)>,
    pub(super) accept_queue_ns: Option<u64>,
    /// How it stood when it was established, until that is told: a server's connection waits for
    /// its application, and a short one for its end.
    pub(super) establishment: Option<Box<S>>,
    /// How it stood at the end of the last profile, and when it was last looked at.
    pub(super) last: Option<Box<S>>,
    seen: Option<Box<S>>,
}

impl<S: Snapshot> Connection<S> {
    fn new(of: &profile_moment_of, state: State) -> Self {
        Self {
            id: of.connection,
            flow: of.flow(),
            role: None,
            state,
            is_existing: false,
            is_established: false,
            totals: S::Totals::default(),
            start_ns: of.time,
            is_opening_seen: false,
            start_time: None,
            process: None,
            accept_queue_ns: None,
            establishment: None,
            last: None,
            seen: None,
        }
    }

    /// This host sends a SYN, or tries to.
    pub(super) fn opened(of: &profile_moment_of, builder: &mut ProfileBuilder) -> Self {
        Self {
            role: Some("client"),
            is_opening_seen: true,
            process: builder.process(of),
            ..Self::new(of, State::New)
        }
    }

    /// It is established, and what opened it at `start_ns` was not told of: it is a server's, or a
    /// client's of which that was missed.
    pub(super) fn arrived(snapshot: &S, start_ns: u64) -> Self {
        let is_opened_here = snapshot.of().old_state == SYN_SENT;
        Self {
            role: Some(if is_opened_here { "client" } else { "server" }),
            start_ns,
            establishment: Some(Box::new(*snapshot)),
            ..Self::new(snapshot.of(), State::New)
        }
    }

    /// It was there before fathom, or before it was selected; what it does is told from now on.
    pub(super) fn existing(snapshot: &S, state: State) -> Self {
        Self {
            last: Some(Box::new(*snapshot)),
            state,
            ..Self::unknown(snapshot.of())
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

    /// It was opened by this host, and is established.
    pub(super) fn establish(&mut self, now: &S, builder: &mut ProfileBuilder, report: Report<'_>) {
        self.flow = now.of().flow();
        self.establishment = Some(Box::new(*now));
        // It is older: the next profile must not go back to it.
        self.seen = None;
        self.tell_if_due(now.of().time, builder, report);
    }

    /// The application has taken it.
    pub(super) fn accept(
        &mut self,
        of: &profile_moment_of,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if let Some(snapshot) = &self.establishment
            && self.is_unaccepted()
        {
            self.accept_queue_ns = Some(of.time.saturating_sub(snapshot.of().time));
            self.process = builder.process(of);
            self.tell_if_due(of.time, builder, report);
        }
    }

    /// Its first profile, unless that waits for something.
    pub(super) fn tell_if_due(
        &mut self,
        now_ns: u64,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if !self.is_unaccepted() && !self.may_be_short(now_ns, builder) {
            self.tell_establishment(builder, report);
        }
    }

    /// Is its establishment still to be told, and could be together with its end?
    fn may_be_short(&self, now_ns: u64, builder: &ProfileBuilder) -> bool {
        let is_recent = |it: &S| now_ns.saturating_sub(it.of().time) < SHORT_NS;
        let establishment = self.establishment.as_deref();
        builder.coalesces && establishment.is_some_and(|it| it.may_coalesce() && is_recent(it))
    }

    /// Its first profile, if that is still to be told.
    pub(super) fn tell_establishment(&mut self, builder: &mut ProfileBuilder, report: Report<'_>) {
        if let Some(snapshot) = self.establishment.take() {
            self.tell_until(
                &snapshot,
                (State::Established, "established"),
                builder,
                report,
            );
            self.last = Some(snapshot);
        }
    }

    /// A profile up to now, and the beginning of the next.
    pub(super) fn tell(
        &mut self,
        now: &S,
        end: End,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        self.tell_establishment(builder, report);
        self.tell_now(now, end, builder, report);
    }

    /// Its last profile; of a short connection the only one.
    pub(super) fn end(
        &mut self,
        now: &S,
        end: End,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        if !self.may_be_short(now.of().time, builder) {
            self.tell_establishment(builder, report);
        }
        self.tell_now(now, end, builder, report);
    }

    fn tell_now(&mut self, now: &S, end: End, builder: &mut ProfileBuilder, report: Report<'_>) {
        if self.flow.source_port == 0 {
            // A connection that is about to be opened has no port yet.
            self.flow = now.of().flow();
        }
        self.tell_until(now, end, builder, report);
        // It is older: the next profile must not go back to it.
        self.seen = None;
        match &mut self.last {
            Some(last) => **last = *now,
            none => *none = Some(Box::new(*now)),
        }
    }

    fn tell_until(&mut self, now: &S, end: End, builder: &mut ProfileBuilder, report: Report<'_>) {
        let profile = now.profile(self, end, builder);
        let (end_state, _) = end;
        self.start_time = Some(builder.time(now.of().time));
        self.state = end_state;
        self.is_established |= end_state == State::Established;
        self.start_ns = now.of().time;
        self.accept_queue_ns = None;
        report(profile);
    }

    /// Another look at it. What is no later than the last profile has been told.
    pub(super) fn see(&mut self, now: &S) {
        if self
            .last
            .as_ref()
            .is_none_or(|last| last.of().time < now.of().time)
        {
            self.seen = Some(Box::new(*now));
        }
    }

    /// Did this host open it?
    pub(super) fn is_client(&self) -> bool {
        self.role == Some("client")
    }

    /// Does its establishment wait for something?
    pub(super) fn is_waiting(&self) -> bool {
        self.establishment.is_some()
    }

    /// Is it not known yet who accepts it?
    fn is_unaccepted(&self) -> bool {
        !self.is_client() && self.accept_queue_ns.is_none()
    }

    /// How it stood when it was last heard of.
    pub(super) fn latest(&self) -> Option<&S> {
        let latest = self.seen.as_ref().or(self.last.as_ref());
        latest
            .or(self.establishment.as_ref())
            .map(|latest| &**latest)
    }

    /// A last profile of a connection that is followed no longer, as of when it was last heard of.
    pub(super) fn lose(
        &mut self,
        reason: &'static str,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        self.tell_last((State::Desync, reason), builder, report);
    }

    /// A last profile, at the end of the measurement.
    pub(super) fn finish(&mut self, builder: &mut ProfileBuilder, report: Report<'_>) {
        self.tell_last((State::Update, END_OF_MEASUREMENT), builder, report);
    }

    fn tell_last(&mut self, end: End, builder: &mut ProfileBuilder, report: Report<'_>) {
        self.tell_establishment(builder, report);
        if let Some(latest) = self.latest().copied() {
            self.tell(&latest, end, builder, report);
        }
    }
}

/// What profiles are made with.
#[derive(Debug)]
pub(super) struct ProfileBuilder {
    pub(super) capabilities: Capabilities,
    pub(super) names: Names,
    /// Does a connection that ends soon after it was established have one profile?
    coalesces: bool,
    /// Makes the kernel's time that of the wall clock.
    pub(super) offset_ns: u64,
}

impl ProfileBuilder {
    pub(super) fn new(capabilities: Capabilities, names: Names, coalesces: bool) -> Self {
        Self {
            capabilities,
            names,
            coalesces,
            offset_ns: 0,
        }
    }

    fn process(&mut self, of: &profile_moment_of) -> Option<(u32, Arc<str>)> {
        let name = self.names.text(&of.process)?;
        Some((of.process_id, name))
    }

    pub(super) fn time(&self, kernel_ns: u64) -> Time {
        Time(kernel_ns.wrapping_add(self.offset_ns))
    }
}
