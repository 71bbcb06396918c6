//! What the program counts.

use fathom_measure::bytes::read_prefix;
use fathom_measure::kernel::{add_counters, of_each_cpu};
use libbpf_rs::MapHandle;

use super::object::Program;
use crate::Error;
use crate::native::{BALANCE_COUNTER_COUNT, balance_traffic, counter_names};

/// Since forwarding began.
pub(super) struct Counters {
    cpus: MapHandle,
    services: MapHandle,
    servers: MapHandle,
}

impl Counters {
    pub(super) fn open(program: &Program) -> Result<Self, Error> {
        Ok(Self {
            cpus: program.map("balance_cpus")?,
            services: program.map("balance_service_traffic")?,
            servers: program.map("balance_server_traffic")?,
        })
    }

    /// The counts of this moment, by `BALANCE_COUNT_*`.
    pub(super) fn read(&self) -> Result<impl Fn(u32) -> u64 + use<>, Error> {
        let mut counts = [0; BALANCE_COUNTER_COUNT as usize];
        add_counters(&self.cpus, &mut counts)?;
        Ok(move |counter| counts.get(counter as usize).copied().unwrap_or(0))
    }

    /// The same by name; what is 0 too.
    pub(super) fn named(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        Ok(counter_names().zip((0..).map(self.read()?)).collect())
    }

    /// The traffic of a service, by its index in the tables.
    pub(super) fn of_service(&self, index: u16) -> Result<balance_traffic, Error> {
        traffic(&self.services, index.into())
    }

    /// The traffic of a server, by its number.
    pub(super) fn of_server(&self, number: u16) -> Result<balance_traffic, Error> {
        traffic(&self.servers, number.into())
    }
}

fn traffic(map: &MapHandle, index: u32) -> Result<balance_traffic, Error> {
    let mut sum = balance_traffic::default();
    for cpu in of_each_cpu(map, index)? {
        let Some((own, _)) = read_prefix::<balance_traffic>(&cpu) else {
            continue;
        };
        sum.packets += own.packets;
        sum.bytes += own.bytes;
        sum.connections += own.connections;
        sum.hits += own.hits;
        sum.misses += own.misses;
        sum.by_hash += own.by_hash;
    }
    Ok(sum)
}
