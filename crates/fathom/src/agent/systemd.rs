//! What systemd wants to know of a service (`sd_notify(3)`).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Tells the service manager, if one has started this process.
pub(super) struct Manager {
    /// How often it wants a sign of life, and when the next is due.
    watchdog: Option<(Duration, Instant)>,
}

impl Manager {
    /// The service runs from now on.
    pub(super) fn ready() -> Self {
        notify(&[NotifyState::Ready]);
        let mut microseconds = 0;
        let is_asked_for = sd_notify::watchdog_enabled(false, &mut microseconds);
        // Twice as often as is asked for, as sd_watchdog_enabled(3) advises.
        let period = Duration::from_micros(microseconds) / 2;
        Self {
            watchdog: is_asked_for.then(|| (period, Instant::now())),
        }
    }

    /// Records are being taken and handed on.
    pub(super) fn is_alive(&mut self) {
        if let Some((period, due)) = &mut self.watchdog
            && Instant::now() >= *due
        {
            *due = Instant::now() + *period;
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// Runs `reload`, which the manager is told of. It may take as long as the manager waits for a
    /// sign of life.
    pub(super) fn reloading<T>(reload: impl FnOnce() -> T) -> T {
        let mut states = vec![NotifyState::Reloading, NotifyState::Watchdog];
        states.extend(NotifyState::monotonic_usec_now());
        notify(&states);
        let reloaded = reload();
        notify(&[NotifyState::Ready]);
        reloaded
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        notify(&[NotifyState::Stopping]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a manager, or with one that has gone away, nobody needs to know.
    let _ = sd_notify::notify(false, states);
}
