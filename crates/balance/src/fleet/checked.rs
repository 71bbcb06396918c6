//! What checks say of servers, as those of each service.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::config::Config;
use crate::health::{CheckHistory, Probe, State};

/// What is checked, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Checked {
    probes: Vec<Probe>,
    /// What is talked to, by service and server.
    targets: HashMap<(usize, usize), SocketAddr>,
    /// By the server, and what is talked to.
    histories: HashMap<(IpAddr, SocketAddr), CheckHistory>,
}

impl Checked {
    /// What is checked from now on. Where another address is talked to than before, what is known
    /// of the server holds until checks say something else.
    pub(super) fn set_probes(&mut self, config: &Config, probes: Vec<Probe>) {
        let pairs = |probe: &Probe| {
            let (server, target) = (probe.server, probe.target);
            let services = probe.services.clone().into_iter();
            services.map(move |service| ((service, server), target))
        };
        let targets = probes.iter().flat_map(pairs).collect();
        let before = std::mem::replace(&mut self.targets, targets);
        let mut histories = HashMap::new();
        for probe in &probes {
            let Some(server) = config.servers.get(probe.server) else {
                continue;
            };
            let history =
                |target: &SocketAddr| self.histories.get(&(server.address, *target)).copied();
            let other = || {
                let service = probe.services.first()?;
                history(before.get(&(*service, probe.server))?)
            };
            if let Some(known) = history(&probe.target).or_else(other) {
                histories.insert((server.address, probe.target), known);
            }
        }
        self.histories = histories;
        self.probes = probes;
    }

    /// The configuration has changed: nothing is checked until it is said what.
    pub(super) fn forget_probes(&mut self) {
        self.probes.clear();
        self.targets.clear();
    }

    pub(super) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Takes the result of a check in, by its index.
    pub(super) fn take(
        &mut self,
        config: &Config,
        probe: usize,
        has_succeeded: bool,
        now: Duration,
    ) -> Option<State> {
        let probe = self.probes.get(probe)?;
        let server = config.servers.get(probe.server)?;
        let history = self
            .histories
            .entry((server.address, probe.target))
            .or_default();
        history.take(has_succeeded, now, &server.health)
    }

    /// What is known of a server, as one of a service.
    pub(super) fn history(&self, config: &Config, service: usize, server: usize) -> CheckHistory {
        let address = config.servers.get(server).map(|server| server.address);
        let target = self.targets.get(&(service, server)).copied();
        let known = address.zip(target);
        let known = known.and_then(|key| self.histories.get(&key).copied());
        known.unwrap_or_default()
    }
}
