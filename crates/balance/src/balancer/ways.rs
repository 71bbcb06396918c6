//! The ways of checks: which servers are checked the way of clients' packets, and which cannot be.

use super::checks::CheckDue;
use super::{Balancer, News, patiently};
use crate::Error;
use crate::config::{Config, Way};
use crate::health::aims;
use crate::live::{Live, Obstacle};

impl Balancer {
    /// Begins the checks anew if what is in their way has changed, and tells of it.
    pub(super) fn take_ways(
        &mut self,
        obstacles: Vec<Option<Obstacle>>,
        report: &mut impl FnMut(News),
    ) {
        let services = self.fleet.config().services.iter().enumerate();
        let changed = services.filter(|(index, _)| {
            obstacles.get(*index).map(Option::is_some)
                != self.way_obstacles.get(*index).map(Option::is_some)
        });
        let changed: Vec<_> = changed
            .map(|(index, service)| (index, service.name.clone()))
            .collect();
        self.way_obstacles = obstacles;
        if changed.is_empty() {
            return;
        }
        self.aim();
        for (index, name) in changed {
            report(News::Message(self.way_problem(index).unwrap_or_else(
                || format!("service {name}: checks go through the tunnel"),
            )));
        }
    }

    /// Has those checked that can be.
    pub(super) fn aim(&mut self) {
        let can_leave = |service: usize| matches!(self.way_obstacles.get(service), Some(None));
        let aims = aims(self.fleet.config(), can_leave);
        self.generation += 1;
        self.checks = vec![CheckDue::default(); aims.len()];
        self.fleet.aim(aims);
    }

    /// What is in the way of checks of a service through the tunnel: its address, and why.
    pub(super) fn way_obstacle(&self, service: usize) -> Option<String> {
        let obstacle = self.way_obstacles.get(service)?.as_ref()?;
        let config = self.fleet.config();
        let service = config.services.get(service)?;
        let address = config.checked_address(service);
        Some(format!("{address}: {obstacle}"))
    }

    /// The same with what comes of it.
    pub(super) fn way_problem(&self, service: usize) -> Option<String> {
        let obstacle = self.way_obstacle(service)?;
        let config = self.fleet.config();
        let service = config.services.get(service)?;
        let mut servers = service
            .servers
            .iter()
            .map(|server| &config.servers[*server]);
        let then = if servers.any(|server| server.health.way == Way::Tunnel) {
            "not checked"
        } else {
            "checked at their own addresses"
        };
        Some(format!(
            "service {} cannot be checked through the tunnel: {obstacle}; its servers are {then}",
            service.name
        ))
    }
}

/// Has all ways opened, and waits a while for neighbours that do not answer at once.
pub(super) fn open_patiently(
    live: &mut Live,
    config: &Config,
) -> Result<Vec<Option<Obstacle>>, Error> {
    let obstacles = patiently(|| live.open_ways_of_checks(config))?;
    Live::demand_ways_of_checks(config, &obstacles)?;
    Ok(obstacles)
}
