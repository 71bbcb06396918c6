//! Rings as they are written: which server stands at which place, and which places are settled.

use std::collections::HashMap;
use std::time::Duration;

use fathom_measure::kernel::monotonic_ns;

use super::Live;
use super::mapped::Mapped;
use super::plan::Slot;
use crate::Error;
use crate::native::{
    BALANCE_NO_SERVER, BALANCE_PLACE_IS_FRESH, BALANCE_PLACE_IS_SETTLED, BALANCE_PLACE_MARKS,
    BALANCE_RING_LANES, balance_ring_element, ring_place,
};

/// The number of no server.
const NOBODY: u16 = BALANCE_NO_SERVER as u16;
/// The marks of a place.
const SETTLED: u16 = BALANCE_PLACE_IS_SETTLED as u16;
const FRESH: u16 = BALANCE_PLACE_IS_FRESH as u16;
const MARKS: u16 = BALANCE_PLACE_MARKS as u16;

impl Live {
    /// Makes room for a ring where nothing points to: what stood there, and was settled, was of another.
    pub(super) fn clear(&self, slot: &Slot) {
        for element in 0..slot.ring_size.div_ceil(BALANCE_RING_LANES) {
            let nobody = balance_ring_element::default();
            self.rings
                .set_word((slot.ring_begin + element) as usize, &nobody);
        }
    }

    /// The places that each server of the configuration has in the ring that a service had before.
    pub fn places(&self, service: usize) -> HashMap<usize, u32> {
        let mut places = HashMap::new();
        let Some(slot) = self.slots.get(service) else {
            return places;
        };
        let by_number: HashMap<_, _> = self
            .numbers
            .iter()
            .zip(0..)
            .map(|(number, index)| (*number, index))
            .collect();
        for place in 0..slot.ring_size {
            let number = place_of(&self.rings, slot, place) & !MARKS;
            if let Some(server) = by_number.get(&number) {
                *places.entry(*server).or_insert(0) += 1;
            }
        }
        places
    }

    /// Writes the ring of a service: for each place the server's index in the configuration; `None`: there is no server. Places that
    /// change are not settled any more, by the same store.
    pub fn write_ring(&mut self, service: usize, ring: Option<&[usize]>) {
        let number = |place: u32| match ring.and_then(|ring| ring.get(place as usize)) {
            Some(server) => self.number(*server).unwrap_or(NOBODY),
            None => NOBODY,
        };
        self.change_places(service, |place, before| {
            let number = number(place);
            if number == before & !MARKS {
                before
            } else {
                number | before & FRESH
            }
        });
        if let Some(marked) = self.marked.get_mut(service) {
            *marked = None;
        }
        self.flows.pace.need_whole();
    }

    /// Looks at what may have changed in the table of connections. Returns whether that was all of it: then the places of rings are marked whose connections
    /// are all confirmed, and have the server that is there, so that the table need not be asked for them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn look(&mut self, interval: Duration) -> Result<bool, Error> {
        self.flows.count()?;
        self.flows.look_at_busy(interval);
        let is_due = self.flows.pace.is_whole_due(monotonic_ns());
        if is_due {
            self.look_at_all();
        }
        Ok(is_due)
    }

    fn look_at_all(&mut self) {
        // First, so that what is opened while it looks is fresh after it.
        for service in 0..self.slots.len() {
            let index = self.slots[service].index;
            if self.flows.seen().services.contains(&index) {
                self.take_fresh(service);
            }
        }
        let mut by_index = vec![None; self.slots.len()];
        for slot in &self.slots {
            let index = usize::from(slot.index);
            by_index.resize(by_index.len().max(index + 1), None);
            by_index[index] = Some(slot);
        }
        let rings = &self.rings;
        self.flows.look_at_all(|connection| {
            let slot = (*by_index.get(usize::from(connection.service))?)?;
            let place = ring_place(connection, slot.ring_size);
            Some((place, place_of(rings, slot, place) & !MARKS))
        });
        for service in 0..self.slots.len() {
            self.mark(service);
        }
    }

    /// Takes the marks from places where something was opened: they are settled again if the look finds them so.
    fn take_fresh(&mut self, service: usize) {
        let mut was_fresh = false;
        self.change_places(service, |_, before| {
            let is_fresh = before & FRESH != 0;
            was_fresh |= is_fresh;
            if is_fresh { before & !MARKS } else { before }
        });
        if was_fresh {
            self.marked[service] = None;
        }
    }

    /// Marks the places of a ring, unless that has been done, and connections elsewhere have the same places as then.
    fn mark(&mut self, service: usize) {
        let slot = self.slots[service];
        let strays = self.flows.seen().strays.get(&slot.index);
        let strays = strays.cloned().unwrap_or_default();
        if self.marked[service].as_ref() == Some(&strays) {
            return;
        }
        let mut is_stray = vec![false; slot.ring_size as usize];
        for place in &strays {
            is_stray[*place as usize] = true;
        }
        self.change_places(service, |place, before| {
            // The last element may have more lanes than there are places.
            let is_stray = is_stray.get(place as usize).copied().unwrap_or(true);
            let is_settled = before & !MARKS != NOBODY && !is_stray;
            before & !SETTLED | if is_settled { SETTLED } else { 0 }
        });
        self.marked[service] = Some(strays);
    }

    /// Gives each place of a ring what `change` makes of it: from the place, and what it is now. Four are one store.
    fn change_places(&self, service: usize, mut change: impl FnMut(u32, u16) -> u16) {
        let Some(slot) = self.slots.get(service) else {
            return;
        };
        for element in 0..slot.ring_size.div_ceil(BALANCE_RING_LANES) {
            let at = (slot.ring_begin + element) as usize;
            self.rings.change_word(at, |before: balance_ring_element| {
                let mut places = before.places;
                for (lane, place) in (0..).zip(&mut places) {
                    *place = change(element * BALANCE_RING_LANES + lane, *place);
                }
                balance_ring_element { places }
            });
        }
    }
}

/// What stands at a place of a ring.
fn place_of(rings: &Mapped<balance_ring_element>, slot: &Slot, place: u32) -> u16 {
    let element = rings.get((slot.ring_begin + place / BALANCE_RING_LANES) as usize);
    element.places[(place % BALANCE_RING_LANES) as usize]
}
