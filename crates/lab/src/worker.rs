//! Threads that end with their owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::{Error, Result};

/// How long a worker may take to notice that it should end.
pub(crate) const STOP_LATENCY: Duration = Duration::from_millis(20);

/// Has this thread run on one processor only.
///
/// # Errors
/// What the kernel says: there is no such processor, or this process may not use it.
pub fn stay_on(processor: usize) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &only)
}

/// Tells a worker to end.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the worker should end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps until `instant` or until told to end.
    pub fn sleep_until(&self, instant: Instant) {
        loop {
            let rest = instant.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.is_set() {
                return;
            }
            std::thread::sleep(rest.min(STOP_LATENCY));
        }
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A thread that is told to end, and waited for, when dropped.
///
/// # Examples
/// ```
/// let worker = fathom_lab::Worker::start("counter", |stop| (0_u64..).find(|_| stop.is_set()))?;
/// assert!(worker.finish().is_some());
/// # Ok::<(), fathom_lab::Error>(())
/// ```
#[derive(Debug)]
pub struct Worker<T> {
    stop: Stop,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Worker<T> {
    /// Runs `work` on a thread; it must look at its [`Stop`] at least every few tens of
    /// milliseconds.
    ///
    /// # Errors
    /// [`Error::Runtime`] when the system has no more threads.
    pub fn start(name: &str, work: impl FnOnce(&Stop) -> T + Send + 'static) -> Result<Self> {
        let stop = Stop::default();
        let its_stop = stop.clone();
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&its_stop))
            .map_err(|source| Error::runtime(format!("start the thread `{name}`"), source))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Whether it has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Tells it to end and returns its result; a panic of the work is passed on.
    pub fn finish(self) -> T {
        self.stop.set();
        self.join()
    }

    /// Waits until it ends by itself and returns its result; a panic of the work is passed on.
    ///
    /// # Panics
    /// When the work did.
    pub fn join(mut self) -> T {
        let thread = self.thread.take().expect("only join takes the thread");
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // Its panic was printed when it happened, and must not become one inside a drop.
            let _ = thread.join();
        }
    }
}
