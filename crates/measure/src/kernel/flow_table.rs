//! The table of flows in the kernel (`bpf/flow_table.bpf.h`): how large it is, reading it, and
//! freeing slots.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libbpf_rs::{Object, OpenObject};

use super::table::Entries;
use super::{Table, map, set_constants};
use crate::bytes::bytes_of;
use crate::native::{
    FLOW_BUCKET_SLOTS, FLOW_WORD_FLAGS, FLOW_WORD_IS_BUSY, FLOW_WORD_MEASUREMENTS, flow_bucket,
    flow_table,
};
use crate::table::secret;
use crate::{Error, Portion};

/// Flows that are visited before others have their turn.
const AT_A_TIME: u32 = 512;

/// Sets the table up before the load, with room for so many flows, and the arrays of `states`,
/// where measurements keep so many bytes of each.
///
/// # Errors
/// [`Error::Kernel`] when it cannot be set.
pub(super) fn size_flow_table(
    object: &mut OpenObject,
    flows: u32,
    states: &[(String, usize)],
) -> Result<(), Error> {
    // An eighth more slots than flows: else more than one in 500 would find both buckets full.
    let bucket_count = (flows + flows / 8).div_ceil(FLOW_BUCKET_SLOTS);
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match name.as_str() {
            "flow_buckets" => bucket_count,
            "flow_keys" => bucket_count * FLOW_BUCKET_SLOTS,
            name => {
                let Some((_, state_bytes)) = states.iter().find(|(states, _)| states == name)
                else {
                    continue;
                };
                map.set_value_size(*state_bytes as u32)
                    .map_err(|error| Error::kernel("set the table of flows up", error))?;
                bucket_count * FLOW_BUCKET_SLOTS
            }
        };
        map.set_max_entries(entries)
            .map_err(|error| Error::kernel("set the table of flows up", error))?;
    }
    let table = flow_table {
        keys: std::array::from_fn(|_| secret() as u32),
        bucket_count,
    };
    set_constants(object, &[(".rodata.flow_table", bytes_of(&table))])
}

/// The table of flows of loaded programs, and what a measurement keeps of them.
#[derive(Debug)]
pub struct FlowTable {
    buckets: Table<flow_bucket>,
    keys: Entries,
    states: Entries,
    /// Set in the words of slots that the measurement has something of.
    state_bit: u64,
}

/// A slot that was in use when it was looked at.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    index: u32,
    word: u64,
}

impl Slot {
    /// Its number.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

impl FlowTable {
    /// The table of these programs, and what a measurement keeps of flows in the array called
    /// `states`, which slots tell by `state_bit`.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is none.
    pub fn open(programs: &Object, states: &str, state_bit: u64) -> Result<Self, Error> {
        Ok(Self {
            buckets: Table::open(&map(programs, "flow_buckets")?)?,
            keys: Entries::open(&map(programs, "flow_keys")?)?,
            states: Entries::open(&map(programs, states)?)?,
            state_bit,
        })
    }

    /// How many flows were driven out: those that were opened, not deleted, and are not there. What
    /// was counted is to be read before: flows that are opened in between make the number too
    /// small, never too large.
    pub(crate) fn evicted(&self, opened: u64, deleted: u64) -> u64 {
        opened.saturating_sub(deleted + self.slots(Portion::ALL).count() as u64)
    }

    /// The numbers of a portion of all slots.
    pub(crate) fn numbers(&self, portion: Portion) -> Range<u32> {
        portion.of(self.keys.count())
    }

    /// Calls `visit` for every flow of the measurement in a portion: the bytes of its key, and of
    /// what is kept of it. The order means nothing, and flows that come or go meanwhile may or may
    /// not be among them. Now and then comes `between`: for those who must not be away for long.
    ///
    /// # Errors
    /// Those of `between`.
    pub fn for_each(
        &self,
        portion: Portion,
        mut visit: impl FnMut(&[u8], Slot, &[u8]),
        mut between: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut key, mut state) = (Vec::new(), Vec::new());
        let mut visited = 0;
        for slot in self.slots(portion) {
            self.keys.copy(slot.index, &mut key);
            self.states.copy(slot.index, &mut state);
            // A slot that another flow has got meanwhile has a key or a state that is not its own.
            fence(Ordering::Acquire);
            if self.is_same(slot) {
                visit(&key, slot, &state);
            }
            visited += 1;
            if visited % AT_A_TIME == 0 {
                between()?;
            }
        }
        between()
    }

    /// Four bytes of what is kept of the flow in a slot, as they are now; what is read later is not
    /// older.
    ///
    /// # Panics
    /// When they are not within it, or not aligned.
    pub(crate) fn state_word(&self, slot: Slot, offset: usize) -> u32 {
        self.states.word(slot.index, offset)
    }

    /// The measurement forgets a flow, unless its slot is another flow's by now. Whether it did.
    /// The slot is free if no measurement has anything of the flow.
    pub fn free(&self, slot: Slot) -> bool {
        let in_use = u64::from(FLOW_WORD_MEASUREMENTS | FLOW_WORD_IS_BUSY);
        let freed = |word| {
            let left = word & !self.state_bit;
            let is_own = self.is_of_one_flow(word, slot.word);
            is_own.then_some(if left & in_use == 0 { 0 } else { left })
        };
        let word = self.word(slot.index);
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, freed)
            .is_ok()
    }

    /// Has the flow its slot still?
    fn is_same(&self, slot: Slot) -> bool {
        self.is_of_one_flow(self.word(slot.index).load(Ordering::Acquire), slot.word)
    }

    /// The slots of a portion that are in use.
    fn slots(&self, portion: Portion) -> impl Iterator<Item = Slot> {
        let slots = self.numbers(portion).map(|index| Slot {
            index,
            word: self.word(index).load(Ordering::Acquire),
        });
        slots.filter(|slot| slot.word & self.state_bit != 0)
    }

    /// Are these words of one flow of the measurement?
    fn is_of_one_flow(&self, one: u64, other: u64) -> bool {
        (one ^ other) & (self.state_bit | !u64::from(FLOW_WORD_FLAGS)) == 0
    }

    #[expect(unsafe_code, reason = "the memory is shared with the kernel")]
    fn word(&self, slot: u32) -> &AtomicU64 {
        let bucket = self.buckets.entry((slot / FLOW_BUCKET_SLOTS) as usize);
        let words = bucket.cast::<u64>();
        // SAFETY: within the bucket, which is mapped as long as this lives, and whose words are
        // written atomically by the kernel, too.
        unsafe { AtomicU64::from_ptr(words.add((slot % FLOW_BUCKET_SLOTS) as usize)) }
    }
}
