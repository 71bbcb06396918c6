//! When a server's line is told: when something has changed that an operator acts on, and once an interval besides. Pure.

use std::collections::HashMap;
use std::time::Duration;

/// A share that is more than so many times what was told last, or less than its reciprocal, has changed: `latency` moves weights a little all the time.
const SHARE_CHANGE: f64 = 2.0;
/// Changes of shares of a server are told so far apart, at least.
const SHARE_APART: Duration = Duration::from_secs(1);

/// What has been told of each server of each service.
#[derive(Debug)]
pub struct Journal {
    interval: Duration,
    /// The end of the interval.
    due: Duration,
    is_due: bool,
    told: HashMap<(usize, usize), Told>,
}

#[derive(Debug)]
struct Told {
    share: f64,
    state: &'static str,
    at: Duration,
}

impl Journal {
    /// All is told once an `interval`; the first ends that long after `now`.
    pub fn new(interval: Duration, now: Duration) -> Self {
        Self {
            interval,
            due: now + interval,
            is_due: false,
            told: HashMap::new(),
        }
    }

    /// Servers and services have other indexes: all are told anew.
    pub fn forget(&mut self) {
        self.told.clear();
    }

    /// Begins a round: what [`Journal::is_told`] asks until the next is of this moment.
    pub fn begin(&mut self, now: Duration) {
        self.is_due = now >= self.due;
        if self.is_due {
            // Those that were missed are over too.
            self.due = (self.due + self.interval).max(now + self.interval / 2);
        }
    }

    /// Is this server of this service (indexes in the configuration) to be told of now?
    pub fn is_told(
        &mut self,
        key: (usize, usize),
        share: f64,
        state: &'static str,
        now: Duration,
    ) -> bool {
        let has_changed = self.told.get(&key).is_none_or(|told| {
            let is_apart = now.saturating_sub(told.at) >= SHARE_APART;
            told.state != state || (is_apart && has_changed(told.share, share))
        });
        let is_told = self.is_due || has_changed;
        if is_told {
            let at = now;
            self.told.insert(key, Told { share, state, at });
        }
        is_told
    }
}

fn has_changed(before: f64, now: f64) -> bool {
    (before > 0.0) != (now > 0.0) || now > before * SHARE_CHANGE || now < before / SHARE_CHANGE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tenths of a second, of a minute, at which a server is told of whose share and state are these.
    fn told(share: impl Fn(u64) -> f64, state: impl Fn(u64) -> &'static str) -> Vec<u64> {
        let mut journal = Journal::new(Duration::from_secs(20), Duration::ZERO);
        let mut told = Vec::new();
        for tenths in 0..600 {
            let now = Duration::from_millis(100 * tenths);
            journal.begin(now);
            if journal.is_told((0, 3), share(tenths), state(tenths), now) {
                told.push(tenths);
            }
        }
        told
    }

    #[test]
    fn what_does_not_change_is_told_once_an_interval() {
        assert_eq!(told(|_| 0.25, |_| "healthy"), [0, 200, 400]);
        let swings = |tenths: u64| if tenths.is_multiple_of(2) { 0.2 } else { 0.35 };
        assert_eq!(told(swings, |_| "healthy"), [0, 200, 400]);
    }

    #[test]
    fn changes_are_told_at_once_and_shares_once_a_second() {
        let falls = |tenths: u64| if tenths < 33 { "healthy" } else { "unhealthy" };
        let loses = |tenths: u64| if tenths < 33 { 0.25 } else { 0.0 };
        assert_eq!(told(loses, falls), [0, 33, 200, 400]);
        let swings = |tenths: u64| {
            if !(33..53).contains(&tenths) || tenths.is_multiple_of(2) {
                0.1
            } else {
                0.3
            }
        };
        assert_eq!(told(swings, |_| "healthy"), [0, 33, 44, 200, 400]);
        let gone = |tenths: u64| if tenths < 5 { 0.25 } else { 0.0 };
        assert_eq!(told(gone, |_| "healthy"), [0, 10, 200, 400]);
    }

    #[test]
    fn another_configuration_is_told_whole() {
        let mut journal = Journal::new(Duration::from_secs(20), Duration::ZERO);
        let mut is_told = || journal.is_told((0, 0), 1.0, "healthy", Duration::from_secs(1));
        assert_eq!([is_told(), is_told()], [true, false]);
        journal.forget();
        assert!(journal.is_told((0, 0), 1.0, "healthy", Duration::from_secs(1)));
    }
}
