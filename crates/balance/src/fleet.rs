//! Which server has how much of each service: what is configured, what operators and health checks say, and what the controller makes of measurements.
//! Pure: times and measurements are arguments, rings are what comes out.

mod checked;
mod told;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, Service};
use crate::controller::{Candidate, Measurement, Verdict, Why, decide};
use crate::health::{Aim, Change, Standing};
use crate::maglev::{Share, ring};
use checked::Checked;

/// What an operator has said of a server. It holds until it is taken back, or forwarding ends.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Order {
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
    orders: HashMap<IpAddr, Order>,
    /// There is no way to them.
    unreachable: HashSet<IpAddr>,
    services: Vec<Steered>,
}

/// A share that has changed by less, relatively, is left as it is in the ring.
const LEAST_CHANGE: f64 = 0.005;

/// A service, and what was decided for its servers last.
#[derive(Debug, Default)]
struct Steered {
    name: Arc<str>,
    members: Vec<Member>,
    quiet: u32,
    /// Of the ring that was last made, for each member; empty: none was.
    shares: Vec<f64>,
}

/// A server of a service, by its index in the configuration.
#[derive(Debug, Clone)]
struct Member {
    server: usize,
    name: Arc<str>,
    address: IpAddr,
    /// Last decided.
    factor: f64,
    verdict: Verdict,
    measured: Measurement,
    /// Of the ring, 0 to 1.
    share: f64,
}

impl Fleet {
    /// As configured, with nothing known.
    pub fn new(config: Config) -> Self {
        let mut fleet = Self {
            config: Config::default(),
            checked: Checked::default(),
            orders: HashMap::new(),
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
        let steered = |service: &Service| {
            let before = self
                .services
                .iter()
                .find(|before| *before.name == *service.name);
            let member = |&server: &usize| {
                let configured = &config.servers[server];
                let address = configured.address;
                let known = before.and_then(|before| {
                    before
                        .members
                        .iter()
                        .find(|member| member.address == address)
                });
                known.map_or_else(
                    || Member::new(server, &configured.name, address),
                    |known| Member {
                        server,
                        name: configured.name.as_str().into(),
                        ..known.clone()
                    },
                )
            };
            Steered {
                name: service.name.as_str().into(),
                members: service.servers.iter().map(member).collect(),
                quiet: before.map_or(0, |before| before.quiet),
                shares: Vec::new(),
            }
        };
        self.services = config.services.iter().map(steered).collect();
        let stays = |address: &IpAddr| {
            config
                .servers
                .iter()
                .any(|server| server.address == *address)
        };
        self.orders.retain(|address, _| stays(address));
        self.unreachable.retain(stays);
        self.config = config;
        self.checked.forget_aims();
    }

    /// What is checked from now on; until then, nothing is.
    pub fn aim(&mut self, aims: Vec<Aim>) {
        self.checked.aim(&self.config, aims);
    }

    /// What is checked.
    pub fn aims(&self) -> &[Aim] {
        self.checked.aims()
    }

    /// What an operator says of a server.
    pub fn order(&mut self, server: usize, order: Order) {
        if let Some(server) = self.config.servers.get(server) {
            self.orders.insert(server.address, order);
        }
    }

    /// What an operator has said of a server.
    pub fn order_of(&self, server: usize) -> Order {
        let address = self.config.servers.get(server).map(|server| server.address);
        let order = address.and_then(|address| self.orders.get(&address).copied());
        order.unwrap_or_default()
    }

    /// Is there a way to a server? Returns whether that has changed.
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

    /// The result of a check, by its index.
    pub fn checked(&mut self, aim: usize, has_succeeded: bool, now: Duration) -> Option<Change> {
        self.checked.take(&self.config, aim, has_succeeded, now)
    }

    fn standing(&self, service: usize, server: usize) -> Standing {
        self.checked.standing(&self.config, service, server)
    }

    /// The state of a server, for people and records: that of the service for which it stands worst.
    pub fn state(&self, server: usize, now: Duration) -> &'static str {
        let services = 0..self.config.services.len();
        let states = services
            .filter(|service| self.config.services[*service].servers.contains(&server))
            .map(|service| self.state_for(service, server, now));
        let rank = |state: &&str| match *state {
            "unhealthy" => 0,
            "slow start" => 1,
            "unknown" => 2,
            _ => 3,
        };
        states.min_by_key(rank).unwrap_or("unknown")
    }

    /// The state of a server as one of a service.
    pub fn state_for(&self, service: usize, server: usize, now: Duration) -> &'static str {
        if self.order_of(server).is_drained {
            return "drained";
        }
        let address = self.config.servers.get(server).map(|server| server.address);
        if address.is_some_and(|address| self.unreachable.contains(&address)) {
            return "unreachable";
        }
        let health = self.config.servers.get(server).map(|server| &server.health);
        health.map_or("unknown", |health| {
            self.standing(service, server).name(now, health)
        })
    }

    /// What a ring that is there says of the weights that were: its places by server of the configuration.
    pub fn recall(&mut self, service: usize, places: &HashMap<usize, u32>, now: Duration) {
        let total: u32 = places.values().sum();
        let bases = self.bases(service, now);
        let whole: f64 = bases.iter().sum();
        let Some(steered) = self.services.get_mut(service) else {
            return;
        };
        for (member, base) in steered.members.iter_mut().zip(bases) {
            let share = f64::from(places.get(&member.server).copied().unwrap_or(0))
                / f64::from(total.max(1));
            // One that had no place may have been drained or ill: that says nothing of how fast it is.
            if share > 0.0 && base > 0.0 {
                member.factor = share * whole / base;
            }
            member.share = share;
        }
    }

    /// The end of an interval of a service: what was measured of its servers, in their order in the configuration of the service.
    pub fn decide(&mut self, service: usize, measured: &[Measurement], now: Duration) {
        let bases = self.bases(service, now);
        let Some((steered, configured)) = self
            .services
            .get_mut(service)
            .zip(self.config.services.get(service))
        else {
            return;
        };
        let mut judged: Vec<(&mut Member, f64)> = Vec::new();
        for ((member, base), measured) in steered.members.iter_mut().zip(bases).zip(measured) {
            member.measured = *measured;
            if base > 0.0 {
                judged.push((member, base));
            }
        }
        let candidates: Vec<_> = judged
            .iter()
            .map(|(member, base)| Candidate {
                configured: *base,
                factor: member.factor,
                measured: member.measured,
            })
            .collect();
        let decision = decide(
            configured.policy,
            &configured.bounds,
            &candidates,
            steered.quiet,
        );
        steered.quiet = decision.quiet;
        for ((member, _), verdict) in judged.into_iter().zip(decision.verdicts) {
            (member.factor, member.verdict) = (verdict.factor, verdict);
        }
    }

    /// The weight of each member but for the controller: 0 for those that get no new flows. Where none would get any because all are ill, all do: a
    /// check that is wrong must not take a service away.
    fn bases(&self, service: usize, now: Duration) -> Vec<f64> {
        let members = self
            .services
            .get(service)
            .map(|service| service.members.as_slice());
        let configured = |member: &Member| {
            let order = self.order_of(member.server);
            let weight = self
                .config
                .servers
                .get(member.server)
                .map_or(0.0, |server| server.weight);
            if order.is_drained {
                0.0
            } else {
                order.weight.map_or(weight, f64::from)
            }
        };
        let part = |member: &Member| {
            if self.unreachable.contains(&member.address) {
                return 0.0;
            }
            let health = self
                .config
                .servers
                .get(member.server)
                .map(|server| &server.health);
            health.map_or(0.0, |health| {
                self.standing(service, member.server).part(now, health)
            })
        };
        let members = members.unwrap_or_default();
        let bases: Vec<_> = members
            .iter()
            .map(|member| configured(member) * part(member))
            .collect();
        if bases.iter().any(|base| *base > 0.0) {
            bases
        } else {
            members.iter().map(configured).collect()
        }
    }

    /// The ring of a service, unless it would be as the last one: to make and write one takes milliseconds, and moves flows. `None`: it is.
    pub fn changed_ring(&mut self, service: usize, now: Duration) -> Option<Option<Vec<usize>>> {
        let shares = self.shares(service, now);
        let steered = self.services.get_mut(service)?;
        if are_alike(&shares, &steered.shares) {
            return None;
        }
        steered.shares.clone_from(&shares);
        Some(self.ring_of(service, shares))
    }

    /// The part of each member of a service.
    fn shares(&mut self, service: usize, now: Duration) -> Vec<f64> {
        let bases = self.bases(service, now);
        let Some(steered) = self.services.get_mut(service) else {
            return Vec::new();
        };
        let members = steered.members.iter().zip(&bases);
        let weights: Vec<_> = members.map(|(member, base)| base * member.factor).collect();
        let sum: f64 = weights.iter().sum();
        let share = |weight: f64| if sum > 0.0 { weight / sum } else { 0.0 };
        for (member, weight) in steered.members.iter_mut().zip(weights) {
            member.share = share(weight);
        }
        steered.members.iter().map(|member| member.share).collect()
    }

    /// The ring of a service: for each place the server's index in the configuration; `None` when all are drained.
    pub fn ring(&mut self, service: usize, now: Duration) -> Option<Vec<usize>> {
        let shares = self.shares(service, now);
        self.ring_of(service, shares)
    }

    fn ring_of(&self, service: usize, weights: Vec<f64>) -> Option<Vec<usize>> {
        let size = self.config.services.get(service)?.ring;
        let steered = self.services.get(service)?;
        let addresses: Vec<_> = steered
            .members
            .iter()
            .map(|member| member.address.to_string())
            .collect();
        let names = addresses.iter().zip(weights);
        let shares: Vec<_> = names.map(|(name, weight)| Share { name, weight }).collect();
        let places = ring(size, &shares);
        let places = places?.into_iter();
        Some(
            places
                .map(|place| steered.members[usize::from(place)].server)
                .collect(),
        )
    }
}

/// Would both give the same ring, nearly?
fn are_alike(shares: &[f64], before: &[f64]) -> bool {
    let is_alike = |(now, before): (&f64, &f64)| {
        (*now > 0.0) == (*before > 0.0) && (now - before).abs() <= LEAST_CHANGE * before
    };
    shares.len() == before.len() && !shares.is_empty() && shares.iter().zip(before).all(is_alike)
}

impl Member {
    fn new(server: usize, name: &str, address: IpAddr) -> Self {
        Self {
            server,
            name: name.into(),
            address,
            factor: 1.0,
            verdict: Verdict {
                factor: 1.0,
                judged_ns: None,
                why: Why::Configured,
            },
            measured: Measurement::default(),
            share: 0.0,
        }
    }
}

#[cfg(test)]
mod tests;
