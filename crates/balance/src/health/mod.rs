//! Is a server there? [`CheckHistory`] counts what checks say, and reads no clock; [`Checker`]
//! makes them.

mod check;
mod pool;
mod probe;

use std::time::Duration;

use crate::config::Health;

pub use check::{Failure, Target, check};
pub use pool::{Checker, Finding};
pub use probe::{Probe, probes};

/// The part of its weight that a returning server has at once.
const FIRST_PART: f64 = 0.1;

/// How a server stands, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// An operator has it get no new flows.
    Drained,
    /// There is no route to it.
    Unreachable,
    /// Checks fail.
    Unhealthy,
    /// It is back, and its weight grows.
    SlowStart,
    /// No check has ended yet: it is taken to be there, as it was before this process began.
    Unknown,
    /// Checks succeed.
    Healthy,
}

impl State {
    /// The text in records.
    pub fn text(self) -> &'static str {
        match self {
            Self::Drained => "drained",
            Self::Unreachable => "unreachable",
            Self::Unhealthy => "unhealthy",
            Self::SlowStart => "slow start",
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
        }
    }

    /// Is it there, as far as is known?
    pub fn is_up(self) -> bool {
        !matches!(self, Self::Unhealthy | Self::Unreachable)
    }
}

/// What the last checks of a server said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CheckHistory {
    last: Option<Checked>,
    /// Checks in a row that said the opposite.
    against: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Checked {
    /// Since then, if it had been unhealthy.
    Healthy(Option<Duration>),
    Unhealthy,
}

impl CheckHistory {
    /// Takes the result of a check in, and returns what the server is from now on, if that changes.
    /// The first of all decides at once; later, as many in a row as configured. `now` counts from
    /// any fixed time.
    pub fn take(&mut self, has_succeeded: bool, now: Duration, health: &Health) -> Option<State> {
        let is_against = match self.last {
            None => {
                let first = if has_succeeded {
                    Checked::Healthy(None)
                } else {
                    Checked::Unhealthy
                };
                self.last = Some(first);
                return (!has_succeeded).then_some(State::Unhealthy);
            }
            Some(Checked::Healthy(_)) => !has_succeeded,
            Some(Checked::Unhealthy) => has_succeeded,
        };
        if !is_against {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = if has_succeeded {
            health.rise
        } else {
            health.fall
        };
        if self.against < needed {
            return None;
        }
        let (last, state) = if has_succeeded {
            (Checked::Healthy(Some(now)), State::Healthy)
        } else {
            (Checked::Unhealthy, State::Unhealthy)
        };
        (self.against, self.last) = (0, Some(last));
        Some(state)
    }

    /// The part of its weight that it has now, 0 to 1: one that comes back has cold caches, and all
    /// its clients would come at once.
    pub fn part(&self, now: Duration, health: &Health) -> f64 {
        match self.last {
            Some(Checked::Unhealthy) => 0.0,
            Some(Checked::Healthy(Some(since))) if now < since + health.slow_start => {
                let grown =
                    now.saturating_sub(since).as_secs_f64() / health.slow_start.as_secs_f64();
                FIRST_PART + (1.0 - FIRST_PART) * grown
            }
            None | Some(Checked::Healthy(_)) => 1.0,
        }
    }

    /// What it is, as checks say.
    pub fn state(&self, now: Duration, health: &Health) -> State {
        match self.last {
            None => State::Unknown,
            Some(Checked::Unhealthy) => State::Unhealthy,
            Some(Checked::Healthy(_)) if self.part(now, health) < 1.0 => State::SlowStart,
            Some(Checked::Healthy(_)) => State::Healthy,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_healthy(history: &CheckHistory) -> bool {
        history.state(Duration::MAX, &Health::default()) != State::Unhealthy
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn thresholds_are_counted_in_a_row() {
        let health = Health::default();
        let mut history = CheckHistory::default();
        assert!(is_healthy(&history));
        assert_eq!(history.take(true, seconds(0), &health), None);
        for (succeeds, change) in [
            (false, None),
            (false, None),
            (true, None),
            (false, None),
            (false, None),
            (false, Some(State::Unhealthy)),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(State::Healthy)),
        ] {
            assert_eq!(history.take(succeeds, seconds(5), &health), change);
        }
        assert_eq!(history.state(seconds(6), &health), State::SlowStart);
        assert!((history.part(seconds(10), &health) - 0.55).abs() < 1e-9);
        assert!((history.part(seconds(15), &health) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_check_decides_at_once() {
        let health = Health::default();
        let mut history = CheckHistory::default();
        assert_eq!(
            history.take(false, seconds(0), &health),
            Some(State::Unhealthy)
        );
        assert!(history.part(seconds(9), &health) <= 0.0);
        let mut history = CheckHistory::default();
        history.take(true, seconds(0), &health);
        assert!((history.part(seconds(0), &health) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn changes_alternate(results: Vec<bool>, rise in 1..4_u32, fall in 1..4_u32) {
            let health = Health { rise, fall, ..Health::default() };
            let mut history = CheckHistory::default();
            for succeeds in results {
                let before = is_healthy(&history);
                let change = history.take(succeeds, seconds(1), &health);
                prop_assert_eq!(change.is_some(), before != is_healthy(&history));
                prop_assert_eq!(change == Some(State::Healthy), !before && is_healthy(&history));
            }
        }
    }
}
