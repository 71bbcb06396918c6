//! Which server has how much of each service: what is configured, what operators and health checks
//! say, and what the controller makes of measurements. Pure: times and measurements are arguments,
//! a [`Decision`] is what comes out.

mod checked;
mod decision;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::config::{Config, Server, Service};
use crate::controller::{Candidate, Measurement, Policy, decide};
use crate::health::{CheckHistory, Probe, State};
use checked::Checked;
use decision::are_alike;
pub use decision::{Decision, Member};

/// What an operator has said of a server. It holds until it is taken back, or forwarding ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Override {
    /// It gets no new flows.
    pub is_drained: bool,
    /// In place of the configured weight.
    pub weight: Option<f32>,
}

/// All services and their servers.
#[derive(Debug)]
pub struct Fleet {
    config: Config,
    checked: Checked,
    overrides: HashMap<IpAddr, Override>,
    /// There is no route to them.
    unreachable: HashSet<IpAddr>,
    services: Vec<ServiceState>,
}

/// What is known of a service from one decision to the next.
#[derive(Debug)]
struct ServiceState {
    /// The last.
    decision: Decision,
    quiet: u32,
    /// The shares of the last ring, for each member; empty: there was none.
    shares: Vec<f64>,
}

impl Fleet {
    /// As configured, with nothing known.
    pub fn new(config: Config) -> Self {
        let mut fleet = Self {
            config: Config::default(),
            checked: Checked::default(),
            overrides: HashMap::new(),
            unreachable: HashSet::new(),
            services: Vec::new(),
        };
        fleet.reload(config);
        fleet
    }

    /// What is configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes another configuration; what is known of servers that stay is kept.
    pub fn reload(&mut self, config: Config) {
        let services = config.services.iter().enumerate();
        let steered = services.map(|(index, service)| {
            let mut before = self.services.iter();
            let before = before.find(|before| *before.decision.name == *service.name);
            ServiceState::new(&config, index, service, before)
        });
        self.services = steered.collect();
        let addresses: HashSet<_> = config.servers.iter().map(|server| server.address).collect();
        self.overrides
            .retain(|address, _| addresses.contains(address));
        self.unreachable
            .retain(|address| addresses.contains(address));
        self.config = config;
        self.checked.forget_probes();
    }

    /// What is checked from now on; until then, nothing is.
    pub fn set_probes(&mut self, probes: Vec<Probe>) {
        self.checked.set_probes(&self.config, probes);
    }

    /// What is checked.
    pub fn probes(&self) -> &[Probe] {
        self.checked.probes()
    }

    /// What an operator says of a server.
    pub fn set_override(&mut self, server: usize, value: Override) {
        if let Some(server) = self.config.servers.get(server) {
            self.overrides.insert(server.address, value);
        }
    }

    /// What an operator has said of a server.
    pub fn override_of(&self, server: usize) -> Override {
        let server = self.config.servers.get(server);
        let value = server.and_then(|server| self.overrides.get(&server.address));
        value.copied().unwrap_or_default()
    }

    /// Is there a route to a server? Returns whether that has changed.
    pub fn reached(&mut self, server: usize, is_reached: bool) -> bool {
        let Some(server) = self.config.servers.get(server) else {
            return false;
        };
        if is_reached {
            self.unreachable.remove(&server.address)
        } else {
            self.unreachable.insert(server.address)
        }
    }

    /// The result of a check, by its index. Returns what the server is from now on, if that
    /// changes.
    pub fn checked(&mut self, probe: usize, has_succeeded: bool, now: Duration) -> Option<State> {
        self.checked.take(&self.config, probe, has_succeeded, now)
    }

    fn history(&self, service: usize, server: usize) -> CheckHistory {
        self.checked.history(&self.config, service, server)
    }

    /// The state of a server, for people and records: that of the service for which it stands
    /// worst.
    pub fn state(&self, server: usize, now: Duration) -> State {
        let services = self.config.services.iter().enumerate();
        let states = services
            .filter(|(_, service)| service.servers.contains(&server))
            .map(|(service, _)| self.state_for(service, server, now));
        states.min().unwrap_or(State::Unknown)
    }

    /// The state of a server as one of a service.
    fn state_for(&self, service: usize, server: usize, now: Duration) -> State {
        let Some(configured) = self.config.servers.get(server) else {
            return State::Unknown;
        };
        if self.override_of(server).is_drained {
            State::Drained
        } else if self.unreachable.contains(&configured.address) {
            State::Unreachable
        } else {
            let history = self.history(service, server);
            history.state(now, &configured.health)
        }
    }

    /// What a ring that is there says of the weights that were: its entries by server of the
    /// configuration.
    pub fn recall(&mut self, service: usize, entries: &HashMap<usize, u32>, now: Duration) {
        let total: u32 = entries.values().sum();
        let bases = self.bases(service, now);
        let whole: f64 = bases.iter().sum();
        let Some(steered) = self.services.get_mut(service) else {
            return;
        };
        for (member, base) in steered.decision.members.iter_mut().zip(bases) {
            let share = f64::from(entries.get(&member.server).copied().unwrap_or(0))
                / f64::from(total.max(1));
            // One that had no entry may have been drained or ill: that says nothing of how fast it
            // is.
            if share > 0.0 && base > 0.0 {
                member.verdict.factor = share * whole / base;
            }
            member.share = share;
        }
    }

    /// The end of an interval of a service: what was measured of its servers, in their order in the
    /// configuration of the service.
    pub fn decide(
        &mut self,
        service: usize,
        measured: &[Measurement],
        now: Duration,
    ) -> Option<Decision> {
        let bases = self.bases(service, now);
        let steered = self.services.get_mut(service)?;
        let configured = self.config.services.get(service)?;
        let mut members = Vec::new();
        let mut candidates = Vec::new();
        let known = steered.decision.members.iter_mut().zip(bases);
        for ((member, configured), measured) in known.zip(measured) {
            member.measured = *measured;
            if configured > 0.0 {
                candidates.push(Candidate {
                    configured,
                    factor: member.verdict.factor,
                    measured: *measured,
                });
                members.push(member);
            }
        }
        let judgement = decide(
            configured.policy,
            &configured.bounds,
            &candidates,
            steered.quiet,
        );
        steered.quiet = judgement.quiet;
        for (member, verdict) in members.into_iter().zip(judgement.verdicts) {
            member.verdict = verdict;
        }
        self.redistribute(service, now)
    }

    /// Decides anew with what the controller said last: something else has changed. `None`: there
    /// is no such service.
    pub fn redistribute(&mut self, service: usize, now: Duration) -> Option<Decision> {
        let bases = self.bases(service, now);
        let members = &self.services.get(service)?.decision.members;
        let states: Vec<_> = members
            .iter()
            .map(|member| self.state_for(service, member.server, now))
            .collect();
        let steered = self.services.get_mut(service)?;
        let members = &mut steered.decision.members;
        let weights = members.iter().zip(&bases);
        let weights: Vec<_> = weights
            .map(|(member, base)| base * member.verdict.factor)
            .collect();
        let sum: f64 = weights.iter().sum();
        for ((member, weight), state) in members.iter_mut().zip(weights).zip(states) {
            member.share = if sum > 0.0 { weight / sum } else { 0.0 };
            member.state = state;
        }
        let shares = steered.decision.shares();
        steered.decision.changes_ring = !are_alike(&shares, &steered.shares);
        if steered.decision.changes_ring {
            steered.shares = shares;
        }
        Some(steered.decision.clone())
    }

    /// What was decided last, of each service.
    pub fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.services.iter().map(|steered| &steered.decision)
    }

    /// The weight of each member but for the controller: 0 for those that get no new flows. Where
    /// none would get any because all are ill, all do: a check that is wrong must not take a
    /// service away.
    fn bases(&self, service: usize, now: Duration) -> Vec<f64> {
        let Some(configured) = self.config.services.get(service) else {
            return Vec::new();
        };
        let servers = configured.servers.iter();
        let weights: Vec<_> = servers.clone().map(|server| self.weight(*server)).collect();
        let parts = servers.map(|&server| match &self.config.servers[server] {
            Server { address, .. } if self.unreachable.contains(address) => 0.0,
            Server { health, .. } => self.history(service, server).part(now, health),
        });
        let bases: Vec<_> = weights
            .iter()
            .zip(parts)
            .map(|(weight, part)| weight * part)
            .collect();
        if bases.iter().any(|base| *base > 0.0) {
            bases
        } else {
            weights
        }
    }

    /// What is configured, or what an operator said.
    fn weight(&self, server: usize) -> f64 {
        match self.override_of(server) {
            Override {
                is_drained: true, ..
            } => 0.0,
            Override { weight, .. } => weight.map_or(self.config.servers[server].weight, f64::from),
        }
    }
}

impl ServiceState {
    /// A service as configured, with what is known of it from before.
    fn new(config: &Config, index: usize, service: &Service, before: Option<&Self>) -> Self {
        let known: &[Member] = before.map_or(&[], |before| &before.decision.members);
        let member = |&server: &usize| {
            let configured = &config.servers[server];
            let mut known = known.iter();
            let known = known.find(|member| member.address == configured.address);
            Member {
                server,
                name: configured.name.as_str().into(),
                ..known
                    .cloned()
                    .unwrap_or_else(|| Member::new(configured.address))
            }
        };
        Self {
            decision: Decision {
                service: index,
                name: service.name.as_str().into(),
                ring_size: service.ring,
                has_policy: service.policy != Policy::Static,
                members: service.servers.iter().map(member).collect(),
                changes_ring: false,
            },
            quiet: before.map_or(0, |before| before.quiet),
            shares: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
