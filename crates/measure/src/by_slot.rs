//! What is kept beside a table of flows: an array by the number of a flow's slot, since to look a
//! flow up by its key takes a hash table of the same size again.

use crate::native::flow_key;

/// Slots of a piece: few flows take little memory, wherever their slots are.
const CHUNK: usize = 64;

/// By slot.
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

    /// The places of all slots that have had a flow.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Option<Own<T>>> {
        self.chunks
            .iter_mut()
            .flatten()
            .flat_map(|chunk| chunk.iter_mut())
            .filter(|own| own.is_some())
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
}
