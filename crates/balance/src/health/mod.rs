//! Is a server there? [`Standing`] counts what checks say, and reads no clock; [`Checker`] makes them.

mod aim;
mod check;
mod pool;

use std::time::Duration;

use crate::config::Health;

pub use aim::{Aim, aims};
pub use check::{Failure, Target, check};
pub use pool::{Checker, Finding};

/// Of its whole weight, what a server has at once that comes back.
const FIRST_PART: f64 = 0.1;

/// What checks say of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    state: State,
    /// Checks in a row that said the opposite.
    against: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// No check has ended yet: it is taken to be there, as it was before this process began.
    Unknown,
    /// Since then, if it had been unhealthy.
    Healthy(Option<Duration>),
    Unhealthy,
}

/// A server is there again, or is there no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has answered as often as it must.
    Rose,
    /// It has not answered as often as it may.
    Fell,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            state: State::Unknown,
            against: 0,
        }
    }
}

impl Standing {
    /// Takes the result of a check in. The first of all decides at once; later, as many in a row as configured. `now` counts from any fixed time.
    pub fn take(&mut self, has_succeeded: bool, now: Duration, health: &Health) -> Option<Change> {
        let is_against = match self.state {
            State::Unknown => {
                self.state = if has_succeeded {
                    State::Healthy(None)
                } else {
                    State::Unhealthy
                };
                return (!has_succeeded).then_some(Change::Fell);
            }
            State::Healthy(_) => !has_succeeded,
            State::Unhealthy => has_succeeded,
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
        self.against = 0;
        if has_succeeded {
            self.state = State::Healthy(Some(now));
            Some(Change::Rose)
        } else {
            self.state = State::Unhealthy;
            Some(Change::Fell)
        }
    }

    /// May it have new flows?
    pub fn is_healthy(&self) -> bool {
        self.state != State::Unhealthy
    }

    /// The part of its weight that it has now, 0 to 1: one that comes back has cold caches, and all its clients would come at once.
    pub fn part(&self, now: Duration, health: &Health) -> f64 {
        match self.state {
            State::Unhealthy => 0.0,
            State::Healthy(Some(since)) if now < since + health.slow_start => {
                let grown =
                    now.saturating_sub(since).as_secs_f64() / health.slow_start.as_secs_f64();
                FIRST_PART + (1.0 - FIRST_PART) * grown
            }
            State::Unknown | State::Healthy(_) => 1.0,
        }
    }

    /// The name of its state in records.
    pub fn name(&self, now: Duration, health: &Health) -> &'static str {
        match self.state {
            State::Unknown => "unknown",
            State::Unhealthy => "unhealthy",
            State::Healthy(_) if self.part(now, health) < 1.0 => "slow start",
            State::Healthy(_) => "healthy",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn thresholds_are_counted_in_a_row() {
        let health = Health::default();
        let mut standing = Standing::default();
        assert!(standing.is_healthy());
        assert_eq!(standing.take(true, seconds(0), &health), None);
        for (succeeds, change) in [
            (false, None),
            (false, None),
            (true, None),
            (false, None),
            (false, None),
            (false, Some(Change::Fell)),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(Change::Rose)),
        ] {
            assert_eq!(standing.take(succeeds, seconds(5), &health), change);
        }
        assert_eq!(standing.name(seconds(6), &health), "slow start");
        assert!((standing.part(seconds(10), &health) - 0.55).abs() < 1e-9);
        assert!((standing.part(seconds(15), &health) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_check_decides_at_once() {
        let health = Health::default();
        let mut standing = Standing::default();
        assert_eq!(
            standing.take(false, seconds(0), &health),
            Some(Change::Fell)
        );
        assert!(standing.part(seconds(9), &health) <= 0.0);
        let mut standing = Standing::default();
        standing.take(true, seconds(0), &health);
        assert!((standing.part(seconds(0), &health) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn changes_alternate(results: Vec<bool>, rise in 1..4_u32, fall in 1..4_u32) {
            let health = Health { rise, fall, ..Health::default() };
            let mut standing = Standing::default();
            for succeeds in results {
                let before = standing.is_healthy();
                let change = standing.take(succeeds, seconds(1), &health);
                prop_assert_eq!(change.is_some(), before != standing.is_healthy());
                prop_assert_eq!(change == Some(Change::Rose), !before && standing.is_healthy());
            }
        }
    }
}
