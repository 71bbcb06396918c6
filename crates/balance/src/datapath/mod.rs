//! Programs and tables of the kernel, in parts that own what they do; here they are put together.

mod checks;
mod connections;
mod counters;
mod epochs;
mod flows;
mod interfaces;
mod mapped_array;
mod next_hop;
mod object;
mod obstacle;
mod overrides;
mod pins;
mod plan;
mod rings;
mod routes;
mod sampling;
mod servers;
mod setup;
mod tables;

use std::collections::HashMap;
use std::fs::File;
use std::time::Duration;

use fathom_record::Histogram;
use nix::fcntl::Flock;

use crate::Error;
use crate::config::Config;
use crate::controller::Measurement;
use crate::fleet::{Decision, Override};
use crate::native::balance_traffic;
use checks::Checks;
pub(crate) use checks::demand_routes;
use flows::Flows;
use interfaces::Interfaces;
use object::{Program, previous_config};
pub use obstacle::Obstacle;
use pins::Pins;
pub use pins::{check_directory, remove};
use rings::Rings;
use routes::Routes;
use servers::Servers;
pub use setup::check_program;
use setup::load;
use tables::Services;

/// A server of a service, in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// The index of the service.
    service: u16,
    /// The number of the server.
    server: u16,
}

/// Forwarding, as it is. Services and servers are known by their indexes in the configuration.
pub(crate) struct Datapath {
    pins: Pins,
    program: Program,
    interfaces: Interfaces,
    servers: Servers,
    routes: Routes,
    services: Services,
    rings: Rings,
    flows: Flows,
    checks: Checks,
    has_taken_over: bool,
    _lock: Flock<File>,
}

impl Datapath {
    /// Loads the program over the tables that are pinned, or over new ones. Nothing changes yet for
    /// packets: see [`Datapath::publish`].
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let pins = Pins::open(&config.pins)?;
        let lock = pins.lock()?;
        let has_taken_over = object::entries(&pins, "balance_servers").is_some();
        let (program, epoch_reader) = load(&pins, config)?;
        let routes = Routes::open(&program)?;
        let mut datapath = Self {
            interfaces: Interfaces::default(),
            servers: Servers::open(&pins, &program, routes.known())?,
            routes,
            services: Services::open(&program)?,
            rings: Rings::open(&program)?,
            flows: Flows::open(&program, epoch_reader, config)?,
            checks: Checks::default(),
            has_taken_over,
            program,
            pins,
            _lock: lock,
        };
        datapath.plan(config)?;
        Ok(datapath)
    }

    /// Was it forwarding before this process began?
    pub(crate) fn has_taken_over(&self) -> bool {
        self.has_taken_over
    }

    /// Takes another configuration. As after [`Datapath::open`], packets go on as before until
    /// [`Datapath::publish`]. After an error all is as before.
    pub(crate) fn reload(&mut self, config: &Config) -> Result<(), Error> {
        let (program, epoch_reader) = load(&self.pins, config)?;
        self.flows.reload(&program, epoch_reader, config)?;
        self.program = program;
        self.plan(config)
    }

    fn plan(&mut self, config: &Config) -> Result<(), Error> {
        self.interfaces.plan(config)?;
        self.servers.plan(config)?;
        self.rings.plan(config, &self.services)?;
        self.flows.need_whole();
        let seed = previous_config(&self.pins).map_or(0, |config| config.seed);
        let servers = self.program.map("balance_servers")?;
        let interfaces = self.interfaces.indexes();
        self.checks.plan(config, seed, interfaces, &servers);
        Ok(())
    }

    /// Finds the route to each server and writes it. What is in the way comes back for each.
    pub(crate) fn resolve(&mut self, config: &Config) -> Result<Vec<Option<Obstacle>>, Error> {
        let (numbers, interfaces) = (self.servers.numbers(), self.interfaces.indexes());
        self.routes.resolve(config, numbers, interfaces)
    }

    /// Has checks take the route of clients' packets. What is in the way comes back for each
    /// service.
    pub(crate) fn open_check_routes(
        &mut self,
        config: &Config,
    ) -> Result<Vec<Option<Obstacle>>, Error> {
        self.checks.open_routes(config, &mut self.routes)
    }

    /// Makes it so: services, ids, and the program itself, in place of the one before. Then what is
    /// of no use any more goes.
    pub(crate) fn publish(&mut self, config: &Config) -> Result<(), Error> {
        self.servers.write_quic_ids(config)?;
        self.services.write(config, self.rings.slots())?;
        self.interfaces
            .attach(config, &self.program, &self.pins, &mut self.routes)?;
        self.services.remove_others(config)
    }

    /// Attaches to interfaces that have come back by another number, or come at last. Returns what
    /// people are to know.
    pub(crate) fn follow_interfaces(&mut self, config: &Config) -> Result<Vec<String>, Error> {
        self.interfaces
            .follow(config, &self.program, &self.pins, &mut self.routes)
    }

    /// Waits at most so long for epochs. Returns one in how many connections is measured from now
    /// on, if that changes.
    pub(crate) fn poll(&mut self, timeout: Duration) -> Result<Option<u64>, Error> {
        self.flows.poll(timeout)
    }

    /// Scans what may have changed in the table of connections. If that was all of it, entries of
    /// rings are settled, and servers that are configured no more, and have no connection left,
    /// give their numbers back.
    pub(crate) fn scan(&mut self, interval: Duration) -> Result<(), Error> {
        if !self.flows.scan_active(interval)? {
            return Ok(());
        }
        // First, so that what is opened during the scan is fresh after it.
        self.rings.take_fresh(&self.flows.last_scan().services);
        self.flows.scan_whole(self.rings.finder());
        let scan = self.flows.last_scan();
        self.rings.settle(&scan.strays);
        for number in self.servers.retire(&scan.held) {
            self.routes.remove(number);
        }
        Ok(())
    }

    /// What was measured of servers of a service since the last call.
    pub(crate) fn measure(&mut self, service: usize, servers: &[usize]) -> Vec<Measurement> {
        let keys: Vec<_> = servers.iter().map(|it| self.key(service, *it)).collect();
        let measurements = keys.into_iter().map(|key| match key {
            Some(key) => self.flows.measure(key),
            None => Measurement::default(),
        });
        measurements.collect()
    }

    /// Has new flows go by a decision.
    pub(crate) fn apply(&mut self, decision: &Decision) {
        if !decision.changes_ring {
            return;
        }
        let numbers = self.servers.numbers();
        let ring: Vec<_> = decision
            .ring()
            .into_iter()
            .map(|server| numbers[server])
            .collect();
        self.rings.write(decision.service, &ring);
        self.flows.need_whole();
    }

    /// The entries that each server of the configuration has in the ring that a service had before.
    pub(crate) fn entries(&self, service: usize) -> HashMap<usize, u32> {
        let by_number = self.rings.entries(service);
        let numbers = self.servers.numbers().iter().enumerate();
        numbers
            .filter_map(|(server, number)| Some((server, *by_number.get(number)?)))
            .collect()
    }

    /// What operators said of each server, also before this process began.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>, Error> {
        self.servers.overrides()
    }

    /// Keeps what an operator said, for the next process.
    pub(crate) fn write_override(&self, server: usize, value: Override) -> Result<(), Error> {
        self.servers.write_override(server, value)
    }

    /// The number of a server in the tables.
    pub(crate) fn number(&self, server: usize) -> Option<u16> {
        self.servers.numbers().get(server).copied()
    }

    fn key(&self, service: usize, server: usize) -> Option<Key> {
        Some(Key {
            service: self.rings.slots().get(service)?.index,
            server: self.number(server)?,
        })
    }

    /// What clients waited for a server of a service since this process began.
    pub(crate) fn latencies(&self, service: usize, server: usize) -> Option<&Histogram> {
        self.flows.latencies(self.key(service, server)?)
    }

    /// Connections of a server that are open.
    pub(crate) fn open_connections(&self, server: usize) -> u32 {
        let open = &self.flows.last_scan().open;
        let number = self.number(server);
        number
            .and_then(|number| open.get(&number).copied())
            .unwrap_or(0)
    }

    /// The traffic of a service since forwarding began.
    pub(crate) fn traffic_of_service(&self, service: usize) -> Result<balance_traffic, Error> {
        let slot = self.rings.slots().get(service);
        let index = slot.map_or(0, |slot| slot.index);
        self.flows.counters.of_service(index)
    }

    /// The traffic of a server since forwarding began.
    pub(crate) fn traffic_of_server(&self, server: usize) -> Result<balance_traffic, Error> {
        let number = self.number(server).unwrap_or(0);
        self.flows.counters.of_server(number)
    }

    /// What was counted since forwarding began, and of packets of checks since this process began,
    /// by name; what is 0 too.
    pub(crate) fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts = self.flows.counters.named()?;
        counts.extend(self.checks.counts()?);
        Ok(counts)
    }
}
