//! The tables of the kernel: what was decided is written into them here, and nowhere else.

mod checks;
mod flows;
mod look;
mod mapped;
mod next_hop;
mod object;
mod obstacle;
mod orders;
mod pins;
mod plan;
mod rings;
mod sampling;
mod setup;
mod tables;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::net::IpAddr;

use fathom_measure::bytes::bytes_of;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use nix::fcntl::Flock;

use crate::Error;
use crate::config::{Config, Encapsulation, Mode};
use crate::fleet::Order;
use crate::native::{
    BALANCE_BY_GUE, BALANCE_BY_IPIP, BALANCE_BY_LAYER2, BALANCE_BY_NONE, balance_quic_id,
    balance_ring_element, balance_server,
};

use checks::Checks;
pub use flows::Flows;
pub use look::Seen;
use mapped::Mapped;
use next_hop::{NextHop, Resolver};
use object::Program;
pub use object::check_program;
pub use obstacle::Obstacle;
use orders::Orders;
use pins::Pins;
pub use pins::{check_place, remove};
use plan::{NoRoom, Slot, number_servers, place_services, to_address};
use setup::load;
use tables::Services;

/// The words of a server in the order in which they are written: what it is comes last.
const SERVER_WORDS: [usize; 8] = [0, 1, 2, 3, 4, 5, 7, 6];

/// Forwarding, as it is.
pub struct Live {
    pins: Pins,
    program: Program,
    links: Vec<Link>,
    flows: Flows,
    servers: Mapped<balance_server>,
    rings: Mapped<balance_ring_element>,
    services: Services,
    quic_ids: MapHandle,
    orders: Orders,
    resolver: Resolver,
    /// Where checks leave, or why it could not be loaded; `None`: no check needs it.
    checks: Option<Result<Checks, String>>,
    /// The server of each number that is in use.
    known: BTreeMap<u16, IpAddr>,
    /// By the index in the configuration.
    numbers: Vec<u16>,
    slots: Vec<Slot>,
    /// Of each, the places that were not marked as settled when it was last gone through; none: it has been written since.
    marked: Vec<Option<HashSet<u32>>>,
    interfaces: Vec<u32>,
    has_taken_over: bool,
    _lock: Flock<File>,
}

impl Live {
    /// Loads the program over the tables that are pinned, or over new ones. Nothing changes yet for packets: see [`Live::publish`].
    ///
    /// # Errors
    /// [`Error`] when the system does not allow it.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let pins = Pins::open(&config.pins)?;
        let lock = pins.lock()?;
        let has_taken_over = object::entries(&pins, "balance_servers").is_some();
        let (program, tabled) = load(&pins, config)?;
        let servers = Mapped::new(program.map("balance_servers")?)?;
        let mut live = Self {
            flows: Flows::new(&program, tabled, config)?,
            rings: Mapped::new(program.map("balance_rings")?)?,
            services: Services::open(&program)?,
            quic_ids: program.map("balance_quic_ids")?,
            orders: Orders::open(&pins, servers.len())?,
            resolver: Resolver::open()
                .map_err(|error| Error::kernel("ask the kernel for routes", error))?,
            known: read_servers(&servers),
            servers,
            checks: None,
            links: Vec::new(),
            numbers: Vec::new(),
            slots: Vec::new(),
            marked: Vec::new(),
            interfaces: Vec::new(),
            has_taken_over,
            program,
            pins,
            _lock: lock,
        };
        live.plan(config)?;
        Ok(live)
    }

    /// Was it forwarding before this process began?
    pub fn has_taken_over(&self) -> bool {
        self.has_taken_over
    }

    /// Takes another configuration. As after [`Live::open`], packets go on as before until [`Live::publish`].
    ///
    /// # Errors
    /// [`Error`] when the system does not allow it; then all is as before.
    pub fn reload(&mut self, config: &Config) -> Result<(), Error> {
        let (program, tabled) = load(&self.pins, config)?;
        self.flows.reload(&program, tabled, config)?;
        self.program = program;
        self.plan(config)
    }

    /// Gives numbers and places.
    fn plan(&mut self, config: &Config) -> Result<(), Error> {
        let no_room = |NoRoom(what)| Error::NoRoom { what };
        let interfaces = config.interfaces.iter().map(|name| {
            nix::net::if_::if_nametoindex(name.as_str())
                .map_err(|_| Error::NoInterface { name: name.clone() })
        });
        self.interfaces = interfaces.collect::<Result<_, _>>()?;
        self.numbers = number_servers(config, &self.known, self.servers.len()).map_err(no_room)?;
        let elements = u32::try_from(self.rings.len()).unwrap_or(u32::MAX);
        let known = self.services.known()?;
        self.slots =
            place_services(config, &known, self.services.room(), elements).map_err(no_room)?;
        for slot in self
            .slots
            .iter()
            .filter(|slot| !known.values().any(|known| known == *slot))
        {
            self.clear(slot);
        }
        for (number, server) in self.numbers.iter().zip(&config.servers) {
            self.known.insert(*number, server.address);
        }
        self.marked = vec![None; self.slots.len()];
        self.flows.set_owners(&self.numbers, &self.slots);
        self.load_checks(config)
    }

    /// Finds the way to each server and writes it. What is in the way comes back for each.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not answer.
    pub fn resolve(&mut self, config: &Config) -> Result<Vec<Option<Obstacle>>, Error> {
        let mut obstacles = Vec::new();
        for (server, number) in config.servers.iter().zip(&self.numbers) {
            let way = self.resolver.resolve(server.address);
            let way = way.map_err(|error| {
                Error::kernel(format!("find the way to {}", server.address), error)
            })?;
            match way {
                Ok(way) => {
                    let entry = self.entry(server, &way);
                    self.servers.set((*number).into(), &entry, SERVER_WORDS);
                    obstacles.push(None);
                }
                // What is there may still be right: a neighbour that was silent for a while.
                Err(obstacle) => {
                    let is_there = u32::from(self.servers.get((*number).into()).encapsulation)
                        != BALANCE_BY_NONE;
                    let is_doubtful = is_there && matches!(obstacle, Obstacle::Unresolved(_));
                    obstacles.push(Some(obstacle).filter(|_| !is_doubtful));
                }
            }
        }
        Ok(obstacles)
    }

    fn entry(&self, server: &crate::config::Server, way: &NextHop) -> balance_server {
        let (encapsulation, gue_port) = match server.encapsulation {
            Encapsulation::Layer2 => (BALANCE_BY_LAYER2, 0),
            Encapsulation::Ipip => (BALANCE_BY_IPIP, 0),
            Encapsulation::Gue(port) => (BALANCE_BY_GUE, port),
        };
        balance_server {
            source: way.source.into(),
            destination: server.address.into(),
            next_hop: way.destination,
            own: way.own,
            mtu: way.mtu,
            // Back through the only interface there is: by XDP_TX, which is cheaper than redirection.
            interface: if self.interfaces == [way.interface] {
                0
            } else {
                way.interface
            },
            gue_port,
            encapsulation: encapsulation as u8,
            ttl: 64,
            ..balance_server::default()
        }
    }

    /// Makes it so: services, ids, and the program itself, in place of the one before. Then what is of no use any more goes.
    ///
    /// # Errors
    /// [`Error`] when the kernel refuses.
    pub fn publish(&mut self, config: &Config) -> Result<(), Error> {
        self.write_quic_ids(config)?;
        self.services.write(config, &self.slots)?;
        self.links.clear();
        for interface in &self.interfaces {
            let mode = mode(&mut self.resolver, *interface, config)?;
            self.links
                .push(self.program.attach(&self.pins, *interface, mode)?);
        }
        for interface in self.pins.links() {
            if !self.interfaces.contains(&interface) {
                let path = self.pins.link(interface);
                std::fs::remove_file(&path)
                    .map_err(|error| Error::kernel(format!("remove {}", path.display()), error))?;
            }
        }
        self.services.remove_others(config)
    }

    /// Attaches to interfaces that have come back by another number, or come at last. Returns what is to be told.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not answer.
    pub fn follow_interfaces(&mut self, config: &Config) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        for (place, name) in config.interfaces.iter().enumerate() {
            let before = self.interfaces[place];
            let Ok(index) = nix::net::if_::if_nametoindex(name.as_str()) else {
                continue;
            };
            if index == before {
                continue;
            }
            let mode = mode(&mut self.resolver, index, config)?;
            match self.program.attach(&self.pins, index, mode) {
                Ok(link) => {
                    self.links.push(link);
                    self.interfaces[place] = index;
                    // Of an interface that is no more.
                    let _ = std::fs::remove_file(self.pins.link(before));
                    told.push(format!("interface {name} is back"));
                }
                Err(error) => told.push(format!("interface {name} is back, and not used: {error}")),
            }
        }
        Ok(told)
    }

    fn write_quic_ids(&self, config: &Config) -> Result<(), Error> {
        let failed = |error| Error::kernel("write the QUIC ids of servers", error);
        let mut stale: Vec<Vec<u8>> = self.quic_ids.keys().collect();
        for (server, number) in config.servers.iter().zip(&self.numbers) {
            let Some(id) = &server.quic_id else {
                continue;
            };
            let mut key = balance_quic_id {
                config: id.config,
                ..balance_quic_id::default()
            };
            for (place, byte) in key.bytes.iter_mut().zip(&id.bytes) {
                *place = *byte;
            }
            let key = bytes_of(&key);
            stale.retain(|other| other != key);
            let number = u32::from(*number).to_ne_bytes();
            self.quic_ids
                .update(key, &number, MapFlags::ANY)
                .map_err(failed)?;
        }
        for key in stale {
            self.quic_ids.delete(&key).map_err(failed)?;
        }
        Ok(())
    }

    /// Servers that are configured no more, and have no connection left, give their numbers back. `used` is by number.
    pub fn retire(&mut self, used: &HashMap<u16, u32>) {
        let numbers = &self.numbers;
        let is_gone = |number: &u16| !numbers.contains(number) && !used.contains_key(number);
        let gone: Vec<_> = self.known.keys().copied().filter(is_gone).collect();
        for number in gone {
            self.known.remove(&number);
            // Whoever has the number next is another server; if it cannot be written, nothing can.
            let _ = self.orders.set(number, Order::default());
            self.servers.set(
                number.into(),
                &balance_server::default(),
                SERVER_WORDS.into_iter().rev(),
            );
        }
    }

    /// What operators said, before this process began, of each server.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn orders(&self) -> Result<Vec<Order>, Error> {
        self.numbers
            .iter()
            .map(|number| self.orders.get(*number))
            .collect()
    }

    /// Keeps what an operator said, for the next process.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be written.
    pub fn write_order(&self, server: usize, order: Order) -> Result<(), Error> {
        match self.numbers.get(server) {
            Some(number) => self.orders.set(*number, order),
            None => Ok(()),
        }
    }

    /// Epochs, connections, counters.
    pub fn flows(&mut self) -> &mut Flows {
        &mut self.flows
    }

    /// The number of a server in the tables.
    pub fn number(&self, server: usize) -> Option<u16> {
        self.numbers.get(server).copied()
    }
}

/// How XDP is attached to this interface.
fn mode(resolver: &mut Resolver, interface: u32, config: &Config) -> Result<Mode, Error> {
    let mode = resolver.mode(interface, config.mode);
    mode.map_err(|error| Error::kernel("look at an interface", error))
}

fn read_servers(servers: &Mapped<balance_server>) -> BTreeMap<u16, IpAddr> {
    let present = (1..servers.len()).filter_map(|number| {
        let server = servers.get(number);
        let is_used = u32::from(server.encapsulation) != BALANCE_BY_NONE;
        is_used.then(|| (number as u16, to_address(server.destination)))
    });
    present.collect()
}
