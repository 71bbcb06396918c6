//! What is told of servers while the balancer runs.

use std::time::Duration;

use fathom_record::Time;

use super::{Balancer, News};
use crate::record::BalanceWeight;

impl Balancer {
    /// Tells of servers that have changed, or of which it is time to tell.
    pub(super) fn tell(&mut self, now: Duration, report: &mut impl FnMut(News)) {
        self.journal.begin(now);
        for (service, server) in self.members() {
            let share = self.fleet.share(service, server);
            let state = self.fleet.state_for(service, server, now);
            if self.journal.is_told((service, server), share, state, now) {
                self.take_told(service, server, now)
                    .into_iter()
                    .for_each(|record| report(News::Weight(record)));
            }
        }
    }

    /// How all servers of all services stand, and what was measured of each since it was last told of: the last that is told.
    pub fn last_told(&mut self) -> Vec<BalanceWeight> {
        let now = self.now();
        let members = self.members().into_iter();
        members
            .filter_map(|(service, server)| self.take_told(service, server, now))
            .collect()
    }

    fn take_told(&mut self, service: usize, server: usize, now: Duration) -> Option<BalanceWeight> {
        let latency = self.live.flows().take_untold(service, server);
        self.fleet
            .record(service, server, latency, Time::now(), now)
    }

    /// The servers of all services, by their indexes in the configuration.
    fn members(&self) -> Vec<(usize, usize)> {
        let services = self.fleet.config().services.iter().enumerate();
        let servers = services.flat_map(|(service, configured)| {
            configured
                .servers
                .iter()
                .map(move |server| (service, *server))
        });
        servers.collect()
    }
}
