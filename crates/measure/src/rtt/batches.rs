//! Samples that wait in the kernel until there are many, or until an interval ends.

use std::mem::{offset_of, size_of};

use crate::by_slot::PerSlot;
use crate::kernel::{FlowTable, Slot};
use crate::rtt::native::{
    RTT_BATCH_MASK, RTT_BATCH_SAMPLES, RTT_BATCH_SHIFT, rtt_batch, rtt_batches, rtt_flow,
    rtt_pending,
};

/// A batch that is replaced by the next one while it is read comes through the ring: so often is it
/// tried to read the next one.
const TRIES: usize = 4;

/// What was read of the batches of a direction of a slot: the counts of the last two that were read
/// before they were full. Such a batch comes again when it is full, or when its flow ends.
#[derive(Debug, Clone, Copy, Default)]
struct Read([u32; 2]);

impl Read {
    /// How many of this batch had been read before.
    fn of(self, count: u32) -> usize {
        let is_same = |read: &&u32| **read >> RTT_BATCH_SHIFT == count >> RTT_BATCH_SHIFT;
        let read = self.0.iter().filter(is_same).map(|read| samples_in(*read));
        read.max().unwrap_or(0)
    }

    /// All that this count says have been read.
    fn note(&mut self, count: u32) {
        if self.0[1] >> RTT_BATCH_SHIFT != count >> RTT_BATCH_SHIFT {
            self.0[0] = self.0[1];
        }
        self.0[1] = count;
    }
}

fn samples_in(count: u32) -> usize {
    (count & RTT_BATCH_MASK) as usize
}

/// Hands on each sample of the batches once, whether it comes through the ring or is read before.
#[derive(Debug)]
pub(super) struct Batches {
    /// By direction.
    read: PerSlot<[Read; 2]>,
    /// Where they are in what is kept of a flow.
    offset: usize,
}

impl Batches {
    /// Of flows with so many entries of pending packets.
    pub(super) fn new(pending_entries: usize) -> Self {
        Self {
            read: PerSlot::default(),
            offset: size_of::<rtt_flow>() + pending_entries * size_of::<rtt_pending>(),
        }
    }

    fn read_of(&mut self, slot: u32, direction: u8) -> &mut Read {
        &mut self.read.at(slot)[usize::from(direction)]
    }

    /// Of a batch that came through the ring, those samples that had not been read.
    pub(super) fn rest<'a>(&mut self, slot: u32, direction: u8, batch: &'a rtt_batch) -> &'a [u32] {
        let before = self.read_of(slot, direction).of(batch.count);
        batch
            .samples
            .get(before..samples_in(batch.count))
            .unwrap_or_default()
    }

    /// What has come of a flow, and did not before, since there is too little of it for the ring.
    /// To be called after what is in the ring was handed on.
    pub(super) fn read(&mut self, flows: &FlowTable, slot: Slot, mut take: impl FnMut(u8, &[u32])) {
        let offset = self.offset;
        for direction in 0..2 {
            let own = self.read_of(slot.index(), direction);
            if let Some((count, samples)) = read_batch(flows, slot, offset, direction) {
                let new = samples
                    .get(own.of(count)..samples_in(count))
                    .unwrap_or_default();
                if !new.is_empty() {
                    own.note(count);
                    take(direction, new);
                }
            }
        }
    }
}

/// A batch as it is now; `None` if it is another one again and again.
fn read_batch(
    flows: &FlowTable,
    slot: Slot,
    offset: usize,
    direction: u8,
) -> Option<(u32, [u32; RTT_BATCH_SAMPLES as usize])> {
    let batches = offset + offset_of!(rtt_batches, half);
    let own = batches + usize::from(direction) * size_of::<rtt_batch>();
    let samples_at = own + offset_of!(rtt_batch, samples);
    for _ in 0..TRIES {
        let count = flows.state_word(slot, own + offset_of!(rtt_batch, count));
        let samples =
            std::array::from_fn(|at| flows.state_word(slot, samples_at + at * size_of::<u32>()));
        let after = flows.state_word(slot, own + offset_of!(rtt_batch, count));
        if count >> RTT_BATCH_SHIFT == after >> RTT_BATCH_SHIFT {
            return Some((count, samples));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(number: u32, samples: &[u32]) -> rtt_batch {
        let mut batch = rtt_batch {
            count: number << RTT_BATCH_SHIFT | samples.len() as u32,
            ..rtt_batch::default()
        };
        batch.samples[..samples.len()].copy_from_slice(samples);
        batch
    }

    #[test]
    fn a_sample_is_handed_on_once() {
        let all: Vec<u32> = (1..=15).collect();
        let mut batches = Batches::new(16);
        assert_eq!(batches.rest(70_000, 1, &batch(3, &all)), all);
        // Read at the end of two intervals, then full.
        batches.read_of(5, 0).note(batch(1, &all[..4]).count);
        batches.read_of(5, 0).note(batch(1, &all[..9]).count);
        assert_eq!(batches.rest(5, 0, &batch(1, &all)), &all[9..]);
        assert_eq!(
            batches.rest(5, 1, &batch(1, &all)),
            all,
            "the other direction"
        );
        // The next one is read before the one that was full is out of the ring.
        batches.read_of(5, 0).note(batch(2, &all[..2]).count);
        assert_eq!(batches.rest(5, 0, &batch(1, &all)), &all[9..]);
        assert_eq!(batches.rest(5, 0, &batch(2, &all)), &all[2..]);
        // A flow ends before its batch is full.
        assert_eq!(batches.rest(5, 0, &batch(2, &all[..3])), &all[2..3]);
        assert!(batches.rest(5, 0, &batch(2, &all[..2])).is_empty());
    }
}
