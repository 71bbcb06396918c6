//! What the program tells: epochs of connections, who waits, and what is counted.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fathom_measure::bytes::{bytes_of, read_prefix};
use fathom_measure::kernel::{Ring, add_counters, monotonic_ns, of_each_cpu, wall_clock_offset};
use fathom_measure::response::{Confidence, ResponseEpoch, Tabled, TabledFlow};
use fathom_record::Histogram;
use libbpf_rs::MapHandle;

use super::mapped::Mapped;
use super::object::Program;
use super::plan::Slot;
use super::sampling::Sampling;
use super::setup::idle_units;
use crate::Error;
use crate::config::{Config, Transport};
use crate::controller::{Collected, Latency, Measurement, Waiting};
use crate::native::{
    BALANCE_BUCKET_PLACES, BALANCE_COUNT_MEASURED, BALANCE_IS_CLOSING, BALANCE_IS_CONFIRMED,
    BALANCE_WAS_MEASURED, balance_bucket, balance_connection, balance_epoch, balance_measured,
    balance_traffic, counter_names,
};

/// A request that has been unanswered for longer says nothing of how fast the server is: the client has gone, or waits for something to happen.
const GIVEN_UP_NS: u64 = 5_000_000_000;

/// What is known of connections.
pub struct Flows {
    // Dropped before the tables that it reads.
    ring: Ring,
    tabled: Tabled,
    buckets: Mapped<balance_bucket>,
    measured: Mapped<balance_measured>,
    sampling: Sampling,
    cpus: MapHandle,
    service_traffic: MapHandle,
    server_traffic: MapHandle,
    /// Of epochs, by the index of the service and the number of the server.
    collected: HashMap<(u16, u16), Collected>,
    /// The same since the server was last told of.
    untold: HashMap<(u16, u16), Collected>,
    /// Epochs that were ended by a look at the table, by server and begin: the program tells of them again at the next packet.
    told: HashSet<(u16, u64)>,
    /// Of services of the configuration: their indexes; of servers: their numbers.
    indexes: Vec<u16>,
    numbers: Vec<u16>,
    seen: Seen,
    /// When the last packet of all came, up to the last look, in units of the table. Its clock is the kernel's tick, which user space cannot read; while no
    /// packets come, nothing grows old.
    newest: u32,
    /// Of all epochs since this process began, each as often as it has responses; by index and number.
    latencies: HashMap<(u16, u16), Histogram>,
}

/// What a look at the table of connections found.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Connections that are open, by the number of their server.
    pub connections: HashMap<u16, u32>,
    /// These, and those that are closing.
    pub held: HashMap<u16, u32>,
    /// Places of the connections in the table that are not confirmed, or whose server is not that of their place in the ring, by the index of the service.
    pub(super) strays: HashMap<u16, HashSet<u32>>,
    /// Services that have connections, by index.
    pub(super) services: HashSet<u16>,
    /// Those that are active, and those that wait and for how long together, by service and server.
    active: HashMap<(u16, u16), u32>,
    waiting: HashMap<(u16, u16), (u32, u64)>,
}

impl Flows {
    pub(super) fn new(program: &Program, tabled: Tabled, config: &Config) -> Result<Self, Error> {
        Ok(Self {
            ring: open_ring(program)?,
            tabled,
            buckets: Mapped::new(program.map("balance_buckets")?)?,
            measured: Mapped::new(program.map("balance_measured")?)?,
            sampling: Sampling::open(program, config)?,
            cpus: program.map("balance_cpus")?,
            service_traffic: program.map("balance_service_traffic")?,
            server_traffic: program.map("balance_server_traffic")?,
            collected: HashMap::new(),
            untold: HashMap::new(),
            told: HashSet::new(),
            indexes: Vec::new(),
            numbers: Vec::new(),
            seen: Seen::default(),
            newest: 0,
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
        self.tabled = tabled;
        Ok(())
    }

    pub(super) fn set_owners(&mut self, numbers: &[u16], slots: &[Slot]) {
        self.numbers = numbers.to_vec();
        self.indexes = slots.iter().map(|slot| slot.index).collect();
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
                    && !self.told.remove(&(raw.server, epoch.begin))
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

    fn take_epoch(&mut self, key: (u16, u16), epoch: &ResponseEpoch) {
        self.collected.entry(key).or_default().take(epoch);
        if let Some(latency) = epoch
            .latency_ns
            .filter(|_| epoch.confidence >= Confidence::Medium)
        {
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

    /// Looks through the table: ends the epochs of connections that are silent, finds those that wait, and those that are not where `server_at` says: the
    /// place of a connection in the ring of its service, and the server there.
    pub(super) fn look(
        &mut self,
        interval: Duration,
        server_at: impl Fn(&balance_connection) -> Option<(u32, u16)>,
    ) {
        let (now, offset) = (monotonic_ns(), wall_clock_offset());
        let mut seen = Seen::default();
        // Only what is in the table is remembered: the program replaces connections without a word.
        let before = std::mem::take(&mut self.told);
        let mut silent = Vec::new();
        let mut newest = 0;
        for bucket in 0..self.buckets.len() {
            let bucket_of = self.buckets.get(bucket);
            for (place, connection) in (0..).zip(bucket_of.connections) {
                if connection.word == 0 {
                    continue;
                }
                let server = connection.server();
                let has = |flag: u32| u32::from(connection.flags) & flag != 0;
                let is_closing = has(BALANCE_IS_CLOSING);
                newest = newest.max(connection.used);
                let is_past = is_past(&connection, self.newest);
                // One that is not confirmed must be found by its next packet.
                let is_opening = !has(BALANCE_IS_CONFIRMED) && !is_past;
                if let Some((place, _)) =
                    server_at(&connection).filter(|(_, now)| *now != server || is_opening)
                {
                    let strays = seen.strays.entry(connection.service).or_default();
                    strays.insert(place);
                }
                if !is_past {
                    seen.services.insert(connection.service);
                    *seen.held.entry(server).or_insert(0) += 1;
                    *seen.connections.entry(server).or_insert(0) += u32::from(!is_closing);
                }
                let at = bucket * BALANCE_BUCKET_PLACES as usize + place;
                if !has(BALANCE_WAS_MEASURED)
                    || at >= self.measured.len()
                    || self.measured.first_word(at) == 0
                {
                    continue;
                }
                let measured = self.measured.get(at);
                let Some(flow) = self.tabled.flow(bytes_of(&measured), connection.protocol) else {
                    continue;
                };
                let key = (connection.service, server);
                seen.take(key, &flow, is_closing, now, interval);
                let Some(ended) = self.tabled.end(&flow, now, offset) else {
                    continue;
                };
                if !before.contains(&(server, ended.begin)) {
                    silent.push((key, ended.epoch));
                }
                self.told.insert((server, ended.begin));
            }
        }
        for (key, epoch) in silent {
            self.take_epoch(key, &epoch);
        }
        self.newest = newest;
        self.seen = seen;
    }

    /// Measures as many connections as the load allows. Returns one in how many that is, if it changes.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn adapt(&mut self) -> Result<Option<u64>, Error> {
        let mut counts = [0; BALANCE_COUNT_MEASURED as usize + 1];
        add_counters(&self.cpus, &mut counts)?;
        let [.., measured] = counts;
        Ok(self.sampling.adapt(measured, monotonic_ns()))
    }

    /// What the last look found.
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
            let waiting = self.seen.waiting.get(&key).copied();
            Measurement {
                latency: collected.latency(),
                waiting: waiting.map(|(flows, sum)| Waiting {
                    flows,
                    mean_ns: sum as f64 / f64::from(flows),
                }),
                requests: collected.latency().map_or(0, |latency| latency.responses),
                flows: self.seen.active.get(&key).copied().unwrap_or(0),
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

impl Seen {
    fn take(
        &mut self,
        key: (u16, u16),
        flow: &TabledFlow,
        is_closing: bool,
        now: u64,
        interval: Duration,
    ) {
        let age = u128::from(now.saturating_sub(flow.last()));
        *self.active.entry(key).or_insert(0) += u32::from(age < interval.as_nanos());
        if let Some(wait) = flow
            .waiting(now)
            .filter(|wait| !is_closing && wait.0 < GIVEN_UP_NS)
        {
            let (count, sum) = self.waiting.entry(key).or_insert((0, 0));
            *count += 1;
            *sum += wait.0;
        }
    }
}

/// May its place be taken by another? A place is not emptied: what was is there until then.
fn is_past(connection: &balance_connection, now: u32) -> bool {
    let [idle, closing, opening, datagram_idle] = idle_units();
    let flags = u32::from(connection.flags);
    let limit = if flags & BALANCE_IS_CLOSING != 0 {
        closing
    } else if flags & BALANCE_IS_CONFIRMED == 0 {
        opening
    } else if connection.protocol == Transport::Tcp.number() {
        idle
    } else {
        datagram_idle
    };
    now.saturating_sub(connection.used) > limit
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_past_when_it_was_silent_for_long() {
        let [idle, closing, ..] = idle_units();
        let connection = |flags: u32, protocol: u8| balance_connection {
            used: 1000,
            flags: flags as u8,
            protocol,
            ..balance_connection::default()
        };
        let open = connection(BALANCE_IS_CONFIRMED, 6);
        assert!(!is_past(&open, 1000 + idle) && is_past(&open, 1001 + idle));
        let over = connection(BALANCE_IS_CONFIRMED | BALANCE_IS_CLOSING, 6);
        assert!(!is_past(&over, 1000 + closing) && is_past(&over, 1001 + closing));
        assert!(is_past(&connection(BALANCE_IS_CONFIRMED, 17), 1000 + idle));
        // One that is newer than the last look knows.
        assert!(!is_past(&open, 0));
    }
}
