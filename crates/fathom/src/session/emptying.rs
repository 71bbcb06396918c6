//! Rings while nobody polls what fills them, since something takes long.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fathom_measure::kernel::Ring;

/// A ring takes some ten times as long to fill.
const PERIOD: Duration = Duration::from_millis(10);

/// A thread that takes out of rings what comes into them, until this is dropped. Who polls next
/// hands it on.
pub(crate) struct Emptying {
    rings: Arc<Mutex<Vec<Arc<Ring>>>>,
    /// `None`: it is to end.
    goes_on: Option<Sender<()>>,
    /// `None`: the system has no thread left. Rings wait then.
    thread: Option<JoinHandle<()>>,
}

impl Emptying {
    /// Begins, with no ring yet.
    pub(crate) fn start() -> Self {
        let rings = Arc::<Mutex<Vec<Arc<Ring>>>>::default();
        let (goes_on, ended) = channel::<()>();
        let emptied = Arc::clone(&rings);
        let empty = move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                for ring in &*emptied.lock().unwrap_or_else(PoisonError::into_inner) {
                    // Who polls next is told what fails.
                    let _ = ring.collect();
                }
            }
        };
        Self {
            rings,
            goes_on: Some(goes_on),
            thread: thread::Builder::new().spawn(empty).ok(),
        }
    }

    /// Empties these, too.
    pub(crate) fn add(&self, rings: impl IntoIterator<Item = Arc<Ring>>) {
        let mut all = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(rings);
    }
}

impl Drop for Emptying {
    fn drop(&mut self) {
        self.goes_on = None;
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did, the rings would be as they are without it.
            let _ = thread.join();
        }
    }
}
