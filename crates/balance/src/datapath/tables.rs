//! The tables of services.

use std::collections::HashMap;

use fathom_measure::bytes::{bytes_of, read_prefix};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::object::Program;
use super::plan::{Entry, Slot};
use crate::Error;
use crate::config::Config;
use crate::native::{
    BALANCE_ANSWERS_ECHO, BALANCE_HAS_QUIC_IDS, BALANCE_IS_MEASURED, BALANCE_NETWORK_PREFIX,
    balance_network_key, balance_service, balance_service_key,
};

/// Services by address, and by network.
pub(super) struct Services {
    single: MapHandle,
    networks: MapHandle,
    /// How often they have changed: until it is counted up, CPUs go by what they have at hand.
    generation: MapHandle,
    room: usize,
}

impl Services {
    pub(super) fn open(program: &Program) -> Result<Self, Error> {
        Ok(Self {
            single: program.map("balance_services")?,
            networks: program.map("balance_networks")?,
            generation: program.map("balance_generation")?,
            room: program.map("balance_service_traffic")?.max_entries() as usize,
        })
    }

    /// Services that there can be.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// What is there, but for what stands for ICMP.
    pub(super) fn known(&self) -> Result<HashMap<Entry, Slot>, Error> {
        let all = self.entries()?.into_iter();
        let slot = |service: balance_service| Slot {
            index: service.index,
            ring_begin: service.ring_begin,
            ring_size: service.ring_size,
        };
        let services = all.filter(|(_, service)| service.ring_size > 0);
        Ok(services
            .map(|(entry, service)| (entry, slot(service)))
            .collect())
    }

    fn entries(&self) -> Result<Vec<(Entry, balance_service)>, Error> {
        let mut entries = Vec::new();
        for key in self.single.keys() {
            let entry = read_prefix::<balance_service_key>(&key)
                .and_then(|(key, _)| Entry::read(key.address, 128, key.port, key.protocol));
            entries.extend(entry.zip(value(&self.single, &key)?));
        }
        for key in self.networks.keys() {
            let entry = read_prefix::<balance_network_key>(&key).and_then(|(key, _)| {
                let length = key.prefix_length.checked_sub(BALANCE_NETWORK_PREFIX)?;
                Entry::read(key.address, length, key.port, key.protocol)
            });
            entries.extend(entry.zip(value(&self.networks, &key)?));
        }
        Ok(entries)
    }

    /// Writes what is configured. Each entry changes at once.
    pub(super) fn write(&self, config: &Config, slots: &[Slot]) -> Result<(), Error> {
        for (service, slot) in config.services.iter().zip(slots) {
            let quic = if service.is_quic {
                BALANCE_HAS_QUIC_IDS
            } else {
                0
            };
            let value = balance_service {
                ring_begin: slot.ring_begin,
                ring_size: slot.ring_size,
                index: slot.index,
                flags: (BALANCE_IS_MEASURED | quic) as u8,
                ..balance_service::default()
            };
            self.put(&Entry::of(service), &value)?;
            let echo = balance_service {
                flags: BALANCE_ANSWERS_ECHO as u8,
                ..balance_service::default()
            };
            self.put(&Entry::of_echo(service), &echo)?;
        }
        self.tell()
    }

    /// Has what was changed be seen at once.
    fn tell(&self) -> Result<(), Error> {
        let failed = |error| Error::kernel("count the changes of services", error);
        let key = 0_u32.to_ne_bytes();
        let count = self
            .generation
            .lookup(&key, MapFlags::ANY)
            .map_err(failed)?;
        let count = count.as_deref().and_then(read_prefix::<u64>);
        let next = count
            .map_or(0, |(count, _)| count)
            .wrapping_add(1)
            .to_ne_bytes();
        self.generation
            .update(&key, &next, MapFlags::ANY)
            .map_err(failed)
    }

    /// Removes what is not configured.
    pub(super) fn remove_others(&self, config: &Config) -> Result<(), Error> {
        let services = config.services.iter();
        let wanted: Vec<_> = services
            .flat_map(|service| [Entry::of(service), Entry::of_echo(service)])
            .collect();
        for (entry, _) in self.entries()? {
            if !wanted.contains(&entry) {
                let (map, key) = self.map_and_key(&entry);
                map.delete(&key)
                    .map_err(|error| Error::kernel("remove a service", error))?;
            }
        }
        self.tell()
    }

    fn put(&self, entry: &Entry, value: &balance_service) -> Result<(), Error> {
        let (map, key) = self.map_and_key(entry);
        let put = map.update(&key, bytes_of(value), MapFlags::ANY);
        put.map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::OutOfMemory => Error::NoRoom {
                what: "the services",
            },
            _ => Error::kernel("write a service", error),
        })
    }

    fn map_and_key(&self, entry: &Entry) -> (&MapHandle, Vec<u8>) {
        let address = entry.network.address().into();
        if entry.is_single() {
            let key = balance_service_key {
                address,
                port: entry.port,
                protocol: entry.protocol,
                ..balance_service_key::default()
            };
            (&self.single, bytes_of(&key).to_vec())
        } else {
            let key = balance_network_key {
                prefix_length: entry.prefix_length(),
                port: entry.port,
                protocol: entry.protocol,
                address,
                ..balance_network_key::default()
            };
            (&self.networks, bytes_of(&key).to_vec())
        }
    }
}

fn value(map: &MapHandle, key: &[u8]) -> Result<Option<balance_service>, Error> {
    let value = map.lookup(key, MapFlags::ANY);
    let value = value.map_err(|error| Error::kernel("read the services", error))?;
    Ok(value.and_then(|value| Some(read_prefix(&value)?.0)))
}
