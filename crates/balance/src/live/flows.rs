//! What the program tells: epochs of connections, who waits, and what is counted.

use std::collections::HashMap;
use std::time::Duration;

use fathom_measure::bytes::read_prefix;
use fathom_measure::kernel::{Ring, add_counters, monotonic_ns, of_each_cpu, wall_clock_offset};
use fathom_measure::response::{ResponseEpoch, Tabled};
use fathom_record::Histogram;
use libbpf_rs::MapHandle;

use super::look::{Busy, Pace, Seen, TableTime, Told};
use super::mapped::Mapped;
use super::object::Program;
use super::plan::Slot;
use super::sampling::Sampling;
use crate::Error;
use crate::config::Config;
use crate::controller::{Collected, Latency, Measurement, Waiting};
use crate::native::{
    BALANCE_COUNT_EPOCHS, BALANCE_COUNT_EPOCHS_LOST, BALANCE_COUNT_HITS, BALANCE_COUNT_MEASURED,
    BALANCE_COUNT_MISSES, BALANCE_COUNT_MOVED, BALANCE_COUNT_OPENED, BALANCE_COUNTER_COUNT,
    balance_bucket, balance_epoch, balance_measured, balance_traffic, counter_names,
};
use crate::sampling::Counted;

/// What is counted of packets that may have changed the table of connections; other packets are no reason to look at it.
const OF_CONNECTIONS: [u32; 5] = [
    BALANCE_COUNT_HITS,
    BALANCE_COUNT_MISSES,
    BALANCE_COUNT_OPENED,
    BALANCE_COUNT_MOVED,
    BALANCE_COUNT_MEASURED,
];

/// What is known of connections.
pub struct Flows {
    // Dropped before the tables that it reads.
    ring: Ring,
    pub(super) tabled: Tabled,
    pub(super) epoch: Duration,
    pub(super) buckets: Mapped<balance_bucket>,
    pub(super) measured: Mapped<balance_measured>,
    sampling: Sampling,
    cpus: MapHandle,
    service_traffic: MapHandle,
    server_traffic: MapHandle,
    /// Of epochs, by the index of the service and the number of the server.
    collected: HashMap<(u16, u16), Collected>,
    /// The same since the server was last told of.
    untold: HashMap<(u16, u16), Collected>,
    /// Epochs that were ended by a look at the table.
    pub(super) told: Told,
    /// Of services of the configuration: their indexes; of servers: their numbers.
    indexes: Vec<u16>,
    numbers: Vec<u16>,
    pub(super) seen: Seen,
    pub(super) busy: Busy,
    pub(super) time: TableTime,
    pub(super) pace: Pace,
    /// Of all epochs since this process began, each as often as it has responses; by index and number.
    latencies: HashMap<(u16, u16), Histogram>,
}

impl Flows {
    pub(super) fn new(program: &Program, tabled: Tabled, config: &Config) -> Result<Self, Error> {
        Ok(Self {
            ring: open_ring(program)?,
            tabled,
            epoch: config.epoch,
            buckets: Mapped::new(program.map("balance_buckets")?)?,
            measured: Mapped::new(program.map("balance_measured")?)?,
            sampling: Sampling::open(program, config)?,
            cpus: program.map("balance_cpus")?,
            service_traffic: program.map("balance_service_traffic")?,
            server_traffic: program.map("balance_server_traffic")?,
            collected: HashMap::new(),
            untold: HashMap::new(),
            told: Told::default(),
            indexes: Vec::new(),
            numbers: Vec::new(),
            seen: Seen::default(),
            busy: Busy::default(),
            time: TableTime::default(),
            pace: Pace::default(),
            latencies: HashMap::new(),
        })
    }

    /// The program has been loaded anew over the same tables.
    pub(super) fn reload(
        &mut self,
        program: &Program,
        tabled: Tabled,
        config: &Config,
    ) -> Result<(), Error> {
        self.collect(Duration::ZERO)?;
        self.sampling = Sampling::open(program, config)?;
        self.ring = open_ring(program)?;
        (self.tabled, self.epoch) = (tabled, config.epoch);
        Ok(())
    }

    pub(super) fn set_owners(&mut self, numbers: &[u16], slots: &[Slot]) {
        self.numbers = numbers.to_vec();
        self.indexes = slots.iter().map(|slot| slot.index).collect();
        self.pace.need_whole();
    }

    /// Waits at most so long for epochs, and takes in what has come.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn collect(&mut self, timeout: Duration) -> Result<(), Error> {
        self.ring.wait(timeout)?;
        let offset = wall_clock_offset();
        let mut told = Vec::new();
        self.ring.read(|mut rest| {
            while let Some((raw, behind)) = read_prefix::<balance_epoch>(rest) {
                let epoch = self.tabled.epoch(rest, offset);
                rest = behind;
                if let Some(epoch) = epoch
                    && !self.told.remove((raw.server, epoch.begin))
                {
                    told.push(((raw.service, raw.server), epoch.epoch));
                }
            }
        })?;
        for (key, epoch) in told {
            self.take_epoch(key, &epoch);
        }
        Ok(())
    }

    pub(super) fn take_epoch(&mut self, key: (u16, u16), epoch: &ResponseEpoch) {
        self.collected.entry(key).or_default().take(epoch);
        if let Some(latency) = epoch.latency_ns.filter(|_| Collected::admits(epoch)) {
            let responses = epoch.causal_gaps.into();
            self.latencies
                .entry(key)
                .or_default()
                .record_many(latency.0, responses);
        }
    }

    /// What clients waited for a server of a service (indexes in the configuration) since this process began.
    pub fn latencies(&self, service: usize, server: usize) -> Option<&Histogram> {
        let key = (*self.indexes.get(service)?, *self.numbers.get(server)?);
        self.latencies.get(&key)
    }

    /// What packets have counted by now: where that is as before, the table is too.
    pub(super) fn count(&mut self) -> Result<(), Error> {
        let mut counts = [0; BALANCE_COUNTER_COUNT as usize];
        add_counters(&self.cpus, &mut counts)?;
        let of = |counter: u32| counts.get(counter as usize).copied().unwrap_or(0);
        self.pace
            .take(OF_CONNECTIONS.map(of).to_vec(), monotonic_ns());
        Ok(())
    }

    /// Measures as many connections as the load allows. Returns one in how many that is, if it changes.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn adapt(&mut self) -> Result<Option<u64>, Error> {
        let mut counts = [0; BALANCE_COUNTER_COUNT as usize];
        add_counters(&self.cpus, &mut counts)?;
        let of = |counter: u32| counts.get(counter as usize).copied().unwrap_or(0);
        Ok(self.sampling.adapt(Counted {
            at_ns: monotonic_ns(),
            packets: of(BALANCE_COUNT_MEASURED),
            epochs: of(BALANCE_COUNT_EPOCHS) + of(BALANCE_COUNT_EPOCHS_LOST),
        }))
    }

    /// What the last look at the whole table found.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// What was measured of the servers of a service (indexes in the configuration) since the last call.
    pub fn take(&mut self, service: usize, servers: &[usize]) -> Vec<Measurement> {
        let Some(index) = self.indexes.get(service).copied() else {
            return Vec::new();
        };
        let measurement = |server: &usize| {
            let number = self.numbers.get(*server).copied().unwrap_or_default();
            let key = (index, number);
            let collected = self.collected.remove(&key).unwrap_or_default();
            self.untold.entry(key).or_default().merge(&collected);
            let waiting = self.busy.waiting.get(&key).copied();
            Measurement {
                latency: collected.latency(),
                waiting: waiting.map(|(flows, sum)| Waiting {
                    flows,
                    mean_ns: sum as f64 / f64::from(flows),
                }),
                requests: collected.latency().map_or(0, |latency| latency.responses),
                flows: self.busy.active.get(&key).copied().unwrap_or(0),
            }
        };
        servers.iter().map(measurement).collect()
    }

    /// What clients waited for a server of a service (indexes in the configuration) since the last call, up to the last [`Flows::take`].
    pub fn take_untold(&mut self, service: usize, server: usize) -> Option<Latency> {
        let key = (*self.indexes.get(service)?, *self.numbers.get(server)?);
        self.untold.remove(&key)?.latency()
    }

    /// What was counted since forwarding began, by name; what is 0 too.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn counts(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        let mut counts: Vec<_> = counter_names().map(|name| (name, 0)).collect();
        add_counters(&self.cpus, counts.iter_mut().map(|(_, count)| count))?;
        Ok(counts)
    }

    /// The traffic of a service, by its index in the configuration.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn traffic_of_service(&self, service: usize) -> Result<balance_traffic, Error> {
        let index = self.indexes.get(service).copied().unwrap_or(0);
        traffic(&self.service_traffic, index.into())
    }

    /// The traffic of a server, by its index in the configuration.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be read.
    pub fn traffic_of_server(&self, server: usize) -> Result<balance_traffic, Error> {
        let number = self.numbers.get(server).copied().unwrap_or(0);
        traffic(&self.server_traffic, number.into())
    }
}

fn open_ring(program: &Program) -> Result<Ring, Error> {
    Ok(Ring::open(&program.map("balance_epochs")?)?)
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
