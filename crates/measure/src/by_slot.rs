//! What is kept beside a table of flows: arrays by the number of a flow's slot, since to look a
//! flow up by its key takes a hash table of the same size again.

use crate::native::flow_key;

/// Slots of a piece: few flows take little memory, wherever their slots are.
const CHUNK: usize = 64;

/// What is kept of flows, by slot.
pub(crate) struct BySlot<T> {
    chunks: Vec<Option<Box<Chunk<T>>>>,
}

type Chunk<T> = [Option<Own<T>>; CHUNK];

/// What is kept of a flow.
pub(crate) struct Own<T> {
    pub(crate) key: flow_key,
    pub(crate) state: T,
}

impl<T> BySlot<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// The place of a slot. It may be another flow's, who had the slot before.
    pub(crate) fn at(&mut self, slot: u32) -> &mut Option<Own<T>> {
        let (chunk, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk =
            self.chunks[chunk].get_or_insert_with(|| Box::new(std::array::from_fn(|_| None)));
        &mut chunk[place]
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
        let place = self.at(slot);
        let gone = place.take_if(|own| own.key != *key || !is_own(&own.state));
        let own = place.get_or_insert_with(|| Own {
            key: *key,
            state: first(),
        });
        (&mut own.state, gone)
    }

    /// The places of all slots that have had a flow.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Option<Own<T>>> {
        self.chunks
            .iter_mut()
            .flatten()
            .flat_map(|chunk| chunk.iter_mut())
            .filter(|own| own.is_some())
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

    #[test]
    fn keeps_what_it_was_given_where_it_was_given() {
        let mut kept = BySlot::new();
        let key = |interface| flow_key {
            interface,
            ..flow_key::default()
        };
        for slot in [0, 63, 64, 100_000] {
            assert!(kept.at(slot).is_none());
            *kept.at(slot) = Some(Own {
                key: key(slot),
                state: slot,
            });
        }
        assert!(kept.at(65).is_none());
        let all: Vec<_> = kept.iter_mut().flatten().map(|own| own.state).collect();
        assert_eq!(all, [0, 63, 64, 100_000]);
        *kept.at(63) = None;
        assert_eq!(kept.iter_mut().count(), 3);
        assert_eq!(kept.at(64).as_ref().map(|own| own.key), Some(key(64)));
    }

    #[test]
    fn what_another_had_in_a_slot_is_given_back() {
        let mut kept = BySlot::new();
        let key = |interface| flow_key {
            interface,
            ..flow_key::default()
        };
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
