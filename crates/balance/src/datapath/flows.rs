//! What is known of connections: epochs, activity, counters; and how many of them are measured.

use std::time::Duration;

use fathom_measure::kernel::monotonic_ns;
use fathom_measure::response::EpochReader;
use fathom_record::Histogram;

use super::Key;
use super::connections::{Connections, TableScan};
use super::counters::Counters;
use super::epochs::Epochs;
use super::object::Program;
use super::sampling::Sampling;
use crate::Error;
use crate::config::Config;
use crate::controller::{Measurement, Waiting};
use crate::native::{
    BALANCE_COUNT_EPOCHS, BALANCE_COUNT_EPOCHS_LOST, BALANCE_COUNT_HITS, BALANCE_COUNT_MEASURED,
    BALANCE_COUNT_MISSES, BALANCE_COUNT_MOVED, BALANCE_COUNT_OPENED, balance_connection,
};
use crate::sampling::Counted;

/// What is counted of packets that may have changed the table of connections; other packets are no
/// reason to scan it.
const OF_CONNECTIONS: [u32; 5] = [
    BALANCE_COUNT_HITS,
    BALANCE_COUNT_MISSES,
    BALANCE_COUNT_OPENED,
    BALANCE_COUNT_MOVED,
    BALANCE_COUNT_MEASURED,
];

pub(super) struct Flows {
    epochs: Epochs,
    connections: Connections,
    sampling: Sampling,
    pub(super) counters: Counters,
}

impl Flows {
    pub(super) fn open(
        program: &Program,
        epoch_reader: EpochReader,
        config: &Config,
    ) -> Result<Self, Error> {
        Ok(Self {
            epochs: Epochs::open(program, epoch_reader)?,
            connections: Connections::open(program, config.epoch)?,
            sampling: Sampling::open(program, config)?,
            counters: Counters::open(program)?,
        })
    }

    /// The program has been loaded anew over the same tables.
    pub(super) fn reload(
        &mut self,
        program: &Program,
        epoch_reader: EpochReader,
        config: &Config,
    ) -> Result<(), Error> {
        self.sampling = Sampling::open(program, config)?;
        self.connections.set_epoch(config.epoch);
        self.epochs.reload(program, epoch_reader)
    }

    /// Waits at most so long for epochs, and takes in what has come. Measures as many connections
    /// as the load allows; returns one in how many that is, if it changes.
    pub(super) fn poll(&mut self, timeout: Duration) -> Result<Option<u64>, Error> {
        self.epochs.collect(timeout)?;
        let count = self.counters.read()?;
        Ok(self.sampling.adapt(Counted {
            at_ns: monotonic_ns(),
            packets: count(BALANCE_COUNT_MEASURED),
            epochs: count(BALANCE_COUNT_EPOCHS) + count(BALANCE_COUNT_EPOCHS_LOST),
        }))
    }

    /// Scans the connections that had packets of late. Returns whether the whole table is due too.
    pub(super) fn scan_active(&mut self, interval: Duration) -> Result<bool, Error> {
        let counted = OF_CONNECTIONS.map(self.counters.read()?).to_vec();
        self.connections
            .scan_active(counted, interval, &mut self.epochs);
        Ok(self.connections.is_whole_due())
    }

    /// See [`Connections::scan_whole`].
    pub(super) fn scan_whole(
        &mut self,
        server_at: impl Fn(&balance_connection) -> Option<(u32, u16)>,
    ) {
        self.connections.scan_whole(server_at);
    }

    /// Rings have changed: the whole table is to be scanned.
    pub(super) fn need_whole(&mut self) {
        self.connections.need_whole();
    }

    /// What the last scan of the whole table found.
    pub(super) fn last_scan(&self) -> &TableScan {
        self.connections.last_scan()
    }

    /// What was measured since the last call.
    pub(super) fn measure(&mut self, key: Key) -> Measurement {
        let epochs = self.epochs.take_collected(key);
        let latency = epochs.latency();
        let (flows, waiting) = self.connections.activity(key);
        Measurement {
            latency,
            waiting: waiting.map(|(flows, sum)| Waiting {
                flows,
                mean_ns: sum as f64 / f64::from(flows),
            }),
            requests: latency.map_or(0, |latency| latency.responses),
            flows,
            epochs,
        }
    }

    /// What clients waited since this process began.
    pub(super) fn latencies(&self, key: Key) -> Option<&Histogram> {
        self.epochs.latencies(key)
    }
}
