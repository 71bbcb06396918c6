//! Which number each server has, and what is kept under it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use fathom_measure::bytes::bytes_of;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::object::Program;
use super::overrides::Overrides;
use super::pins::Pins;
use super::plan::number_servers;
use crate::Error;
use crate::config::Config;
use crate::fleet::Override;
use crate::native::balance_quic_id;

pub(super) struct Servers {
    /// Numbers that there can be.
    room: usize,
    /// The server of each number that is in use.
    known: BTreeMap<u16, IpAddr>,
    /// By the index in the configuration.
    numbers: Vec<u16>,
    overrides: Overrides,
    quic_ids: MapHandle,
}

impl Servers {
    /// `known` have their numbers already.
    pub(super) fn open(
        pins: &Pins,
        program: &Program,
        known: BTreeMap<u16, IpAddr>,
    ) -> Result<Self, Error> {
        let room = program.map("balance_servers")?.max_entries() as usize;
        Ok(Self {
            room,
            known,
            numbers: Vec::new(),
            overrides: Overrides::open(pins, room)?,
            quic_ids: program.map("balance_quic_ids")?,
        })
    }

    /// Gives each server a number; those that are known keep theirs.
    pub(super) fn plan(&mut self, config: &Config) -> Result<(), Error> {
        self.numbers = number_servers(config, &self.known, self.room)?;
        for (number, server) in self.numbers.iter().zip(&config.servers) {
            self.known.insert(*number, server.address);
        }
        Ok(())
    }

    /// By the index in the configuration.
    pub(super) fn numbers(&self) -> &[u16] {
        &self.numbers
    }

    /// What operators said of each server of the configuration.
    pub(super) fn overrides(&self) -> Result<Vec<Override>, Error> {
        let numbers = self.numbers.iter();
        numbers.map(|number| self.overrides.get(*number)).collect()
    }

    /// Keeps what an operator said, for the next process.
    pub(super) fn write_override(&self, server: usize, value: Override) -> Result<(), Error> {
        match self.numbers.get(server) {
            Some(number) => self.overrides.set(*number, value),
            None => Ok(()),
        }
    }

    pub(super) fn write_quic_ids(&self, config: &Config) -> Result<(), Error> {
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
            for (own, byte) in key.bytes.iter_mut().zip(&id.bytes) {
                *own = *byte;
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

    /// Takes the numbers of servers that are configured no more, and have no connection left.
    /// `held` are connections by number.
    pub(super) fn retire(&mut self, held: &HashMap<u16, u32>) -> Vec<u16> {
        let numbers = &self.numbers;
        let is_gone = |number: &u16| !numbers.contains(number) && !held.contains_key(number);
        let gone: Vec<_> = self.known.keys().copied().filter(is_gone).collect();
        for number in &gone {
            self.known.remove(number);
            // The next server with this number is another one; if it cannot be written, nothing
            // can.
            let _ = self.overrides.set(*number, Override::default());
        }
        gone
    }
}
