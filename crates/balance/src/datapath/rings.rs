//! Rings as they are written: which server stands at which entry, and which entries are settled.

use std::collections::{HashMap, HashSet};

use super::mapped_array::MappedArray;
use super::object::Program;
use super::plan::{Slot, assign_slots};
use super::tables::Services;
use crate::Error;
use crate::config::Config;
use crate::native::{
    BALANCE_ENTRY_IS_FRESH, BALANCE_ENTRY_IS_SETTLED, BALANCE_ENTRY_MARKS, BALANCE_NO_SERVER,
    BALANCE_RING_LANES, balance_connection, balance_ring_element, ring_entry,
};

/// The number of no server.
const NOBODY: u16 = BALANCE_NO_SERVER as u16;
/// The marks of an entry.
const SETTLED: u16 = BALANCE_ENTRY_IS_SETTLED as u16;
const FRESH: u16 = BALANCE_ENTRY_IS_FRESH as u16;
const MARKS: u16 = BALANCE_ENTRY_MARKS as u16;

/// The rings of all services of the configuration.
pub(super) struct Rings {
    table: MappedArray<balance_ring_element>,
    slots: Vec<Slot>,
    /// Of each, the entries that were not marked as settled when it was last gone through; none: it
    /// has been written since.
    marked: Vec<Option<HashSet<u32>>>,
}

impl Rings {
    pub(super) fn open(program: &Program) -> Result<Self, Error> {
        Ok(Self {
            table: MappedArray::new(program.map("balance_rings")?)?,
            slots: Vec::new(),
            marked: Vec::new(),
        })
    }

    /// Gives each service a slot; those that are there stay.
    pub(super) fn plan(&mut self, config: &Config, services: &Services) -> Result<(), Error> {
        let elements = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        let known = services.known()?;
        self.slots = assign_slots(config, &known, services.room(), elements)?;
        self.marked = vec![None; self.slots.len()];
        // What stood in new slots, and was settled, was of other services; nothing points there
        // yet.
        let is_new = |slot: &&Slot| !known.values().any(|known| known == *slot);
        for slot in self.slots.iter().filter(is_new) {
            self.change(slot, |_, _| 0);
        }
        Ok(())
    }

    /// Where services are in the tables.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The entries that each server has, by its number, in the ring of a service.
    pub(super) fn entries(&self, service: usize) -> HashMap<u16, u32> {
        let mut entries = HashMap::new();
        if let Some(slot) = self.slots.get(service) {
            for entry in 0..slot.ring_size {
                *entries.entry(self.server_at(slot, entry)).or_insert(0) += 1;
            }
        }
        entries
    }

    /// Writes the ring of a service: the number of the server for each entry; nobody's are those
    /// that are missing. Entries that change are not settled any more, by the same store.
    pub(super) fn write(&mut self, service: usize, numbers: &[u16]) {
        let Some(slot) = self.slots.get(service) else {
            return;
        };
        self.change(slot, |entry, before| {
            let number = numbers.get(entry as usize).copied().unwrap_or(NOBODY);
            if number == before & !MARKS {
                before
            } else {
                number | before & FRESH
            }
        });
        self.marked[service] = None;
    }

    /// Takes the marks from entries where something was opened, of services with these indexes:
    /// they are settled again if a scan finds them so.
    pub(super) fn take_fresh(&mut self, indexes: &HashSet<u16>) {
        for (service, slot) in self.slots.iter().enumerate() {
            let mut was_fresh = false;
            if indexes.contains(&slot.index) {
                self.change(slot, |_, before| {
                    let is_fresh = before & FRESH != 0;
                    was_fresh |= is_fresh;
                    if is_fresh { before & !MARKS } else { before }
                });
            }
            if was_fresh {
                self.marked[service] = None;
            }
        }
    }

    /// What finds the ring entry of a connection, and the server there.
    pub(super) fn finder(&self) -> impl Fn(&balance_connection) -> Option<(u32, u16)> {
        let by_index: HashMap<_, _> = self.slots.iter().map(|slot| (slot.index, slot)).collect();
        move |connection| {
            let slot = by_index.get(&connection.service)?;
            let entry = ring_entry(connection, slot.ring_size);
            Some((entry, self.server_at(slot, entry)))
        }
    }

    /// Marks the entries whose connections are all confirmed, and have the server that is there, so
    /// that the table of connections need not be asked for them. `strays` are all others, by the
    /// index of the service.
    pub(super) fn settle(&mut self, strays: &HashMap<u16, HashSet<u32>>) {
        let none = HashSet::new();
        for (service, slot) in self.slots.iter().enumerate() {
            let strays = strays.get(&slot.index).unwrap_or(&none);
            if self.marked[service].as_ref() == Some(strays) {
                continue;
            }
            let mut is_stray = vec![false; slot.ring_size as usize];
            for entry in strays {
                is_stray[*entry as usize] = true;
            }
            self.change(slot, |entry, before| {
                // The last element may have more lanes than there are entries.
                let is_stray = is_stray.get(entry as usize).copied().unwrap_or(true);
                let is_settled = before & !MARKS != NOBODY && !is_stray;
                before & !SETTLED | if is_settled { SETTLED } else { 0 }
            });
            self.marked[service] = Some(strays.clone());
        }
    }

    /// Gives each entry of a ring what `change` makes of it: from its index, and what it is now.
    /// Four are one store.
    fn change(&self, slot: &Slot, mut change: impl FnMut(u32, u16) -> u16) {
        for element in 0..slot.ring_size.div_ceil(BALANCE_RING_LANES) {
            let at = (slot.ring_begin + element) as usize;
            self.table.change_word(at, |before: balance_ring_element| {
                let mut entries = before.entries;
                for (lane, entry) in (0..).zip(&mut entries) {
                    *entry = change(element * BALANCE_RING_LANES + lane, *entry);
                }
                balance_ring_element { entries }
            });
        }
    }

    /// The number of the server at an entry.
    fn server_at(&self, slot: &Slot, entry: u32) -> u16 {
        let element = self
            .table
            .get((slot.ring_begin + entry / BALANCE_RING_LANES) as usize);
        element.entries[(entry % BALANCE_RING_LANES) as usize] & !MARKS
    }
}
