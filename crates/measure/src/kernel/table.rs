//! A table of the kernel's whose memory this process shares: to read it takes no system call.

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

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
    #[expect(unsafe_code, reason = "std maps no memory")]
    pub(crate) fn open(map: &MapHandle) -> Result<Self, Error> {
        let entries = map.max_entries() as usize;
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
