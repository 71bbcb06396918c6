//! All MPTCP connections that are followed, and what comes next for each.

use std::collections::{HashMap, VecDeque};

use super::State;
use super::connection::{Connection, ProfileBuilder};
use super::connection_table::ConnectionTable;
use super::connections::Report;
use super::ending::{SYN_SENT, ending};
use crate::profile::native::{self, profile_meta, profile_moment_of};

/// MPTCP connections by the addresses of their sockets: not all have cookies.
#[derive(Debug)]
pub(super) struct Metas {
    pub(super) connection_table: ConnectionTable<profile_meta>,
    /// Those that wait for their application, in the order of time.
    unaccepted: VecDeque<Unaccepted>,
    /// The same by the cookies of their sockets, which `accept()` tells of, with the sockets of
    /// their first subflows (0: not known).
    accepting: HashMap<u64, (u64, u64)>,
}

/// A connection that waits for its application.
#[derive(Debug, Clone, Copy)]
struct Unaccepted {
    since_ns: u64,
    id: u64,
    cookie: u64,
}

impl Metas {
    pub(super) fn new(active_timeout_ns: u64) -> Self {
        Self {
            connection_table: ConnectionTable::new(active_timeout_ns),
            unaccepted: VecDeque::new(),
            accepting: HashMap::new(),
        }
    }

    /// Takes a moment. One that is not selected counts only for a connection that is followed
    /// because another subflow of it is.
    pub(super) fn take(
        &mut self,
        meta: &profile_meta,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        let id = meta.meta;
        if meta.is_selected == 0 && !self.connection_table.known.contains_key(&id) {
            return;
        }
        let reason = match u32::from(meta.of.moment) {
            native::PROFILE_META_CONNECT => {
                let opened = Connection::opened(&meta.of, builder);
                return self.connection_table.insert(id, opened, builder, report);
            }
            native::PROFILE_META_ESTABLISHED => return self.establish(meta, builder, report),
            native::PROFILE_META_SEEN => {
                return self.connection_table.see(id, meta, builder, report);
            }
            native::PROFILE_META_ADDED => "subflow added",
            native::PROFILE_META_REMOVED => "subflow removed",
            native::PROFILE_META_LOSSY => "lossy",
            native::PROFILE_META_RECOVERED => "recovered",
            _ => return self.close(meta, builder, report),
        };
        self.connection_table
            .update(id, meta, reason, builder, report);
    }

    /// The application has taken a connection; its first subflow, if it is one of these.
    pub(super) fn accept(
        &mut self,
        of: &profile_moment_of,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) -> Option<u64> {
        let (id, first_subflow) = self.accepting.remove(&of.connection)?;
        let meta = self.connection_table.known.get_mut(&id)?;
        meta.accept(of, builder, report);
        Some(first_subflow)
    }

    /// Tells of connections that wait for their application since `limit_ns` or longer.
    pub(super) fn look_back(
        &mut self,
        limit_ns: u64,
        builder: &mut ProfileBuilder,
        report: Report<'_>,
    ) {
        while let Some(unaccepted) = self.unaccepted.front().copied() {
            if unaccepted.since_ns >= limit_ns {
                return;
            }
            self.unaccepted.pop_front();
            self.accepting.remove(&unaccepted.cookie);
            if let Some(meta) = self.connection_table.known.get_mut(&unaccepted.id) {
                meta.tell_establishment(builder, report);
            }
        }
    }

    /// Since when one waits for its application, of those that still do.
    pub(super) fn oldest_waiting_ns(&mut self) -> Option<u64> {
        while let Some(unaccepted) = self.unaccepted.front() {
            let meta = self.connection_table.known.get(&unaccepted.id);
            if meta.is_some_and(Connection::is_waiting) {
                return Some(unaccepted.since_ns);
            }
            self.accepting.remove(&unaccepted.cookie);
            self.unaccepted.pop_front();
        }
        None
    }

    fn establish(&mut self, now: &profile_meta, builder: &mut ProfileBuilder, report: Report<'_>) {
        let (id, cookie) = (now.meta, now.of.connection);
        // The address may be that of a connection whose end was lost.
        let known = self.connection_table.known.get_mut(&id);
        if let Some(meta) = known.filter(|meta| meta.id == cookie) {
            meta.tell(now, (State::Established, "established"), builder, report);
            return;
        }
        let since_ns = now.of.time;
        let mut meta = Connection::arrived(now, since_ns);
        if meta.is_client() {
            meta.tell_establishment(builder, report);
        } else {
            let waiting = Unaccepted {
                since_ns,
                id,
                cookie,
            };
            self.unaccepted.push_back(waiting);
            self.accepting.insert(cookie, (id, now.subflow));
        }
        self.connection_table.insert(id, meta, builder, report);
    }

    fn close(&mut self, now: &profile_meta, builder: &mut ProfileBuilder, report: Report<'_>) {
        let known = self.connection_table.known.remove(&now.meta);
        // Without a SYN there was no route, which the profile of its first subflow says.
        if known.is_some() || now.of.old_state != SYN_SENT {
            let mut meta = known.unwrap_or_else(|| Connection::unknown(&now.of));
            self.accepting.remove(&meta.id);
            let end = ending(now.of.old_state, now.of.error);
            meta.tell(now, end, builder, report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::indicator::Capabilities;
    use super::super::names::Names;
    use super::super::reorder::ProfileRecord;
    use super::*;

    const META: u64 = 0xffff_8880_0000_0000;
    const COOKIE: u64 = 7;
    const SUBFLOW: u64 = 8;
    const SYN_RECV: u8 = 3;

    fn builder() -> ProfileBuilder {
        let capabilities = Capabilities {
            missing: Vec::new(),
            jiffy_ns: 1,
        };
        ProfileBuilder::new(capabilities, Names::default(), false)
    }

    fn moment(moment: u32, time: u64, is_selected: bool) -> profile_meta {
        let mut meta = profile_meta {
            meta: META,
            subflow: SUBFLOW,
            is_selected: is_selected.into(),
            ..profile_meta::default()
        };
        (meta.of.moment, meta.of.time, meta.of.connection) = (moment as u8, time, COOKIE);
        meta.of.old_state = SYN_RECV;
        meta
    }

    /// The profiles of these moments: states and reasons.
    fn told(metas: &mut Metas, moments: &[profile_meta]) -> Vec<String> {
        let mut texts = Vec::new();
        let mut report = |told: ProfileRecord| texts.push(text(&told));
        for moment in moments {
            metas.take(moment, &mut builder(), &mut report);
        }
        texts
    }

    fn text(told: &ProfileRecord) -> String {
        let record = told.record();
        let text = |name| match record.value(record.schema().position(name).unwrap()) {
            fathom_record::Value::Text(text) => text.to_owned(),
            _ => String::new(),
        };
        format!("{} {}", text("end_state"), text("reason"))
    }

    #[test]
    fn a_connection_is_followed_from_its_first_selected_subflow_on() {
        let mut metas = Metas::new(0);
        let unselected = [
            moment(native::PROFILE_META_ESTABLISHED, 1, false),
            moment(native::PROFILE_META_SEEN, 2, false),
            moment(native::PROFILE_META_CLOSED, 3, false),
        ];
        assert_eq!(told(&mut metas, &unselected), [""; 0]);
        let selected = [
            moment(native::PROFILE_META_ADDED, 4, true),
            moment(native::PROFILE_META_REMOVED, 5, false),
        ];
        assert_eq!(told(&mut metas, &selected), ["UPDATE subflow removed"]);
    }

    #[test]
    fn a_server_waits_for_its_application() {
        let mut metas = Metas::new(0);
        let established = moment(native::PROFILE_META_ESTABLISHED, 10, true);
        assert_eq!(told(&mut metas, &[established]), [""; 0]);
        let mut texts = Vec::new();
        let accepted = established.of;
        let subflow = metas.accept(&accepted, &mut builder(), &mut |told| {
            texts.push(text(&told));
        });
        assert_eq!(subflow, Some(SUBFLOW));
        assert_eq!(texts, ["ESTABLISHED established"]);
        let again = metas.accept(&accepted, &mut builder(), &mut |_| panic!("told twice"));
        assert_eq!(again, None);
    }

    #[test]
    fn an_application_that_does_not_come_is_not_waited_for() {
        let mut metas = Metas::new(0);
        told(
            &mut metas,
            &[moment(native::PROFILE_META_ESTABLISHED, 10, true)],
        );
        let mut count = 0;
        for limit_ns in [10, 11, 12] {
            metas.look_back(limit_ns, &mut builder(), &mut |_| count += 1);
        }
        assert_eq!(count, 1);
    }

    #[test]
    fn nothing_is_told_of_who_leaves_before_a_first_look() {
        let mut metas = Metas::new(0);
        let opened: Vec<_> = (0..=65_536)
            .map(|time| profile_meta {
                meta: time,
                ..moment(native::PROFILE_META_CONNECT, time, true)
            })
            .collect();
        assert_eq!(told(&mut metas, &opened), [""; 0]);
        assert_eq!(metas.connection_table.forgotten, 8192);
    }

    #[test]
    fn a_look_through_two_subflows_counts_once() {
        let mut metas = Metas::new(100);
        let seen = |time| moment(native::PROFILE_META_SEEN, time, true);
        let looks = [seen(0), seen(1), seen(100), seen(101), seen(150)];
        assert_eq!(told(&mut metas, &looks), ["UPDATE periodic"]);
    }
}
