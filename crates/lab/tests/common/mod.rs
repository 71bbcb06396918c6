//! What tests of the lab begin with.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test that has the machine for itself: one that looks at times, or has many threads.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
