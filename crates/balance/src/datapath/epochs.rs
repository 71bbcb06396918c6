//! Epochs of connections, as the program sends them, or a scan ends them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use fathom_measure::bytes::read_prefix;
use fathom_measure::kernel::{Ring, wall_clock_offset};
use fathom_measure::response::{EpochReader, ResponseEpoch, StoredFlow};
use fathom_record::Histogram;

use super::Key;
use super::object::Program;
use crate::Error;
use crate::controller::Collected;
use crate::native::balance_epoch;

/// What came of connections since it was asked for last, and all that came.
pub(super) struct Epochs {
    // Dropped before the tables that it reads.
    ring: Ring,
    epoch_reader: EpochReader,
    ended: EndedEpoch,
    collected: HashMap<Key, Collected>,
    /// All epochs since this process began, each counted as often as it has responses.
    latencies: HashMap<Key, Histogram>,
}

impl Epochs {
    pub(super) fn open(program: &Program, epoch_reader: EpochReader) -> Result<Self, Error> {
        Ok(Self {
            ring: open_ring(program)?,
            epoch_reader,
            ended: EndedEpoch::default(),
            collected: HashMap::new(),
            latencies: HashMap::new(),
        })
    }

    /// The program has been loaded anew over the same tables.
    pub(super) fn reload(
        &mut self,
        program: &Program,
        epoch_reader: EpochReader,
    ) -> Result<(), Error> {
        self.collect(Duration::ZERO)?;
        self.ring = open_ring(program)?;
        self.epoch_reader = epoch_reader;
        Ok(())
    }

    /// Waits at most so long for epochs, and takes in what has come.
    pub(super) fn collect(&mut self, timeout: Duration) -> Result<(), Error> {
        self.ring.wait(timeout)?;
        let offset = wall_clock_offset();
        let mut sent = Vec::new();
        self.ring.read(|mut rest| {
            while let Some((raw, behind)) = read_prefix::<balance_epoch>(rest) {
                let epoch = self.epoch_reader.read(&raw.epoch, offset);
                rest = behind;
                if !self.ended.remove((raw.server, epoch.begin)) {
                    let (service, server) = (raw.service, raw.server);
                    sent.push((Key { service, server }, epoch.epoch));
                }
            }
        })?;
        for (key, epoch) in sent {
            self.take(key, &epoch);
        }
        Ok(())
    }

    /// Ends the epoch of the connection in this slot, if it is over.
    pub(super) fn end(&mut self, key: Key, slot: u32, flow: &StoredFlow, now: u64, offset: u64) {
        if let Some(ended) = self.epoch_reader.end(flow, now, offset)
            && self.ended.add(slot, (key.server, ended.begin))
        {
            self.take(key, &ended.epoch);
        }
    }

    fn take(&mut self, key: Key, epoch: &ResponseEpoch) {
        self.collected.entry(key).or_default().take(epoch);
        if let Some(latency) = epoch.latency_ns.filter(|_| Collected::admits(epoch)) {
            let latencies = self.latencies.entry(key).or_default();
            latencies.record_many(latency.0, epoch.causal_gaps.into());
        }
    }

    /// What has come since the last call.
    pub(super) fn take_collected(&mut self, key: Key) -> Collected {
        self.collected.remove(&key).unwrap_or_default()
    }

    /// What clients waited since this process began.
    pub(super) fn latencies(&self, key: Key) -> Option<&Histogram> {
        self.latencies.get(&key)
    }
}

fn open_ring(program: &Program) -> Result<Ring, Error> {
    Ok(Ring::open(&program.map("balance_epochs")?)?)
}

/// Epochs that were ended by a scan, by server and begin: the program sends them again at the next
/// packet. One for each slot of the table, at most: the program replaces connections without a
/// word.
#[derive(Debug, Default)]
struct EndedEpoch {
    epochs: HashSet<(u16, u64)>,
    by_slot: HashMap<u32, (u16, u64)>,
}

impl EndedEpoch {
    /// An epoch of the connection in this slot is over. `false`: that is known.
    fn add(&mut self, slot: u32, epoch: (u16, u64)) -> bool {
        if let Some(before) = self.by_slot.insert(slot, epoch)
            && before != epoch
        {
            self.epochs.remove(&before);
        }
        self.epochs.insert(epoch)
    }

    /// The program sends this epoch. Returns whether it was known.
    fn remove(&mut self, epoch: (u16, u64)) -> bool {
        self.epochs.remove(&epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_counts_once_and_is_remembered_once_a_slot() {
        let mut ended = EndedEpoch::default();
        assert!(ended.add(7, (1, 100)));
        assert!(!ended.add(7, (1, 100)));
        assert!(ended.remove((1, 100)), "the program sends it again");
        assert!(!ended.remove((1, 100)));
        for begin in 0..1000 {
            ended.add(7, (1, begin));
        }
        assert_eq!((ended.epochs.len(), ended.by_slot.len()), (1, 1));
    }
}
