//! The flows of the reader of capture files: what `bpf/flow_table.bpf.h` is in the kernel.

use hashbrown::HashTable;

use crate::native::flow_key;

/// Flows are stored in pieces of so many, so that growing moves none.
const CHUNK: usize = 1024;
/// Entries looked at for one that is over, at each insertion: the whole table is seen twice before
/// it has grown to twice its size.
const SWEEP: usize = 2;
/// Steps of the clock's hand for a victim before the next entry is taken as it is.
const HAND_STEPS_MAX: usize = 64;

/// A seed that nobody can guess, and so aim packets at one bucket of a hash table.
pub fn secret() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// What is kept of a flow.
pub(crate) trait State: Default {
    /// Will it see no more packets, as of `now`, in nanoseconds?
    fn is_over(&self, now: u64) -> bool;
}

/// A flow and its slot in the table.
pub(crate) struct Entry<S> {
    pub(crate) key: flow_key,
    pub(crate) state: S,
    hash: u64,
    /// Seen since the hand passed: gets a second chance.
    is_referenced: bool,
    is_used: bool,
}

/// Why an entry had to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// It was idle for long, or closed.
    Over,
    /// The table was full.
    Evicted,
}

/// Flows by key, at most so many; the least recently used gives way (by the clock algorithm, which
/// writes nothing but a mark when a flow is used).
pub(crate) struct Table<S> {
    index: HashTable<u32>,
    chunks: Vec<Vec<Entry<S>>>,
    free: Vec<u32>,
    hand: usize,
    flows_max: usize,
}

impl<S: State> Table<S> {
    /// For `flows_max` flows.
    pub(crate) fn new(flows_max: usize) -> Self {
        Self {
            index: HashTable::new(),
            chunks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            flows_max: flows_max.max(1),
        }
    }

    fn slots(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// The flow in this slot, which `locate` told.
    pub(crate) fn entry(&mut self, slot: u32) -> &mut Entry<S> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Where the flow of this key is, if anywhere.
    pub(crate) fn locate(&self, key: &flow_key, hash: u64) -> Option<u32> {
        let is_it =
            |&slot: &u32| self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].key == *key;
        self.index.find(hash, is_it).copied()
    }

    /// Marks the flow as used.
    pub(crate) fn touch(&mut self, slot: u32) -> &mut Entry<S> {
        let entry = self.entry(slot);
        entry.is_referenced = true;
        entry
    }

    /// Adds a flow; `departed` hears of every flow that had to go.
    pub(crate) fn insert(
        &mut self,
        key: flow_key,
        hash: u64,
        state: S,
        now: u64,
        mut departed: impl FnMut(&mut Entry<S>, RemovalReason),
    ) -> u32 {
        for _ in 0..SWEEP.min(self.index.len()) {
            let slot = self.advance_hand();
            let entry = self.entry(slot);
            if entry.is_used && entry.state.is_over(now) {
                departed(entry, RemovalReason::Over);
                self.remove(slot);
            }
        }
        if self.index.len() >= self.flows_max {
            let victim = self.victim();
            departed(self.entry(victim), RemovalReason::Evicted);
            self.remove(victim);
        }
        let slot = self.put(Entry {
            key,
            state,
            hash,
            is_referenced: true,
            is_used: true,
        });
        let chunks = &self.chunks;
        let hash_of = |&slot: &u32| chunks[slot as usize / CHUNK][slot as usize % CHUNK].hash;
        self.index.insert_unique(hash, slot, hash_of);
        slot
    }

    fn put(&mut self, entry: Entry<S>) -> u32 {
        if let Some(slot) = self.free.pop() {
            *self.entry(slot) = entry;
            return slot;
        }
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let slot = self.slots() as u32;
        if let Some(last) = self.chunks.last_mut() {
            last.push(entry);
        }
        slot
    }

    fn advance_hand(&mut self) -> u32 {
        self.hand = if self.hand + 1 < self.slots() {
            self.hand + 1
        } else {
            0
        };
        self.hand as u32
    }

    fn victim(&mut self) -> u32 {
        for _ in 0..HAND_STEPS_MAX {
            let slot = self.advance_hand();
            let entry = self.entry(slot);
            if entry.is_used && !std::mem::take(&mut entry.is_referenced) {
                return slot;
            }
        }
        loop {
            let slot = self.advance_hand();
            if self.entry(slot).is_used {
                return slot;
            }
        }
    }

    /// Another flow each time, and all in turn; `None` where the turn is at an empty slot.
    pub(crate) fn next(&mut self) -> Option<&mut Entry<S>> {
        if self.chunks.is_empty() {
            return None;
        }
        let slot = self.advance_hand();
        Some(self.entry(slot)).filter(|entry| entry.is_used)
    }

    /// Removes the flow in this slot.
    pub(crate) fn remove(&mut self, slot: u32) -> S {
        let entry = self.entry(slot);
        let hash = entry.hash;
        entry.is_used = false;
        let state = std::mem::take(&mut entry.state);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        self.free.push(slot);
        state
    }

    /// All flows, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<S>> {
        self.iter_slots().map(|(_, entry)| entry)
    }

    /// All flows, and their slots.
    pub(crate) fn iter_slots(&self) -> impl Iterator<Item = (u32, &Entry<S>)> {
        let all = (0..).zip(self.chunks.iter().flatten());
        all.filter(|(_, entry)| entry.is_used)
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<S>> {
        self.chunks
            .iter_mut()
            .flatten()
            .filter(|entry| entry.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native;

    const IDLE_NS: u64 = 1000;

    /// When it was last seen.
    #[derive(Default)]
    struct Seen(u64);

    impl State for Seen {
        fn is_over(&self, now: u64) -> bool {
            now - self.0 > IDLE_NS
        }
    }

    fn key(number: u32) -> (flow_key, u64) {
        let key = flow_key {
            interface: number,
            ..flow_key::default()
        };
        (key, native::hash(&key, 7))
    }

    #[test]
    fn finds_what_was_inserted_and_forgets_what_was_removed() {
        let mut table = Table::new(10_000);
        for number in 0..5000 {
            let (key, hash) = key(number);
            table.insert(key, hash, Seen(0), 0, |_, _| panic!("nothing departs"));
        }
        for number in 0..5000 {
            let (key, hash) = key(number);
            let slot = table.locate(&key, hash).unwrap();
            assert_eq!(table.touch(slot).key, key);
        }
        let (gone, hash) = key(17);
        table.remove(table.locate(&gone, hash).unwrap());
        assert_eq!(table.locate(&gone, hash), None);
        assert_eq!(table.iter().count(), 4999);
    }

    #[test]
    fn a_full_table_keeps_the_flows_in_use() {
        let mut table = Table::new(1000);
        let mut evicted = 0;
        for number in 0..100_000 {
            let (active, hash) = key(number % 100);
            if let Some(slot) = table.locate(&active, hash) {
                table.touch(slot);
            } else {
                table.insert(active, hash, Seen(0), 0, |_, _| evicted += 1);
            }
            let (flood, hash) = key(1_000_000 + number);
            table.insert(flood, hash, Seen(0), 0, |_, why| {
                assert_eq!(why, RemovalReason::Evicted);
                evicted += 1;
            });
        }
        assert_eq!(table.iter().count(), 1000);
        let present = (0..100).filter(|&number| {
            let (active, hash) = key(number);
            table.locate(&active, hash).is_some()
        });
        assert!(present.count() >= 95);
        assert!(evicted > 99_000);
    }

    #[test]
    fn idle_flows_leave_by_themselves() {
        let mut table = Table::new(10_000);
        for number in 0..1000 {
            let (key, hash) = key(number);
            table.insert(key, hash, Seen(0), 0, |_, _| panic!("nothing departs"));
        }
        let mut over = 0;
        let now = IDLE_NS + 1;
        for number in 1000..3000 {
            let (key, hash) = key(number);
            table.insert(key, hash, Seen(now), now, |_, why| {
                assert_eq!(why, RemovalReason::Over);
                over += 1;
            });
        }
        assert_eq!(over, 1000);
    }
}
