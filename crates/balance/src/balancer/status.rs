//! How everything stands.

use fathom_record::{Count, Histogram, Port, Protocol, Record, Time};

use super::Balancer;
use super::checks::CheckDue;
use crate::Error;
use crate::config::{Check, Service};
use crate::health::Probe;
use crate::native::balance_traffic;
use crate::record::{BalanceServer, BalanceService, BalanceWeight};

impl Balancer {
    /// How everything stands: services, servers, weights, counts.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn status(&self) -> Result<Vec<Box<dyn Record>>, Error> {
        let mut records: Vec<Box<dyn Record>> = Vec::new();
        let time = Time::now();
        for service in self.services()? {
            records.push(Box::new(service));
        }
        for server in self.servers()? {
            records.push(Box::new(server));
        }
        for weight in self.weights() {
            records.push(Box::new(weight));
        }
        for (name, count) in self.counts()? {
            records.push(Box::new(Count::new(time, "balance", name, count)));
        }
        Ok(records)
    }

    /// The services, and what passed to them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn services(&self) -> Result<Vec<BalanceService>, Error> {
        let record = |(index, service): (usize, &Service)| {
            let balance_traffic {
                packets,
                bytes,
                connections,
                hits,
                misses,
                ..
            } = self.datapath.traffic_of_service(index)?;
            Ok(BalanceService {
                time: Time::now(),
                service: service.name.as_str().into(),
                network: service.network,
                port: service.port.map(Port),
                protocol: Protocol(service.protocol.number()),
                policy: service.policy.name(),
                packets,
                bytes,
                connections,
                hits,
                misses,
            })
        };
        let services = self.fleet.config().services.iter().enumerate();
        services.map(record).collect()
    }

    /// The servers, and what was sent to them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn servers(&self) -> Result<Vec<BalanceServer>, Error> {
        let servers = 0..self.fleet.config().servers.len();
        servers.map(|server| self.server(server)).collect()
    }

    pub(super) fn server(&self, index: usize) -> Result<BalanceServer, Error> {
        let now = self.now();
        let traffic = self.datapath.traffic_of_server(index)?;
        let obstacle = self.obstacles.get(index).cloned().flatten();
        let failure = self.failure_of(index);
        let server = &self.fleet.config().servers[index];
        let value = self.fleet.override_of(index);
        Ok(BalanceServer {
            time: Time::now(),
            server: server.name.as_str().into(),
            address: server.address,
            encapsulation: server.encapsulation.name(),
            state: self.fleet.state(index, now),
            check: self.check_of(index),
            weight: value.weight.map_or(server.weight, f64::from),
            connections: self.datapath.open_connections(index).into(),
            packets: traffic.packets,
            bytes: traffic.bytes,
            problem: obstacle.map(|obstacle| obstacle.to_string()).or(failure),
        })
    }

    /// The checks of a server, each with what came of the last.
    fn checks_of(&self, server: usize) -> impl Iterator<Item = (&Probe, &CheckDue)> {
        let all = self.fleet.probes().iter().zip(&self.checks);
        all.filter(move |(probe, _)| probe.server == server)
    }

    /// The check of a server that failed.
    fn failure_of(&self, server: usize) -> Option<String> {
        self.checks_of(server).find_map(|(probe, due)| {
            let failure = due.failure.as_ref()?;
            Some(format!("check of {}: {failure}", probe.target))
        })
    }

    /// How a server is checked, for people.
    fn check_of(&self, server: usize) -> Option<String> {
        let config = self.fleet.config();
        let name = match config.servers.get(server)?.health.check {
            Check::None => return None,
            Check::Tcp => "tcp",
            Check::Http(_) => "http",
            Check::Https(_) => "https",
        };
        let checks = self.checks_of(server).map(|(probe, _)| {
            let not = if probe.is_tunnelled { "" } else { "not " };
            let mut services = probe.services.iter().filter(|_| !probe.is_tunnelled);
            let why = services.find_map(|service| self.check_obstacle(*service));
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!("{name} to {}, {not}through the tunnel{why}", probe.target)
        });
        let checks: Vec<_> = checks.collect();
        if checks.is_empty() {
            let services = config.services.iter().enumerate();
            let mut own = services.filter(|(_, service)| service.servers.contains(&server));
            return own.find_map(|(service, _)| self.check_problem(service));
        }
        Some(checks.join("; "))
    }

    /// What clients waited for the responses of each service and server since this process began:
    /// names, and the distribution.
    pub fn latencies(&self) -> Vec<(String, String, Histogram)> {
        let mut all = Vec::new();
        for decision in self.fleet.decisions() {
            for member in &decision.members {
                let latencies = self.datapath.latencies(decision.service, member.server);
                let names = (decision.name.to_string(), member.name.to_string());
                all.extend(latencies.map(|latencies| (names.0, names.1, latencies.clone())));
            }
        }
        all
    }

    /// The weights of all services, as last decided.
    pub fn weights(&self) -> Vec<BalanceWeight> {
        let time = Time::now();
        let decisions = self.fleet.decisions();
        decisions
            .flat_map(|decision| decision.records(time))
            .collect()
    }

    /// What was counted since forwarding began, by name, without what never happened.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts = self.datapath.counts()?;
        counts.retain(|(_, count)| *count > 0);
        Ok(counts)
    }
}
