//! What systemd wants to know of a service (`sd_notify(3)`).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// A start or a reload that takes longer hangs, even where the processor is slow or others have it.
const LONGEST_LOADING: Duration = Duration::from_secs(600);

/// Tells the service manager, if one has started this process.
pub(super) struct Manager {
    /// How often it wants a sign of life, and when the next is due.
    watchdog: Option<(Duration, Instant)>,
}

/// The service is about to load its programs.
pub(super) fn starting() {
    notify(&[NotifyState::ExtendTimeoutUsec(microseconds(
        LONGEST_LOADING,
    ))]);
}

impl Manager {
    /// The service runs from now on.
    pub(super) fn ready() -> Self {
        notify(&[NotifyState::Ready]);
        // Twice as often as is asked for, as sd_watchdog_enabled(3) advises.
        let watchdog = patience().map(|patience| (patience / 2, Instant::now()));
        Self { watchdog }
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

    /// Runs `reload`, which the manager is told of. While it runs there is no sign of life, so the
    /// manager waits longer for the next.
    pub(super) fn reloading<T>(reload: impl FnOnce() -> T) -> T {
        let mut states = vec![NotifyState::Reloading, NotifyState::Watchdog];
        states.extend(NotifyState::monotonic_usec_now());
        states.push(NotifyState::ExtendTimeoutUsec(microseconds(
            LONGEST_LOADING,
        )));
        let patience = patience();
        // It waits anew from when it is told how long.
        let wait = |length| NotifyState::WatchdogUsec(microseconds(length));
        states.extend(patience.map(|patience| wait(patience.max(LONGEST_LOADING))));
        notify(&states);
        let reloaded = reload();
        let mut states = vec![NotifyState::Ready];
        states.extend(patience.map(wait));
        notify(&states);
        reloaded
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        notify(&[NotifyState::Stopping]);
    }
}

/// For how long the manager waits for a sign of life, if it does.
fn patience() -> Option<Duration> {
    let mut microseconds = 0;
    let is_asked_for = sd_notify::watchdog_enabled(false, &mut microseconds);
    is_asked_for.then(|| Duration::from_micros(microseconds))
}

/// An hour and eleven minutes at most.
fn microseconds(length: Duration) -> u32 {
    u32::try_from(length.as_micros()).unwrap_or(u32::MAX)
}

fn notify(states: &[NotifyState<'_>]) {
    // Without a manager, or with one that has gone away, nobody needs to know.
    let _ = sd_notify::notify(false, states);
}
