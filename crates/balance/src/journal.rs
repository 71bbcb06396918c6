//! When a server's line is told: when something has changed that an operator acts on, and once an
//! interval besides. What was measured of the server since its line before is kept until then.
//! Pure.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fathom_record::Time;

use crate::controller::Collected;
use crate::fleet::{Decision, Member};
use crate::health::State;
use crate::record::BalanceWeight;

/// A share that is more than so many times what was told last, or less than its reciprocal, has
/// changed: `latency` moves weights a little all the time.
const SHARE_CHANGE: f64 = 2.0;
/// Changes of shares of a server are told so far apart, at least.
const SHARE_APART: Duration = Duration::from_secs(1);

/// What has been told of each server of each service, and what has not yet.
#[derive(Debug)]
pub struct Journal {
    interval: Duration,
    /// The end of the interval.
    due: Duration,
    entries: HashMap<(Arc<str>, IpAddr), Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Since the last line.
    epochs: Collected,
    last: Option<Line>,
}

#[derive(Debug)]
struct Line {
    share: f64,
    state: State,
    at: Duration,
}

impl Journal {
    /// All is told once an `interval`; the first ends that long after `now`.
    pub fn new(interval: Duration, now: Duration) -> Self {
        Self {
            interval,
            due: now + interval,
            entries: HashMap::new(),
        }
    }

    /// There is another configuration: all that is still there is told anew.
    pub fn reload<'a>(&mut self, decisions: impl IntoIterator<Item = &'a Decision>) {
        let mut before = std::mem::take(&mut self.entries);
        for decision in decisions {
            for member in &decision.members {
                let key = key(decision, member);
                if let Some(Entry { epochs, .. }) = before.remove(&key) {
                    self.entries.insert(key, Entry { epochs, last: None });
                }
            }
        }
    }

    /// Takes in what was measured before a decision of the controller.
    pub fn take(&mut self, decision: &Decision) {
        for member in &decision.members {
            let entry = self.entries.entry(key(decision, member)).or_default();
            entry.epochs.merge(&member.measured.epochs);
        }
    }

    /// The lines that are due.
    pub fn lines<'a>(
        &mut self,
        decisions: impl IntoIterator<Item = &'a Decision>,
        now: Duration,
        time: Time,
    ) -> Vec<BalanceWeight> {
        let is_due = now >= self.due;
        if is_due {
            // Those that were missed are over too.
            self.due = (self.due + self.interval).max(now + self.interval / 2);
        }
        self.write(decisions, (now, time), |last, member| {
            is_due || last.is_none_or(|last| last.is_other(member, now))
        })
    }

    /// A line for each server of each service: the last.
    pub fn last_lines<'a>(
        &mut self,
        decisions: impl IntoIterator<Item = &'a Decision>,
        now: Duration,
        time: Time,
    ) -> Vec<BalanceWeight> {
        self.write(decisions, (now, time), |_, _| true)
    }

    fn write<'a>(
        &mut self,
        decisions: impl IntoIterator<Item = &'a Decision>,
        (at, time): (Duration, Time),
        is_told: impl Fn(Option<&Line>, &Member) -> bool,
    ) -> Vec<BalanceWeight> {
        let mut lines = Vec::new();
        for decision in decisions {
            for member in &decision.members {
                let entry = self.entries.entry(key(decision, member)).or_default();
                if !is_told(entry.last.as_ref(), member) {
                    continue;
                }
                let latency = std::mem::take(&mut entry.epochs).latency();
                lines.push(decision.record(member, latency, time));
                let (share, state) = (member.share, member.state);
                entry.last = Some(Line { share, state, at });
            }
        }
        lines
    }
}

fn key(decision: &Decision, member: &Member) -> (Arc<str>, IpAddr) {
    (Arc::clone(&decision.name), member.address)
}

impl Line {
    /// Is what is decided now news after it?
    fn is_other(&self, member: &Member, now: Duration) -> bool {
        let is_apart = now.saturating_sub(self.at) >= SHARE_APART;
        self.state != member.state || (is_apart && has_changed(self.share, member.share))
    }
}

fn has_changed(before: f64, now: f64) -> bool {
    (before > 0.0) != (now > 0.0) || now > before * SHARE_CHANGE || now < before / SHARE_CHANGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::fleet::Fleet;

    /// A decision about one server.
    fn decision(share: f64, state: State) -> Decision {
        let config = "[[server]]\nname = \"a\"\naddress = \"10.0.0.1\"\n[[service]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\n";
        let mut fleet = Fleet::new(Config::parse(config).unwrap());
        let mut decision = fleet.redistribute(0, Duration::ZERO).unwrap();
        (decision.members[0].share, decision.members[0].state) = (share, state);
        decision
    }

    /// The tenths of a second, of a minute, at which a server is told of whose share and state are
    /// these.
    fn told(share: impl Fn(u64) -> f64, state: impl Fn(u64) -> State) -> Vec<u64> {
        let mut journal = Journal::new(Duration::from_secs(20), Duration::ZERO);
        let mut decision = decision(0.0, State::Healthy);
        let mut told = Vec::new();
        for tenths in 0..600 {
            let now = Duration::from_millis(100 * tenths);
            let member = &mut decision.members[0];
            (member.share, member.state) = (share(tenths), state(tenths));
            if !journal.lines([&decision], now, Time(0)).is_empty() {
                told.push(tenths);
            }
        }
        told
    }

    #[test]
    fn what_does_not_change_is_told_once_an_interval() {
        assert_eq!(told(|_| 0.25, |_| State::Healthy), [0, 200, 400]);
        let swings = |tenths: u64| if tenths.is_multiple_of(2) { 0.2 } else { 0.35 };
        assert_eq!(told(swings, |_| State::Healthy), [0, 200, 400]);
    }

    #[test]
    fn changes_are_told_at_once_and_shares_once_a_second() {
        let falls = |tenths: u64| {
            if tenths < 33 {
                State::Healthy
            } else {
                State::Unhealthy
            }
        };
        let loses = |tenths: u64| if tenths < 33 { 0.25 } else { 0.0 };
        assert_eq!(told(loses, falls), [0, 33, 200, 400]);
        let swings = |tenths: u64| {
            if !(33..53).contains(&tenths) || tenths.is_multiple_of(2) {
                0.1
            } else {
                0.3
            }
        };
        assert_eq!(told(swings, |_| State::Healthy), [0, 33, 44, 200, 400]);
        let gone = |tenths: u64| if tenths < 5 { 0.25 } else { 0.0 };
        assert_eq!(told(gone, |_| State::Healthy), [0, 10, 200, 400]);
    }

    #[test]
    fn another_configuration_is_told_whole() {
        let mut journal = Journal::new(Duration::from_secs(20), Duration::ZERO);
        let decision = decision(1.0, State::Healthy);
        let now = Duration::from_secs(1);
        let mut lines = || journal.lines([&decision], now, Time(0)).len();
        assert_eq!([lines(), lines()], [1, 0]);
        journal.reload([&decision]);
        assert_eq!(journal.lines([&decision], now, Time(0)).len(), 1);
    }

    #[test]
    fn what_was_measured_is_told_once_also_over_a_reload() {
        let mut journal = Journal::new(Duration::from_secs(20), Duration::ZERO);
        let mut decision = decision(1.0, State::Healthy);
        let responses = |lines: Vec<BalanceWeight>| lines[0].responses;
        decision.members[0].measured.epochs.add(1e6, 7);
        journal.take(&decision);
        journal.take(&decision);
        journal.reload([&decision]);
        assert_eq!(
            responses(journal.lines([&decision], Duration::ZERO, Time(0))),
            14
        );
        assert_eq!(
            responses(journal.last_lines([&decision], Duration::ZERO, Time(0))),
            0
        );
        journal.take(&decision);
        journal.reload([]);
        assert_eq!(
            responses(journal.lines([&decision], Duration::ZERO, Time(0))),
            0
        );
    }
}
