//! A table of the kernel's whose memory this process shares: to read it takes no system call.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{MapCore as _, MapHandle};

use crate::Error;

/// An array map with `BPF_F_MMAPABLE`, mapped into this process.
#[derive(Debug)]
pub(crate) struct Table<T> {
    start: NonNull<T>,
    entries: usize,
}

impl<T> Table<T> {
    /// Maps a map, all its entries.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it cannot be mapped.
    pub(crate) fn open(map: &MapHandle) -> Result<Self, Error> {
        Self::of_length(map, map.max_entries() as usize)
    }

    #[expect(unsafe_code, reason = "std maps no memory")]
    fn of_length(map: &MapHandle, entries: usize) -> Result<Self, Error> {
        // SAFETY: a new mapping, which the kernel keeps within the map, whose entries follow each
        // other.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                Self::length(entries),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let is_mapped = start != libc::MAP_FAILED;
        let start = NonNull::new(start.cast()).filter(|_| is_mapped);
        start.map(|start| Self { start, entries }).ok_or_else(|| {
            let cause = std::io::Error::last_os_error();
            let name = map.name().to_string_lossy();
            Error::kernel(format!("share the map {name}"), cause)
        })
    }

    /// An entry. The kernel reads and writes it meanwhile: to be used by volatile reads and writes
    /// of whole words.
    ///
    /// # Panics
    /// When the table is shorter.
    pub(crate) fn entry(&self, place: usize) -> *mut T {
        assert!(place < self.entries);
        self.start.as_ptr().wrapping_add(place)
    }

    /// Copies all entries. One that the kernel writes to meanwhile may be half of each.
    ///
    /// # Panics
    /// When `to` has not as many.
    #[expect(unsafe_code, reason = "the memory is shared with the kernel")]
    pub(crate) fn copy(&self, to: &mut [T])
    where
        T: Copy,
    {
        assert_eq!(to.len(), self.entries);
        // SAFETY: both have so many entries; they hold only integers, for which any bytes are
        // valid.
        unsafe {
            self.start
                .copy_to_nonoverlapping(NonNull::from(to).cast(), self.entries);
        }
    }

    /// A whole number of pages, as the kernel maps it.
    fn length(entries: usize) -> usize {
        (entries * size_of::<T>()).next_multiple_of(4096)
    }
}

impl<T> Drop for Table<T> {
    #[expect(unsafe_code, reason = "std maps no memory")]
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's alone.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), Self::length(self.entries));
        }
    }
}

/// The same, whose entries have the size that the map has.
#[derive(Debug)]
pub(crate) struct Entries {
    bytes: Table<u8>,
    /// Of an entry.
    size: usize,
    /// From one to the next.
    stride: usize,
    count: u32,
}

impl Entries {
    /// Maps a map, all its entries.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub(crate) fn open(map: &MapHandle) -> Result<Self, Error> {
        let size = map.value_size() as usize;
        // As the kernel aligns them.
        let stride = size.next_multiple_of(8);
        let count = map.max_entries();
        Ok(Self {
            bytes: Table::of_length(map, count as usize * stride)?,
            size,
            stride,
            count,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Four bytes of an entry. What is read later is not older.
    ///
    /// # Panics
    /// When they are not within an entry, or not aligned.
    #[expect(unsafe_code, reason = "the memory is shared with the kernel")]
    pub(crate) fn word(&self, index: u32, offset: usize) -> u32 {
        assert!(index < self.count && offset + 4 <= self.size && offset.is_multiple_of(4));
        let entry = self.bytes.entry(index as usize * self.stride + offset);
        // SAFETY: within the mapping, and aligned, since entries are; the kernel may write to it.
        unsafe { AtomicU32::from_ptr(entry.cast()).load(Ordering::Acquire) }
    }

    /// Copies an entry. If the kernel writes to it meanwhile, it may be half of each.
    ///
    /// # Panics
    /// When there are fewer.
    #[expect(unsafe_code, reason = "the memory is shared with the kernel")]
    pub(crate) fn copy(&self, index: u32, to: &mut Vec<u8>) {
        assert!(index < self.count);
        let entry = self.bytes.entry(index as usize * self.stride);
        to.clear();
        to.reserve(self.size);
        // SAFETY: an entry is within the table, and has so many bytes; there is room for them.
        unsafe {
            entry.copy_to_nonoverlapping(to.as_mut_ptr(), self.size);
            to.set_len(self.size);
        }
    }
}
