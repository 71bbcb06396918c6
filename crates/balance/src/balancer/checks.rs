//! Health checks as they are due, by the route of clients' packets where that can be.

use std::sync::Arc;
use std::time::Duration;

use fathom_record::Time;

use super::{Balancer, Event, patiently};
use crate::Error;
use crate::config::{CheckRoute, Config};
use crate::datapath::{Datapath, Obstacle, demand_routes};
use crate::health::{Finding, Target, probes};
use crate::record::BalanceHealth;

/// When one of the probes is due.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckDue {
    pub(super) at: Duration,
    pub(super) is_under_way: bool,
    pub(super) failure: Option<String>,
}

impl Balancer {
    /// Begins checks that are due, and takes in those that are done.
    pub(super) fn check(&mut self, now: Duration, report: &mut impl FnMut(Event)) {
        let findings: Vec<_> = self.checker.findings().collect();
        let mut has_changed = false;
        for finding in findings {
            has_changed |= self.take_finding(&finding, now, report);
        }
        if has_changed {
            self.redistribute();
        }
        let config = self.fleet.config();
        let probes = self.fleet.probes().iter().enumerate();
        for (due, (index, probe)) in self.checks.iter_mut().zip(probes) {
            let server = &config.servers[probe.server];
            if due.is_under_way || now < due.at {
                continue;
            }
            let number = self.datapath.number(probe.server).unwrap_or_default();
            (due.is_under_way, due.at) = (true, now + server.health.interval);
            let ticket = u64::from(self.generation) << 32 | index as u64;
            self.checker.ask(
                ticket,
                Target {
                    address: probe.target,
                    mark: probe
                        .is_tunnelled
                        .then_some(config.mark | u32::from(number)),
                    check: server.health.check.clone(),
                    timeout: server.health.timeout,
                },
            );
        }
    }

    /// Returns whether a server has risen or fallen.
    fn take_finding(
        &mut self,
        finding: &Finding,
        now: Duration,
        report: &mut impl FnMut(Event),
    ) -> bool {
        let index = (finding.ticket & u64::from(u32::MAX)) as usize;
        if finding.ticket >> 32 != u64::from(self.generation) {
            return false;
        }
        let Some((due, probe)) = self
            .checks
            .get_mut(index)
            .zip(self.fleet.probes().get(index))
        else {
            return false;
        };
        let server = &self.fleet.config().servers[probe.server];
        due.is_under_way = false;
        due.failure = finding.result.as_ref().err().map(ToString::to_string);
        let (name, address, failure) = (
            Arc::from(server.name.as_str()),
            server.address,
            due.failure.clone(),
        );
        let target = probe.target;
        let Some(state) = self.fleet.checked(index, finding.result.is_ok(), now) else {
            return false;
        };
        report(Event::Health(BalanceHealth {
            time: Time::now(),
            server: name,
            address,
            target: target.to_string(),
            state,
            failure,
        }));
        true
    }

    /// Begins the checks anew if what is in their way has changed, and tells of it.
    pub(super) fn take_check_obstacles(
        &mut self,
        obstacles: Vec<Option<Obstacle>>,
        report: &mut impl FnMut(Event),
    ) {
        let services = self.fleet.config().services.iter().enumerate();
        let changed = services.filter(|(index, _)| {
            obstacles.get(*index).map(Option::is_some)
                != self.check_obstacles.get(*index).map(Option::is_some)
        });
        let changed: Vec<_> = changed
            .map(|(index, service)| (index, service.name.clone()))
            .collect();
        self.check_obstacles = obstacles;
        if changed.is_empty() {
            return;
        }
        self.begin_checks();
        for (index, name) in changed {
            report(Event::Message(self.check_problem(index).unwrap_or_else(
                || format!("service {name}: checks go through the tunnel"),
            )));
        }
    }

    /// Has those checked that can be.
    pub(super) fn begin_checks(&mut self) {
        let can_leave = |service: usize| matches!(self.check_obstacles.get(service), Some(None));
        let probes = probes(self.fleet.config(), can_leave);
        self.generation += 1;
        self.checks = vec![CheckDue::default(); probes.len()];
        self.fleet.set_probes(probes);
    }

    /// What is in the way of checks of a service through the tunnel: its address, and why.
    pub(super) fn check_obstacle(&self, service: usize) -> Option<String> {
        let obstacle = self.check_obstacles.get(service)?.as_ref()?;
        let config = self.fleet.config();
        let service = config.services.get(service)?;
        let address = config.checked_address(service);
        Some(format!("{address}: {obstacle}"))
    }

    /// The same with what comes of it.
    pub(super) fn check_problem(&self, service: usize) -> Option<String> {
        let obstacle = self.check_obstacle(service)?;
        let config = self.fleet.config();
        let service = config.services.get(service)?;
        let mut servers = service
            .servers
            .iter()
            .map(|server| &config.servers[*server]);
        let then = if servers.any(|server| server.health.route == CheckRoute::Tunnel) {
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

/// Opens the routes of all checks, and waits a while for neighbours that do not answer at once.
pub(super) fn open_check_routes(
    datapath: &mut Datapath,
    config: &Config,
) -> Result<Vec<Option<Obstacle>>, Error> {
    let obstacles = patiently(|| datapath.open_check_routes(config))?;
    demand_routes(config, &obstacles)?;
    Ok(obstacles)
}
