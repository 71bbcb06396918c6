//! Connections that wait for more to come: attempts for their SYN, established ones for their
//! application.

use super::{Connections, Report};
use crate::profile::ending::connect_error;
use crate::profile::native::{self, profile_moment_of, profile_slot};

/// A `connect()` behind which no SYN came after so long has found no route; an established
/// connection that nobody accepted for this time is reported anyway.
const PATIENCE_NS: u64 = 1_000_000_000;
/// What the kernel has written to a slot is whole after so long.
const SETTLED_NS: u64 = 5_000_000;

/// Whom to look at again when some time has passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    since_ns: u64,
    connection: u64,
}

impl Connections {
    /// Tells of what nothing more will come for: attempts without a SYN, and connections that wait
    /// for their application. `slots` is what the kernel keeps.
    pub(crate) fn look_back(&mut self, now_ns: u64, slots: &[profile_slot], report: Report<'_>) {
        let limit_ns = now_ns.saturating_sub(PATIENCE_NS);
        let told_ns = std::mem::replace(&mut self.attempts_told_ns, limit_ns);
        for slot in slots
            .iter()
            .filter(|slot| slot.holds(native::PROFILE_ATTEMPT))
            .filter(|slot| (told_ns + 1..=limit_ns).contains(&slot.since))
        {
            self.fail(&slot.attempt(), connect_error(0), report);
        }
        self.metas.look_back(limit_ns, &mut self.builder, report);
        self.look_at_waiting(now_ns, slots, report);
    }

    /// The same of those only that are known to wait; a connection that was accepted meanwhile is
    /// told of at once.
    pub(crate) fn look_at_waiting(
        &mut self,
        now_ns: u64,
        slots: &[profile_slot],
        report: Report<'_>,
    ) {
        let waiting = std::mem::take(&mut self.waiting);
        let still = waiting
            .into_iter()
            .filter(|waiting| self.waits(*waiting, now_ns, slots, report))
            .collect();
        self.waiting = still;
    }

    fn waits(
        &mut self,
        waiting: Waiting,
        now_ns: u64,
        slots: &[profile_slot],
        report: Report<'_>,
    ) -> bool {
        let id = waiting.connection;
        let slot = profile_slot::find(slots, id);
        let is_over = waiting.since_ns <= now_ns.saturating_sub(PATIENCE_NS);
        if let Some(connection) = self.connection_table.known.get_mut(&id) {
            let accepted = slot.filter(|slot| {
                slot.holds(native::PROFILE_ACCEPTED)
                    && slot.since <= now_ns.saturating_sub(SETTLED_NS)
            });
            let builder = &mut self.builder;
            if let Some(slot) = accepted {
                connection.accept(&slot.told(), builder, report);
            }
            if is_over {
                connection.stop_waiting(slot, builder, report);
            } else {
                connection.tell_if_due(now_ns, builder, report);
            }
            if connection.is_waiting() {
                return true;
            }
        }
        if !is_over {
            return self.attempts.contains_key(&id);
        }
        let has_sent = slot.is_some_and(|slot| slot.holds(native::PROFILE_CONNECT));
        if let Some(attempt) = self.attempts.remove(&id)
            && !has_sent
        {
            self.fail(&attempt, connect_error(0), report);
        }
        false
    }

    /// Is it known that something is still to be told?
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The time of what is still to be told, if something is.
    pub(crate) fn oldest_waiting_ns(&mut self, slots: &[profile_slot]) -> Option<u64> {
        let told_ns = self.attempts_told_ns;
        let attempts = slots
            .iter()
            .filter(|slot| slot.holds(native::PROFILE_ATTEMPT) && slot.since > told_ns)
            .map(|slot| slot.since);
        let waiting = self.waiting.front().map(|waiting| waiting.since_ns);
        let metas = self.metas.oldest_waiting_ns();
        attempts.chain(waiting).chain(metas).min()
    }

    /// Has it looked at again.
    pub(super) fn wait(&mut self, of: &profile_moment_of) {
        self.waiting.push_back(Waiting {
            since_ns: of.time,
            connection: of.connection,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{connections, told};
    use super::*;
    use crate::profile::native::profile_snapshot;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn an_attempt_in_a_slot_is_told_of_once() {
        let mut connections = connections();
        let slot = profile_slot {
            connection: 5,
            since: 10 * SECOND_NS,
            moment: native::PROFILE_ATTEMPT as u8,
            ..profile_slot::default()
        };
        let mut look = |now_ns| told(|report| connections.look_back(now_ns, &[slot], report));
        assert_eq!(look(10 * SECOND_NS + 1), 0);
        assert_eq!(look(11 * SECOND_NS), 1);
        assert_eq!(look(12 * SECOND_NS), 0);
        // The same socket tries again, and the kernel tells of the attempt before.
        let mut again = slot.attempt();
        again.of.moment = native::PROFILE_FAILED as u8;
        assert_eq!(told(|report| connections.attempt(&again, report)), 0);
        again.of.time = 12 * SECOND_NS;
        assert_eq!(told(|report| connections.attempt(&again, report)), 1);
    }

    #[test]
    fn who_accepted_is_found_in_the_slot() {
        let mut connections = connections();
        let mut snapshot = profile_snapshot::default();
        snapshot.of.connection = u64::from(native::PROFILE_SLOTS) + 1;
        snapshot.of.time = SECOND_NS;
        let mut slots = [profile_slot::default(); 2];
        slots[1] = profile_slot {
            connection: snapshot.of.connection,
            since: SECOND_NS + 7,
            moment: native::PROFILE_ACCEPTED as u8,
            process_id: 9,
            ..profile_slot::default()
        };
        assert_eq!(told(|report| connections.establish(&snapshot, report)), 0);
        let mut look = |now_ns| told(|report| connections.look_back(now_ns, &slots, report));
        assert_eq!(look(SECOND_NS + 7), 0);
        assert_eq!(look(SECOND_NS + SETTLED_NS + 7), 1);
        assert_eq!(look(3 * SECOND_NS), 0);
    }

    #[test]
    fn who_waits_holds_the_others_back_until_it_is_told() {
        let mut connections = connections();
        let mut snapshot = profile_snapshot::default();
        (snapshot.of.connection, snapshot.of.time) = (9, SECOND_NS);
        assert_eq!(told(|report| connections.establish(&snapshot, report)), 0);
        assert_eq!(connections.oldest_waiting_ns(&[]), Some(SECOND_NS));
        let look = |now_ns| told(|report| connections.look_at_waiting(now_ns, &[], report));
        assert_eq!([2 * SECOND_NS - 1, 2 * SECOND_NS].map(look), [0, 1]);
        assert_eq!(connections.oldest_waiting_ns(&[]), None);
        let slot = profile_slot {
            connection: 5,
            since: 3 * SECOND_NS,
            moment: native::PROFILE_ATTEMPT as u8,
            ..profile_slot::default()
        };
        assert_eq!(connections.oldest_waiting_ns(&[slot]), Some(3 * SECOND_NS));
    }
}
