//! How servers are reached: asked of the kernel, and written for the program.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fathom_measure::response::native::address;

use super::mapped_array::MappedArray;
use super::next_hop::{NextHop, Resolver};
use super::object::Program;
use super::obstacle::Obstacle;
use crate::Error;
use crate::config::{Config, Encapsulation, Mode, Server};
use crate::native::{
    BALANCE_BY_GUE, BALANCE_BY_IPIP, BALANCE_BY_LAYER2, BALANCE_BY_NONE, balance_server,
};

/// The words of a server in the order in which they are written: what it is comes last.
const SERVER_WORDS: [usize; 8] = [0, 1, 2, 3, 4, 5, 7, 6];

pub(super) struct Routes {
    resolver: Resolver,
    servers: MappedArray<balance_server>,
}

impl Routes {
    pub(super) fn open(program: &Program) -> Result<Self, Error> {
        Ok(Self {
            resolver: Resolver::open()
                .map_err(|error| Error::kernel("ask the kernel for routes", error))?,
            servers: MappedArray::new(program.map("balance_servers")?)?,
        })
    }

    /// The servers that are written, by number.
    pub(super) fn known(&self) -> BTreeMap<u16, IpAddr> {
        let present = (1..self.servers.len()).filter_map(|number| {
            let server = self.servers.get(number);
            let address = address(&server.destination);
            is_written(&server).then_some((number as u16, address))
        });
        present.collect()
    }

    /// Finds the route to each server and writes it. What is in the way comes back for each.
    pub(super) fn resolve(
        &mut self,
        config: &Config,
        numbers: &[u16],
        interfaces: &[u32],
    ) -> Result<Vec<Option<Obstacle>>, Error> {
        let mut obstacles = Vec::new();
        for (server, number) in config.servers.iter().zip(numbers) {
            let hop = self.resolver.resolve(server.address);
            let hop = hop.map_err(|error| {
                Error::kernel(format!("find the way to {}", server.address), error)
            })?;
            obstacles.push(match hop {
                Ok(hop) => {
                    let entry = entry(server, &hop, interfaces);
                    self.servers.set((*number).into(), &entry, SERVER_WORDS);
                    None
                }
                // What is there may still be right: a neighbour that was silent for a while.
                Err(Obstacle::Unresolved(_)) if is_written(&self.servers.get((*number).into())) => {
                    None
                }
                Err(obstacle) => Some(obstacle),
            });
        }
        Ok(obstacles)
    }

    /// No server has this number any more.
    pub(super) fn remove(&self, number: u16) {
        let words = SERVER_WORDS.into_iter().rev();
        self.servers
            .set(number.into(), &balance_server::default(), words);
    }

    /// The interface by which packets with this mark to this address leave this machine, or why
    /// they do not.
    pub(super) fn leave(
        &mut self,
        address: IpAddr,
        mark: u32,
    ) -> Result<Result<u32, Obstacle>, Error> {
        let interface = self.resolver.leave(address, mark);
        interface.map_err(|error| Error::kernel(format!("find the way to {address}"), error))
    }

    /// How XDP is attached to this interface.
    pub(super) fn mode(&mut self, interface: u32, configured: Mode) -> Result<Mode, Error> {
        let mode = self.resolver.mode(interface, configured);
        mode.map_err(|error| Error::kernel("look at an interface", error))
    }
}

fn is_written(server: &balance_server) -> bool {
    u32::from(server.encapsulation) != BALANCE_BY_NONE
}

fn entry(server: &Server, hop: &NextHop, interfaces: &[u32]) -> balance_server {
    let (encapsulation, gue_port) = match server.encapsulation {
        Encapsulation::Layer2 => (BALANCE_BY_LAYER2, 0),
        Encapsulation::Ipip => (BALANCE_BY_IPIP, 0),
        Encapsulation::Gue(port) => (BALANCE_BY_GUE, port),
    };
    balance_server {
        source: hop.source.into(),
        destination: server.address.into(),
        next_hop: hop.destination,
        own: hop.own,
        mtu: hop.mtu,
        // Back through the only interface there is: by XDP_TX, which is cheaper than redirection.
        interface: if interfaces == [hop.interface] {
            0
        } else {
            hop.interface
        },
        gue_port,
        encapsulation: encapsulation as u8,
        ttl: 64,
        ..balance_server::default()
    }
}
