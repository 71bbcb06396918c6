//! The ring that programs write events into.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

use crate::Error;

/// Events that are taken out of a ring at a time: so many stay in the processor's cache until they
/// are handed on.
const BATCH: usize = 64;
/// What was taken out and not handed on takes no more memory.
const MOST_BYTES: usize = 64 << 20;

/// A ring, to be read by this process, in any of its threads. To be dropped before its map.
#[derive(Debug)]
pub struct Ring {
    buffer: Mutex<RingBuffer<'static>>,
    events: RawFd,
    inbox: Arc<Mutex<Vec<u8>>>,
}

/// What is in it is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// Opens the ring that is this map.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it is none.
    pub fn open(map: &impl MapCore) -> Result<Self, Error> {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("open the ring {name}"), error);
        let inbox = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&inbox);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |event| {
                lock(&into).extend_from_slice(event);
                0
            })
            .map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Self {
            events: ring.epoll_fd(),
            buffer: Mutex::new(ring),
            inbox,
        })
    }

    /// Waits at most `timeout` for events, and takes them out of the ring.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        match lock(&self.buffer).poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                Err(unreadable(error))
            }
            _ => Ok(()),
        }
    }

    /// Takes what is in the ring out of it, to be handed on later: as long as that is not too much.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn collect(&self) -> Result<(), Error> {
        let ring = lock(&self.buffer);
        if lock(&self.inbox).len() > MOST_BYTES {
            return Ok(());
        }
        ring.consume().map_err(unreadable)
    }

    /// Hands on all events that have come and were not handed on, some at a time, one behind the
    /// other.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn read(&self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            let count = lock(&self.buffer).consume_raw_n(BATCH);
            if count < 0 {
                let error = std::io::Error::from_raw_os_error(-count);
                return Err(Error::kernel("read the events from the kernel", error));
            }
            let mut inbox = lock(&self.inbox);
            take(&inbox);
            inbox.clear();
            if count == 0 {
                return Ok(());
            }
        }
    }
}

/// Readable while there are events.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[expect(unsafe_code, reason = "the library gives a number")]
        // SAFETY: it stays open for as long as the ring lives.
        unsafe {
            BorrowedFd::borrow_raw(self.events)
        }
    }
}

fn unreadable(error: libbpf_rs::Error) -> Error {
    Error::kernel("read the events from the kernel", error)
}
