//! After how many probes the user has seen enough.

use std::collections::BTreeMap;

use fathom_measure::hops::HopSummary;
use fathom_record::{FlowKey, Record};

/// Stands for the destination among TTLs: which one reaches it is not always known.
const DESTINATION: u8 = 0;
/// Where a hop has become silent, and so is asked seldom, others are asked so many times as often.
const PATIENCE: u64 = 2;

/// So many probes to each hop of a flow.
pub(super) struct Goal {
    count: u64,
    /// The destination is a hop, too: it is talked to all the time.
    has_destination: bool,
    flows: BTreeMap<FlowKey, BTreeMap<u8, Sent>>,
}

#[derive(Default)]
struct Sent {
    probes: u64,
    lost: u64,
}

impl Goal {
    pub(super) fn new(count: u64, has_destination: bool) -> Self {
        Self {
            count,
            has_destination,
            flows: BTreeMap::new(),
        }
    }

    /// Takes what the measurement tells.
    pub(super) fn take(&mut self, record: &dyn Record) {
        let Some(hop) = record.downcast_ref::<HopSummary>() else {
            return;
        };
        let place = if hop.is_destination {
            DESTINATION
        } else {
            hop.ttl
        };
        let hops = self.flows.entry(hop.flow).or_default();
        let sent = hops.entry(place).or_default();
        sent.probes += hop.probes_sent;
        sent.lost += hop.probes_lost;
    }

    /// Does each hop of a flow that answers have so many? Where none does, one that is silent?
    pub(super) fn is_reached(&self) -> bool {
        self.flows.values().any(|hops| self.is_enough(hops))
    }

    fn is_enough(&self, hops: &BTreeMap<u8, Sent>) -> bool {
        let is_one = |place: u8| self.has_destination || place != DESTINATION;
        let hops_that_count = hops.iter().filter(|(place, _)| is_one(**place));
        let answering: Vec<_> = hops_that_count
            .map(|(_, sent)| sent)
            .filter(|sent| sent.lost < sent.probes)
            .collect();
        let most = hops.values().map(|sent| sent.probes).max().unwrap_or(0);
        match answering.iter().map(|sent| sent.probes).min() {
            Some(least) => least >= self.count || most >= self.count.saturating_mul(PATIENCE),
            None => most >= self.count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::paths::tests::summary;

    /// Takes what became of probes of a second.
    fn take(goal: &mut Goal, ttl: u8, is_destination: bool, (sent, lost): (u64, u64)) {
        let mut hop = summary(5000, ttl);
        hop.is_destination = is_destination;
        (hop.probes_sent, hop.probes_lost) = (sent, lost);
        goal.take(&hop);
    }

    #[test]
    fn each_hop_that_answers_has_so_many() {
        let mut goal = Goal::new(10, true);
        assert!(!goal.is_reached());
        take(&mut goal, 1, false, (10, 0));
        assert!(goal.is_reached());
        take(&mut goal, 2, false, (5, 5));
        take(&mut goal, 3, false, (9, 1));
        assert!(!goal.is_reached());
        take(&mut goal, 3, false, (1, 0));
        assert!(goal.is_reached());
        take(&mut goal, 4, true, (5, 0));
        assert!(!goal.is_reached());
        // The destination is now thought to be elsewhere.
        take(&mut goal, 5, true, (5, 0));
        assert!(goal.is_reached());
    }

    #[test]
    fn nobody_is_waited_for_in_vain() {
        let mut goal = Goal::new(10, true);
        take(&mut goal, 1, false, (9, 9));
        assert!(!goal.is_reached());
        take(&mut goal, 1, false, (1, 1));
        assert!(goal.is_reached(), "silent");
        take(&mut goal, 2, false, (6, 5));
        assert!(!goal.is_reached());
        take(&mut goal, 3, false, (20, 0));
        assert!(goal.is_reached(), "asked seldom");
    }

    #[test]
    fn an_application_may_have_nothing_to_say_to_the_destination() {
        let mut goal = Goal::new(10, false);
        take(&mut goal, 2, true, (1, 0));
        take(&mut goal, 1, false, (10, 0));
        assert!(goal.is_reached());
    }
}
