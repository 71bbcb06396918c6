//! The flows of the reader of capture files: what the LRU map is in the kernel.

use hashbrown::HashTable;

use crate::native::{self, FlowState, flow_key, rtt_flow, rtt_pending};

/// Slots a flow starts with, of both directions together.
const FIRST_SLOTS: usize = 4;
/// Flows are stored in pieces of so many, so that growing moves none.
const CHUNK: usize = 1024;
/// Entries looked at for one that is idle, at each insertion: the whole table is seen twice before it has grown to twice its size.
const SWEEP: usize = 2;
/// Steps of the clock's hand for a victim before the next entry is taken as it is.
const HAND_STEPS_MAX: usize = 64;
/// A connection that both sides closed may still see a late packet; after this many nanoseconds it will not.
const CLOSED_NS: u64 = 10_000_000_000;
/// A flow without packets for this many nanoseconds is over.
const IDLE_NS: u64 = 300_000_000_000;

/// A flow and its place in the table.
pub(super) struct Entry {
    pub(super) key: flow_key,
    hash: u64,
    pub(super) flow: rtt_flow,
    slots: Box<[rtt_pending]>,
    /// Seen since the hand passed: gets a second chance.
    is_referenced: bool,
    is_used: bool,
}

impl Entry {
    /// What the algorithm works on.
    pub(super) fn state(&mut self) -> FlowState<'_> {
        FlowState {
            flow: &mut self.flow,
            slots: &mut self.slots,
        }
    }

    fn is_over(&self, now: u64) -> bool {
        let idle = now.saturating_sub(self.flow.last_seen);
        idle > IDLE_NS || (self.is_closed() && idle > CLOSED_NS)
    }

    /// Did both ends close it, or one abort it?
    pub(super) fn is_closed(&self) -> bool {
        u32::from(self.flow.flags) & native::RTT_FLOW_IS_CLOSED != 0
    }
}

/// Why an entry had to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// It was idle for long, or closed.
    Over,
    /// The table was full.
    Evicted,
}

/// Flows by key, at most so many; the least recently used gives way (by the clock algorithm, which writes nothing but a mark when a flow is
/// used).
pub(super) struct Table {
    index: HashTable<u32>,
    chunks: Vec<Vec<Entry>>,
    free: Vec<u32>,
    hand: usize,
    flows_max: usize,
    slots_max: usize,
    /// Slots that all flows together may still grow by.
    slots_left: usize,
}

impl Table {
    /// For `flows_max` flows, each of at most `slots_max` slots a direction.
    pub(super) fn new(flows_max: usize, slots_max: usize) -> Self {
        Self {
            index: HashTable::new(),
            chunks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            flows_max: flows_max.max(1),
            slots_max: slots_max.max(1) * 2,
            slots_left: 8 << 20,
        }
    }

    fn len(&self) -> usize {
        self.chunks
            .last()
            .map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// The flow at this place, which `locate` told.
    pub(super) fn entry(&mut self, place: u32) -> &mut Entry {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }

    /// Where the flow of this key is, if anywhere.
    pub(super) fn locate(&self, key: &flow_key, hash: u64) -> Option<u32> {
        let is_it =
            |&place: &u32| self.chunks[place as usize / CHUNK][place as usize % CHUNK].key == *key;
        self.index.find(hash, is_it).copied()
    }

    /// Marks the flow as used, and makes room for one more pending packet in `direction` if there may be more.
    pub(super) fn touch(&mut self, place: u32, direction: u8) -> &mut Entry {
        let (slots_max, slots_left) = (self.slots_max, self.slots_left);
        let entry = self.entry(place);
        entry.is_referenced = true;
        let half = &entry.flow.half[usize::from(direction & 1)];
        let pending = half.newest.wrapping_sub(half.oldest) as usize;
        let slots = entry.slots.len();
        if pending * 2 >= slots && slots < slots_max && slots <= slots_left {
            entry.slots = native::grown(&entry.flow, &entry.slots);
            self.slots_left -= slots;
        }
        self.entry(place)
    }

    /// Adds a zeroed flow; `departed` hears of every flow that had to go.
    pub(super) fn insert(
        &mut self,
        key: flow_key,
        hash: u64,
        now: u64,
        mut departed: impl FnMut(&Entry, Departure),
    ) -> &mut Entry {
        for _ in 0..SWEEP.min(self.index.len()) {
            let place = self.advance_hand();
            let entry = self.entry(place);
            if entry.is_used && entry.is_over(now) {
                departed(entry, Departure::Over);
                self.remove(place);
            }
        }
        if self.index.len() >= self.flows_max {
            let victim = self.victim();
            departed(self.entry(victim), Departure::Evicted);
            self.remove(victim);
        }
        let entry = Entry {
            key,
            hash,
            flow: rtt_flow::default(),
            slots: vec![rtt_pending::default(); FIRST_SLOTS.min(self.slots_max)].into_boxed_slice(),
            is_referenced: true,
            is_used: true,
        };
        let place = self.place(entry);
        let chunks = &self.chunks;
        let hash_of = |&place: &u32| chunks[place as usize / CHUNK][place as usize % CHUNK].hash;
        self.index.insert_unique(hash, place, hash_of);
        self.entry(place)
    }

    fn place(&mut self, entry: Entry) -> u32 {
        if let Some(place) = self.free.pop() {
            *self.entry(place) = entry;
            return place;
        }
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let place = self.len() as u32;
        if let Some(last) = self.chunks.last_mut() {
            last.push(entry);
        }
        place
    }

    fn advance_hand(&mut self) -> u32 {
        self.hand = if self.hand + 1 < self.len() {
            self.hand + 1
        } else {
            0
        };
        self.hand as u32
    }

    fn victim(&mut self) -> u32 {
        for _ in 0..HAND_STEPS_MAX {
            let place = self.advance_hand();
            let entry = self.entry(place);
            if entry.is_used && !std::mem::take(&mut entry.is_referenced) {
                return place;
            }
        }
        loop {
            let place = self.advance_hand();
            if self.entry(place).is_used {
                return place;
            }
        }
    }

    /// Removes the flow at this place.
    pub(super) fn remove(&mut self, place: u32) {
        let entry = self.entry(place);
        let hash = entry.hash;
        let grown = entry.slots.len() - FIRST_SLOTS.min(entry.slots.len());
        entry.is_used = false;
        entry.slots = Box::default();
        self.slots_left += grown;
        if let Ok(found) = self.index.find_entry(hash, |&other| other == place) {
            found.remove();
        }
        self.free.push(place);
    }

    /// All flows, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten().filter(|entry| entry.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> (flow_key, u64) {
        let key = flow_key {
            interface: number,
            ..flow_key::default()
        };
        (key, native::hash(&key, 7))
    }

    #[test]
    fn finds_what_was_inserted_and_forgets_what_was_removed() {
        let mut table = Table::new(10_000, 4);
        for number in 0..5000 {
            let (key, hash) = key(number);
            table.insert(key, hash, 0, |_, _| panic!("nothing departs"));
        }
        for number in 0..5000 {
            let (key, hash) = key(number);
            let place = table.locate(&key, hash).unwrap();
            assert_eq!(table.touch(place, 0).key, key);
        }
        let (gone, hash) = key(17);
        table.remove(table.locate(&gone, hash).unwrap());
        assert_eq!(table.locate(&gone, hash), None);
        assert_eq!(table.iter().count(), 4999);
    }

    #[test]
    fn a_full_table_keeps_the_flows_in_use() {
        let mut table = Table::new(1000, 4);
        let mut evicted = 0;
        for number in 0..100_000 {
            let (active, hash) = key(number % 100);
            if let Some(place) = table.locate(&active, hash) {
                table.touch(place, 0);
            } else {
                table.insert(active, hash, 0, |_, _| evicted += 1);
            }
            let (flood, hash) = key(1_000_000 + number);
            table.insert(flood, hash, 0, |_, why| {
                assert_eq!(why, Departure::Evicted);
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
        let mut table = Table::new(10_000, 4);
        for number in 0..1000 {
            let (key, hash) = key(number);
            table.insert(key, hash, 0, |_, _| panic!("nothing departs"));
        }
        let mut over = 0;
        for number in 1000..3000 {
            let (key, hash) = key(number);
            table
                .insert(key, hash, IDLE_NS + 1, |_, why| {
                    assert_eq!(why, Departure::Over);
                    over += 1;
                })
                .flow
                .last_seen = IDLE_NS + 1;
        }
        assert_eq!(over, 1000);
    }
}
