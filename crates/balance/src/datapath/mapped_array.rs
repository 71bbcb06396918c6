//! Tables of the kernel in this process's memory.

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_measure::bytes::{bytes_of, read_prefix};
use libbpf_rs::{MapCore, MapHandle};
use memmap2::{MmapOptions, MmapRaw};

use crate::Error;

/// An array that programs in the kernel read and write at the same time. Its elements are of whole
/// words, and are copied word by word.
pub(super) struct MappedArray<T> {
    memory: MmapRaw,
    length: usize,
    element: PhantomData<T>,
    _map: MapHandle,
}

impl<T: Copy> MappedArray<T> {
    const WORDS: usize = size_of::<T>() / 8;

    /// Maps it.
    pub(super) fn new(map: MapHandle) -> Result<Self, Error> {
        const { assert!(size_of::<T>().is_multiple_of(8) && size_of::<T>() > 0) };
        let length = map.max_entries() as usize;
        let name = map.name().to_string_lossy().into_owned();
        // The kernel refuses what is longer than the table.
        let memory = MmapOptions::new()
            .len(length * size_of::<T>())
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|error| Error::kernel(format!("map the table {name}"), error))?;
        Ok(Self {
            memory,
            length,
            element: PhantomData,
            _map: map,
        })
    }

    /// Elements.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    #[expect(unsafe_code, reason = "points into the mapping")]
    #[expect(clippy::cast_ptr_alignment, reason = "it begins with a page")]
    fn words(&self, index: usize) -> &[AtomicU64] {
        assert!(index < self.length);
        let words = self.memory.as_ptr().cast::<AtomicU64>();
        // SAFETY: within the mapping, which is aligned to a page; others change it by stores of
        // words only.
        unsafe { std::slice::from_raw_parts(words.add(index * Self::WORDS), Self::WORDS) }
    }

    /// A copy of an element; its words may be of different times.
    #[expect(unsafe_code, reason = "shares structs with the kernel")]
    pub(super) fn get(&self, index: usize) -> T {
        let mut value = std::mem::MaybeUninit::<T>::uninit();
        for (at, word) in self.words(index).iter().enumerate() {
            // SAFETY: the struct has so many words, but need not be aligned to them.
            unsafe {
                value
                    .as_mut_ptr()
                    .cast::<u64>()
                    .add(at)
                    .write_unaligned(word.load(Ordering::Relaxed));
            }
        }
        // SAFETY: all of it is written; the generated structs hold only integers.
        unsafe { value.assume_init() }
    }

    /// A word of an element.
    pub(super) fn word(&self, index: usize, at: usize) -> u64 {
        self.words(index)[at].load(Ordering::Relaxed)
    }

    /// Writes an element word by word, in this order of words; those that stay as they are, are
    /// left alone.
    #[expect(unsafe_code, reason = "shares structs with the kernel")]
    pub(super) fn set(&self, index: usize, value: &T, order: impl IntoIterator<Item = usize>) {
        let words = self.words(index);
        for at in order {
            // SAFETY: within the struct, which need not be aligned to words.
            let word = unsafe {
                std::ptr::from_ref(value)
                    .cast::<u64>()
                    .add(at)
                    .read_unaligned()
            };
            if words[at].load(Ordering::Relaxed) != word {
                words[at].store(word, Ordering::Release);
            }
        }
    }

    /// Makes something else of an element of one word, of whatever is there at that moment.
    pub(super) fn change_word(&self, index: usize, mut change: impl FnMut(T) -> T) {
        const { assert!(size_of::<T>() == size_of::<u64>()) };
        let word = &self.words(index)[0];
        let mut before = word.load(Ordering::Acquire);
        loop {
            let Some((element, _)) = read_prefix::<T>(&before.to_ne_bytes()) else {
                return;
            };
            let changed = change(element);
            let Some((after, _)) = read_prefix::<u64>(bytes_of(&changed)) else {
                return;
            };
            if after == before {
                return;
            }
            match word.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) => before = found,
            }
        }
    }

    /// Writes an element of one word.
    pub(super) fn set_word(&self, index: usize, value: &T) {
        self.set(index, value, 0..Self::WORDS);
    }
}
