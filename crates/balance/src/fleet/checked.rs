//! What checks say of servers, as those of each service.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::config::Config;
use crate::health::{Aim, Change, Standing};

/// What is checked, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Checked {
    aims: Vec<Aim>,
    /// What is talked to, by service and server.
    targets: HashMap<(usize, usize), SocketAddr>,
    /// By the server, and what is talked to.
    standings: HashMap<(IpAddr, SocketAddr), Standing>,
}

impl Checked {
    /// The configuration has changed: nothing is checked until it is said what.
    pub(super) fn forget_aims(&mut self) {
        self.aims.clear();
        self.targets.clear();
    }

    /// What is checked from now on. Where another address is talked to than before, what is known of the server holds until checks say something else.
    pub(super) fn aim(&mut self, config: &Config, aims: Vec<Aim>) {
        let pairs = |aim: &Aim| {
            let (server, target) = (aim.server, aim.target);
            let services = aim.services.clone().into_iter();
            services.map(move |service| ((service, server), target))
        };
        let targets = aims.iter().flat_map(pairs).collect();
        let before = std::mem::replace(&mut self.targets, targets);
        let mut standings = HashMap::new();
        for aim in &aims {
            let Some(server) = config.servers.get(aim.server) else {
                continue;
            };
            let standing =
                |target: &SocketAddr| self.standings.get(&(server.address, *target)).copied();
            let other = || {
                let service = aim.services.first()?;
                standing(before.get(&(*service, aim.server))?)
            };
            if let Some(known) = standing(&aim.target).or_else(other) {
                standings.insert((server.address, aim.target), known);
            }
        }
        self.standings = standings;
        self.aims = aims;
    }

    pub(super) fn aims(&self) -> &[Aim] {
        &self.aims
    }

    /// Takes the result of a check in, by its index.
    pub(super) fn take(
        &mut self,
        config: &Config,
        aim: usize,
        has_succeeded: bool,
        now: Duration,
    ) -> Option<Change> {
        let aim = self.aims.get(aim)?;
        let server = config.servers.get(aim.server)?;
        let standing = self
            .standings
            .entry((server.address, aim.target))
            .or_default();
        standing.take(has_succeeded, now, &server.health)
    }

    /// What is known of a server, as one of a service.
    pub(super) fn standing(&self, config: &Config, service: usize, server: usize) -> Standing {
        let address = config.servers.get(server).map(|server| server.address);
        let target = self.targets.get(&(service, server)).copied();
        let known = address.zip(target);
        let known = known.and_then(|key| self.standings.get(&key).copied());
        known.unwrap_or_default()
    }
}
