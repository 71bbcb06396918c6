//! How seldom flows are measured while very many talk: what user space does for each takes it about
//! a microsecond, so there are only so many a second.

use std::time::{Duration, Instant};

/// Pauses are that long at most: so long fits what is kept of a flow.
const LONGEST: Duration = Duration::from_secs(10);
/// For so long it is counted, at least,
const COUNTED: Duration = Duration::from_secs(1);
/// and for so many pauses: those of flows that talk now and then end together after a change.
const PAUSES_COUNTED: u32 = 3;

/// How long flows pause between two measurements (epochs, samples), by how many of these come.
#[derive(Debug)]
pub(crate) struct Pace {
    /// So many a second are wanted at most.
    most_a_second: f64,
    /// That of the settings.
    shortest: Duration,
    longest: Duration,
    pause: Duration,
    /// What came since it is counted.
    count: u64,
    /// When that began, or will: pauses that were under way when their length changed are over
    /// then.
    since: Instant,
}

impl Pace {
    /// Begins now, with the pause of the settings.
    pub(crate) fn new(pause: Duration, most_a_second: f64, now: Instant) -> Self {
        Self {
            most_a_second,
            shortest: pause,
            longest: pause.max(LONGEST),
            pause,
            count: 0,
            since: now,
        }
    }

    /// Intervals are so long: a pause is no longer than one.
    pub(crate) fn fit_into(&mut self, interval: Duration) {
        self.longest = self.shortest.max(interval.min(LONGEST));
    }

    /// So many more have come.
    pub(crate) fn count(&mut self, more: u64) {
        self.count += more;
    }

    /// The pause from now on, if it changes.
    pub(crate) fn adapt(&mut self, now: Instant) -> Option<Duration> {
        let Some(counted) = now.checked_duration_since(self.since) else {
            self.count = 0;
            return None;
        };
        if counted < COUNTED.max(self.pause * PAUSES_COUNTED) {
            return None;
        }
        let rate = std::mem::take(&mut self.count) as f64 / counted.as_secs_f64();
        self.since = now;
        // If flows go on as they did, there are half as many of twice the length.
        let pause = self.pause.mul_f64(rate / self.most_a_second);
        let pause = pause.clamp(self.shortest, self.longest);
        // A little more or less is not worth a change.
        if pause <= self.pause * 5 / 4 && pause >= self.pause / 2 {
            return None;
        }
        self.since = now + pause.max(self.pause);
        self.pause = pause;
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(500);
    const MOST: f64 = 10_000.0;

    /// Flows that talk every so often, one after the other, and what comes of them in so many
    /// seconds. An epoch ends when its flow talks after its time. Returns how many ended in the
    /// last ten seconds, a second.
    fn run(pace: &mut Pace, begin: Instant, flows: u32, every: Duration, seconds: u32) -> u32 {
        let mut epoch_begins = vec![begin; flows as usize];
        let (mut last_ten, mut changes) = (0, 0);
        let talks = seconds * 1000 / every.as_millis() as u32;
        for talk in 0..talks {
            for (flow, epoch_begin) in (0..).zip(&mut epoch_begins) {
                let now = begin + every * talk + every * flow / flows;
                if now - *epoch_begin >= pace.pause {
                    *epoch_begin = now;
                    pace.count(1);
                    last_ten +=
                        u32::from(now >= begin + Duration::from_secs((seconds - 10).into()));
                }
                if flow % 1000 == 0 {
                    changes += u32::from(pace.adapt(now).is_some());
                }
            }
        }
        assert!(changes <= 6, "{changes}: it does not come to rest");
        last_ten / 10
    }

    #[test]
    fn few_flows_have_epochs_as_they_are_set() {
        let begin = Instant::now();
        let mut pace = Pace::new(SHORTEST, MOST, begin);
        run(&mut pace, begin, 4_000, Duration::from_millis(100), 30);
        assert_eq!(pace.pause, SHORTEST);
    }

    #[test]
    fn many_flows_have_longer_ones_and_few_have_short_ones_again() {
        let second = Duration::from_secs(1);
        let begin = Instant::now();
        let mut pace = Pace::new(SHORTEST, MOST, begin);
        let epochs = run(&mut pace, begin, 65_536, second, 120);
        assert!((6_000..13_000).contains(&epochs), "{epochs}: {pace:?}");
        let begin = begin + second * 120;
        run(&mut pace, begin, 1_000, second, 60);
        assert_eq!(pace.pause, SHORTEST);
    }

    #[test]
    fn an_epoch_is_no_longer_than_an_interval() {
        let begin = Instant::now();
        let mut pace = Pace::new(SHORTEST, MOST, begin);
        pace.fit_into(Duration::from_secs(1));
        run(&mut pace, begin, 65_536, Duration::from_millis(250), 20);
        assert_eq!(pace.pause, Duration::from_secs(1));
    }
}
