//! Upkeep on a thread of its own: an hour of many records takes long to be put together, and others
//! come meanwhile.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use fathom_record::Time;

use super::upkeep::Upkeep;
use super::{Settings, Status};
use crate::Error;
use crate::layout::Layout;

/// The one who does it, and the thread while there is something to do.
pub(super) struct Beside {
    upkeep: Arc<Mutex<Upkeep>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    status: Arc<Mutex<Status>>,
    is_ending: Arc<AtomicBool>,
}

impl Beside {
    pub(super) fn new(layout: Layout, settings: Settings) -> Self {
        let status = Arc::<Mutex<Status>>::default();
        let is_ending = Arc::<AtomicBool>::default();
        let upkeep = Upkeep::new(layout, settings, status.clone(), is_ending.clone());
        Self {
            upkeep: Arc::new(Mutex::new(upkeep)),
            thread: None,
            status,
            is_ending,
        }
    }

    /// What was done of it so far.
    pub(super) fn status(&self) -> Status {
        *locked(&self.status)
    }

    /// Has the thread do what is due, unless it is still at it. Returns what came of the time
    /// before.
    pub(super) fn begin(&mut self, now: Time) -> Result<(), Error> {
        let thread = self.thread.as_ref();
        if thread.is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        let before = self.wait();
        let upkeep = self.upkeep.clone();
        let work = move || locked(&upkeep).do_all(now);
        match Builder::new().name("segments".to_owned()).spawn(work) {
            Ok(thread) => self.thread = Some(thread),
            // There are no threads left.
            Err(_) => locked(&self.upkeep).do_all(now)?,
        }
        before
    }

    /// Waits until the thread is done, and returns what came of it.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        let done = self.thread.take().map(JoinHandle::join);
        done.map_or(Ok(()), |done| {
            done.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// The same, but it leaves things as they are as soon as it can.
    pub(super) fn stop(&mut self) -> Result<(), Error> {
        self.is_ending.store(true, Ordering::Relaxed);
        let done = self.wait();
        self.is_ending.store(false, Ordering::Relaxed);
        match done {
            Err(Error::Ending) => Ok(()),
            done => done,
        }
    }

    /// The one who does it, once the thread is done.
    pub(super) fn settled(&mut self) -> Result<MutexGuard<'_, Upkeep>, Error> {
        self.wait()?;
        Ok(locked(&self.upkeep))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        // Nobody is left to be told of a failure.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
