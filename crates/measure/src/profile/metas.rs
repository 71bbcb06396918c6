//! All MPTCP connections that are followed, and what comes next for each.

use std::collections::{HashMap, VecDeque};

use super::State;
use super::connection::Maker;
use super::connections::Report;
use super::ending::{END_OF_MEASUREMENT, ending};
use super::meta::Meta;
use crate::profile::native::{self, profile_meta, profile_moment_of};

/// Connections that are followed at a time.
const CONNECTIONS_MAX: usize = 65_536;
/// The state of a socket that waits for the answer to its SYN.
const SYN_SENT: u8 = 2;

/// MPTCP connections by the addresses of their sockets: not all have cookies.
#[derive(Debug)]
pub(super) struct Metas {
    /// How long a profile may become before the connection is told of; zero: as long as it likes.
    active_timeout_ns: u64,
    known: HashMap<u64, Meta>,
    /// Since when connections wait for their application, in the order of time.
    unaccepted: VecDeque<(u64, u64)>,
    /// The same connections by the cookies of their sockets, which `accept()` tells of.
    accepting: HashMap<u64, u64>,
    /// Connections that were dropped to make room.
    pub(super) forgotten: u64,
}

impl Metas {
    pub(super) fn new(active_timeout_ns: u64) -> Self {
        Self {
            active_timeout_ns,
            known: HashMap::new(),
            unaccepted: VecDeque::new(),
            accepting: HashMap::new(),
            forgotten: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Takes a moment. One that is not selected counts only for a connection that is followed because another subflow of it is.
    pub(super) fn take(&mut self, meta: &profile_meta, maker: &mut Maker, report: Report<'_>) {
        let id = meta.meta;
        if meta.is_selected == 0 && !self.known.contains_key(&id) {
            return;
        }
        match u32::from(meta.of.moment) {
            native::PROFILE_META_CONNECT => {
                let opened = Meta::opened(meta, maker);
                self.insert(id, opened, maker, report);
            }
            native::PROFILE_META_ESTABLISHED => self.establish(meta, maker, report),
            native::PROFILE_META_ADDED => self.update(meta, "subflow added", maker, report),
            native::PROFILE_META_REMOVED => self.update(meta, "subflow removed", maker, report),
            native::PROFILE_META_LOSSY => self.update(meta, "lossy", maker, report),
            native::PROFILE_META_RECOVERED => self.update(meta, "recovered", maker, report),
            native::PROFILE_META_SEEN => self.see(meta, maker, report),
            _ => self.close(meta, maker, report),
        }
    }

    /// The application has taken a connection; its first subflow, if it is one of these.
    pub(super) fn accept(
        &mut self,
        of: &profile_moment_of,
        maker: &mut Maker,
        report: Report<'_>,
    ) -> Option<u64> {
        let id = self.accepting.remove(&of.connection)?;
        let meta = self.known.get_mut(&id)?;
        meta.accept(of, maker, report);
        Some(meta.first_subflow)
    }

    /// Tells of connections that wait for their application since `limit_ns` or longer.
    pub(super) fn look_back(&mut self, limit_ns: u64, maker: &mut Maker, report: Report<'_>) {
        while let Some((since_ns, id)) = self.unaccepted.front().copied() {
            if since_ns >= limit_ns {
                return;
            }
            self.unaccepted.pop_front();
            if let Some(meta) = self.known.get_mut(&id) {
                meta.tell_establishment(maker, report);
                self.accepting.remove(&meta.connection);
            }
        }
    }

    /// Since when one waits for its application, of those that still do.
    pub(super) fn oldest_waiting_ns(&mut self) -> Option<u64> {
        while let Some((since_ns, id)) = self.unaccepted.front() {
            if self.known.get(id).is_some_and(Meta::is_unaccepted) {
                return Some(*since_ns);
            }
            self.unaccepted.pop_front();
        }
        None
    }

    /// The end of the measurement: what is known of each connection.
    pub(super) fn finish(&mut self, maker: &mut Maker, report: Report<'_>) {
        for (_, mut meta) in self.known.drain() {
            meta.tell_establishment(maker, report);
            if let Some(seen) = meta.seen.take() {
                meta.tell(&seen, State::Update, END_OF_MEASUREMENT, maker, report);
            }
        }
    }

    fn establish(&mut self, now: &profile_meta, maker: &mut Maker, report: Report<'_>) {
        let id = now.meta;
        // The address may be that of a connection whose end was lost.
        let known = self.known.get_mut(&id);
        if let Some(meta) = known.filter(|meta| meta.connection == now.of.connection) {
            meta.tell(now, State::Established, "established", maker, report);
            return;
        }
        let mut meta = Meta::arrived(now);
        if now.of.old_state == SYN_SENT {
            meta.tell_establishment(maker, report);
        } else {
            self.unaccepted.push_back((now.of.time, id));
            self.accepting.insert(now.of.connection, id);
        }
        self.insert(id, meta, maker, report);
    }

    fn update(
        &mut self,
        now: &profile_meta,
        reason: &'static str,
        maker: &mut Maker,
        report: Report<'_>,
    ) {
        let id = now.meta;
        if let Some(meta) = self.known.get_mut(&id) {
            meta.tell(now, State::Update, reason, maker, report);
        } else {
            // What it did before cannot be told from what it does from now on.
            self.insert(id, Meta::existing(now, State::Update), maker, report);
        }
    }

    /// A connection one of whose subflows was found by looking through all sockets.
    fn see(&mut self, now: &profile_meta, maker: &mut Maker, report: Report<'_>) {
        let id = now.meta;
        let Some(meta) = self.known.get_mut(&id) else {
            self.insert(id, Meta::existing(now, State::Established), maker, report);
            return;
        };
        let is_long = now.of.time.saturating_sub(meta.start_ns) >= self.active_timeout_ns;
        if self.active_timeout_ns != 0 && is_long {
            meta.tell(now, State::Update, "periodic", maker, report);
        } else {
            meta.seen = Some(Box::new(*now));
        }
    }

    fn close(&mut self, now: &profile_meta, maker: &mut Maker, report: Report<'_>) {
        let (state, reason) = ending(now.of.old_state, now.of.error);
        let known = self.known.remove(&now.meta);
        // Without a SYN there was no route, which the profile of its first subflow says.
        if known.is_some() || now.of.old_state != SYN_SENT {
            let mut meta = known.unwrap_or_else(|| Meta::unknown(now));
            self.accepting.remove(&meta.connection);
            meta.tell(now, state, reason, maker, report);
        }
    }

    /// Takes a connection in. When there is no room the eighth that was silent for longest is given up, with a last profile of each.
    fn insert(&mut self, id: u64, meta: Meta, maker: &mut Maker, report: Report<'_>) {
        if self.known.len() >= CONNECTIONS_MAX {
            let ages = self.known.iter().map(|(id, known)| (known.start_ns, *id));
            let mut ages: Vec<(u64, u64)> = ages.collect();
            ages.sort_unstable();
            for (_, oldest) in ages.iter().take(CONNECTIONS_MAX / 8) {
                if let Some(mut meta) = self.known.remove(oldest) {
                    self.forgotten += 1;
                    self.accepting.remove(&meta.connection);
                    meta.tell_desync(maker, report);
                }
            }
        }
        self.known.insert(id, meta);
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Abilities;
    use super::super::order::Told;
    use super::*;

    const META: u64 = 0xffff_8880_0000_0000;
    const COOKIE: u64 = 7;
    const SUBFLOW: u64 = 8;
    const SYN_RECV: u8 = 3;

    fn maker() -> Maker {
        Maker::new(Abilities {
            missing: Vec::new(),
            jiffy_ns: 1,
            groups: None,
        })
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

    /// What is told of these moments: states and reasons.
    fn told(metas: &mut Metas, moments: &[profile_meta]) -> Vec<String> {
        let mut texts = Vec::new();
        let mut report = |told: Told| texts.push(text(&told));
        for moment in moments {
            metas.take(moment, &mut maker(), &mut report);
        }
        texts
    }

    fn text(told: &Told) -> String {
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
        let subflow = metas.accept(&accepted, &mut maker(), &mut |told| {
            texts.push(text(&told));
        });
        assert_eq!(subflow, Some(SUBFLOW));
        assert_eq!(texts, ["ESTABLISHED established"]);
        let again = metas.accept(&accepted, &mut maker(), &mut |_| panic!("told twice"));
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
            metas.look_back(limit_ns, &mut maker(), &mut |_| count += 1);
        }
        assert_eq!(count, 1);
    }

    #[test]
    fn a_look_through_two_subflows_counts_once() {
        let mut metas = Metas::new(100);
        let seen = |time| moment(native::PROFILE_META_SEEN, time, true);
        let looks = [seen(0), seen(1), seen(100), seen(101), seen(150)];
        assert_eq!(told(&mut metas, &looks), ["UPDATE periodic"]);
    }
}
