//! What is kept beside a table of flows: arrays by the number of a flow's slot, since to look a
//! flow up by its key takes a hash table of the same size again.

use std::ops::Range;

use slab::Slab;

use crate::native::flow_key;

/// What is kept of flows, by slot. As many flows as there are take memory, wherever their slots
/// are.
pub(crate) struct BySlot<T> {
    /// By slot: where it is, counted from 1; 0: nothing is kept.
    places: Vec<u32>,
    kept: Slab<Own<T>>,
}

/// What is kept of a flow.
pub(crate) struct Own<T> {
    pub(crate) key: flow_key,
    pub(crate) state: T,
}

impl<T> BySlot<T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            kept: Slab::new(),
        }
    }

    /// What is kept of the flow in a slot. It may be another flow, which had the slot before.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Own<T>> {
        let place = self.places.get(slot as usize)?;
        self.kept.get_mut((*place as usize).checked_sub(1)?)
    }

    /// What is kept of a flow in its slot, which is made by `first` unless what is there is of this
    /// key and `is_own`; and what was there of another.
    pub(crate) fn claim(
        &mut self,
        slot: u32,
        key: &flow_key,
        is_own: impl FnOnce(&T) -> bool,
        first: impl FnOnce() -> T,
    ) -> (&mut T, Option<Own<T>>) {
        let slot = slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, 0);
        }
        let own = || Own {
            key: *key,
            state: first(),
        };
        let Some(place) = (self.places[slot] as usize).checked_sub(1) else {
            let entry = self.kept.vacant_entry();
            self.places[slot] = entry.key() as u32 + 1;
            return (&mut entry.insert(own()).state, None);
        };
        let kept = &mut self.kept[place];
        let is_others = kept.key != *key || !is_own(&kept.state);
        let gone = is_others.then(|| std::mem::replace(kept, own()));
        (&mut kept.state, gone)
    }

    /// Visits what is kept of flows in these slots. Where `is_kept` says no, nothing is kept any
    /// more.
    pub(crate) fn retain(
        &mut self,
        slots: Range<u32>,
        mut is_kept: impl FnMut(&mut Own<T>) -> bool,
    ) {
        let end = self.places.len().min(slots.end as usize);
        for slot in slots.start as usize..end {
            let place = (self.places[slot] as usize).checked_sub(1);
            if let Some(place) = place.filter(|place| !is_kept(&mut self.kept[*place])) {
                self.kept.remove(place);
                self.places[slot] = 0;
            }
        }
    }
}

/// A value of each slot, whichever flow has it.
#[derive(Debug, Default)]
#[cfg(feature = "live")]
pub(crate) struct PerSlot<T>(Vec<T>);

#[cfg(feature = "live")]
impl<T: Default> PerSlot<T> {
    pub(crate) fn at(&mut self, slot: u32) -> &mut T {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, T::default);
        }
        &mut self.0[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(interface: u32) -> flow_key {
        flow_key {
            interface,
            ..flow_key::default()
        }
    }

    #[test]
    fn keeps_what_it_was_given_where_it_was_given() {
        let mut kept = BySlot::new();
        for slot in [0, 63, 64, 100_000] {
            assert!(kept.get_mut(slot).is_none());
            kept.claim(slot, &key(slot), |_| true, || slot);
        }
        assert!(kept.get_mut(65).is_none());
        let mut all = Vec::new();
        kept.retain(0..u32::MAX, |own| {
            all.push(own.state);
            own.state != 63
        });
        assert_eq!(all, [0, 63, 64, 100_000]);
        assert!(kept.get_mut(63).is_none());
        all.clear();
        kept.retain(1..100_000, |own| {
            all.push(own.state);
            true
        });
        assert_eq!(all, [64]);
        assert_eq!(kept.get_mut(64).map(|own| own.key), Some(key(64)));
    }

    #[test]
    fn what_another_had_in_a_slot_is_given_back() {
        let mut kept = BySlot::new();
        let (own, gone) = kept.claim(5, &key(1), |_| true, || 10);
        *own += 1;
        assert!(gone.is_none());
        let (own, gone) = kept.claim(5, &key(1), |_| true, || 20);
        assert_eq!((*own, gone.is_none()), (11, true));
        let (own, gone) = kept.claim(5, &key(2), |_| true, || 20);
        assert_eq!((*own, gone.map(|gone| gone.state)), (20, Some(11)));
        let (own, gone) = kept.claim(5, &key(2), |own| *own == 21, || 30);
        assert_eq!((*own, gone.map(|gone| gone.state)), (30, Some(20)));
    }
}
