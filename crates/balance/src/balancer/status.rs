//! How everything stands.

use fathom_record::{Count, Histogram, Port, Protocol, Record, Time};

use super::Balancer;
use super::checks::CheckDue;
use crate::Error;
use crate::config::Check;
use crate::health::Aim;
use crate::native::balance_traffic;
use crate::record::{BalanceServer, BalanceService, BalanceWeight};

impl Balancer {
    /// How everything stands: services, servers, weights, counts.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn status(&mut self) -> Result<Vec<Box<dyn Record>>, Error> {
        let mut records: Vec<Box<dyn Record>> = Vec::new();
        let (time, now) = (Time::now(), self.now());
        for service in self.services()? {
            records.push(Box::new(service));
        }
        for server in self.servers()? {
            records.push(Box::new(server));
        }
        for service in 0..self.fleet.config().services.len() {
            for record in self.fleet.records(service, time, now) {
                records.push(Box::new(record));
            }
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
    pub fn services(&mut self) -> Result<Vec<BalanceService>, Error> {
        let services = self.fleet.config().services.clone();
        let record = |(index, service): (usize, crate::config::Service)| {
            let traffic = self.live.flows().traffic_of_service(index)?;
            let balance_traffic {
                packets,
                bytes,
                connections,
                hits,
                misses,
                ..
            } = traffic;
            Ok(BalanceService {
                time: Time::now(),
                service: service.name.into(),
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
        services.into_iter().enumerate().map(record).collect()
    }

    /// The servers, and what was sent to them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the tables cannot be read.
    pub fn servers(&mut self) -> Result<Vec<BalanceServer>, Error> {
        let servers = 0..self.fleet.config().servers.len();
        servers.map(|server| self.server(server)).collect()
    }

    pub(super) fn server(&mut self, index: usize) -> Result<BalanceServer, Error> {
        let now = self.now();
        let traffic = self.live.flows().traffic_of_server(index)?;
        let number = self.live.number(index).unwrap_or_default();
        let connections = &self.live.flows().seen().connections;
        let connections = connections.get(&number).copied().unwrap_or(0);
        let obstacle = self.obstacles.get(index).cloned().flatten();
        let failure = self.failure_of(index);
        let server = &self.fleet.config().servers[index];
        let order = self.fleet.order_of(index);
        Ok(BalanceServer {
            time: Time::now(),
            server: server.name.as_str().into(),
            address: server.address,
            encapsulation: server.encapsulation.name(),
            state: self.fleet.state(index, now),
            check: self.check_of(index),
            weight: order.weight.map_or(server.weight, f64::from),
            connections: connections.into(),
            packets: traffic.packets,
            bytes: traffic.bytes,
            problem: obstacle.map(|obstacle| obstacle.to_string()).or(failure),
        })
    }

    /// The checks of a server, each with what came of the last.
    fn checks_of(&self, server: usize) -> impl Iterator<Item = (&Aim, &CheckDue)> {
        let all = self.fleet.aims().iter().zip(&self.checks);
        all.filter(move |(aim, _)| aim.server == server)
    }

    /// The check of a server that failed.
    fn failure_of(&self, server: usize) -> Option<String> {
        self.checks_of(server).find_map(|(aim, due)| {
            let failure = due.failure.as_ref()?;
            Some(format!("check of {}: {failure}", aim.target))
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
        let checks = self.checks_of(server).map(|(aim, _)| {
            let way = if aim.is_tunnelled { "" } else { "not " };
            let mut services = aim.services.iter().filter(|_| !aim.is_tunnelled);
            let why = services.find_map(|service| self.way_obstacle(*service));
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            format!("{name} to {}, {way}through the tunnel{why}", aim.target)
        });
        let checks: Vec<_> = checks.collect();
        if checks.is_empty() {
            let services = config.services.iter().enumerate();
            let mut own = services.filter(|(_, service)| service.servers.contains(&server));
            return own.find_map(|(service, _)| self.way_problem(service));
        }
        Some(checks.join("; "))
    }

    /// What clients waited for the responses of each service and server since this process began: names, and the distribution.
    pub fn latencies(&mut self) -> Vec<(String, String, Histogram)> {
        let config = self.fleet.config().clone();
        let mut all = Vec::new();
        for (index, service) in config.services.iter().enumerate() {
            for server in &service.servers {
                let histogram = self.live.flows().latencies(index, *server).cloned();
                let name = config
                    .servers
                    .get(*server)
                    .map(|server| server.name.clone());
                let own = name
                    .zip(histogram)
                    .map(|(name, own)| (service.name.clone(), name, own));
                all.extend(own);
            }
        }
        all
    }

    /// The weights of all services, as last decided.
    pub fn weights(&self) -> Vec<BalanceWeight> {
        let services = 0..self.fleet.config().services.len();
        services
            .flat_map(|service| self.fleet.records(service, Time::now(), self.now()))
            .collect()
    }

    /// What was counted since forwarding began, by name, without what never happened.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn counts(&mut self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts = self.live.flows().counts()?;
        counts.extend(self.live.check_counts()?);
        counts.retain(|(_, count)| *count > 0);
        Ok(counts)
    }
}
