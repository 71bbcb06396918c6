//! The ring that programs write events into.

use std::error::Error as StdError;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

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
    /// Readable when the program has woken the reader, until it looks. By libbpf's it would be for
    /// as long as events keep coming, after one wake-up.
    woken: Epoll,
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
        let buffer = Mutex::new(builder.build().map_err(failed)?);
        Ok(Self {
            buffer,
            woken: woken_of(map).map_err(|error| failed(std::io::Error::from(error).into()))?,
            inbox,
        })
    }

    /// Waits until the program wakes the reader, or has since [`Ring::read`]; at most `timeout`.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not tell.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let timeout = EpollTimeout::try_from(timeout).unwrap_or(EpollTimeout::MAX);
        match self.woken.wait(&mut [EpollEvent::empty()], timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(unreadable(std::io::Error::from(error))),
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
        // Before the events are taken: what comes meanwhile wakes the reader again.
        self.wait(Duration::ZERO)?;
        loop {
            let count = lock(&self.buffer).consume_raw_n(BATCH);
            if count < 0 {
                return Err(unreadable(std::io::Error::from_raw_os_error(-count)));
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

/// Readable when the program has woken the reader.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.0.as_fd()
    }
}

fn woken_of(map: &impl MapCore) -> nix::Result<Epoll> {
    let woken = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
    woken.add(map.as_fd(), EpollEvent::new(events, 0))?;
    Ok(woken)
}

fn unreadable(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::kernel("read the events from the kernel", error)
}
