//! How long epochs are while very many flows talk: what user space does for an epoch takes it about
//! a microsecond, so there are only so many a second.

use std::time::{Duration, Instant};

use super::native::RESPONSE_TICK_SHIFT;

/// So many epochs a second are made an estimate each: 1 % of a processor.
const MOST_A_SECOND: f64 = 10_000.0;
/// Epochs are that long at most: so long fits what is kept of a flow.
const LONGEST: Duration = Duration::from_secs(10);
/// For so long epochs are counted, at least,
const COUNTED: Duration = Duration::from_secs(1);
/// and for so many lengths: those of flows that talk now and then end together after a change.
const LENGTHS_COUNTED: u32 = 3;

/// The length of epochs, by how many there are.
#[derive(Debug)]
pub(super) struct EpochPace {
    /// That of the settings.
    shortest: Duration,
    longest: Duration,
    length: Duration,
    /// Epochs that have ended since they are counted.
    epochs: u64,
    /// When that began, or will: those that were under way when the length changed are over then.
    since: Instant,
}

impl EpochPace {
    /// Begins now, with the length of the settings.
    pub(super) fn new(length: Duration, now: Instant) -> Self {
        Self {
            shortest: length,
            longest: length.max(LONGEST),
            length,
            epochs: 0,
            since: now,
        }
    }

    /// Intervals are so long: an epoch is no longer than one.
    pub(super) fn fit_into(&mut self, interval: Duration) {
        self.longest = self.shortest.max(interval.min(LONGEST));
    }

    /// An epoch has ended.
    pub(super) fn count(&mut self) {
        self.epochs += 1;
    }

    /// The length from now on, in ticks, if it changes.
    pub(super) fn adapt(&mut self, now: Instant) -> Option<u32> {
        let Some(counted) = now.checked_duration_since(self.since) else {
            self.epochs = 0;
            return None;
        };
        if counted < COUNTED.max(self.length * LENGTHS_COUNTED) {
            return None;
        }
        let rate = std::mem::take(&mut self.epochs) as f64 / counted.as_secs_f64();
        self.since = now;
        // If flows go on as they did, there are half as many of twice the length.
        let length = self.length.mul_f64(rate / MOST_A_SECOND);
        let length = length.clamp(self.shortest, self.longest);
        // A little more or less is not worth a change.
        if length <= self.length * 5 / 4 && length >= self.length / 2 {
            return None;
        }
        self.since = now + length.max(self.length);
        self.length = length;
        Some((length.as_nanos() >> RESPONSE_TICK_SHIFT) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_millis(500);

    /// Flows that talk every so often, one after the other, and what comes of them in so many
    /// seconds. An epoch ends when its flow talks after its time. Returns how many ended in the
    /// last ten seconds, a second.
    fn run(pace: &mut EpochPace, begin: Instant, flows: u32, every: Duration, seconds: u32) -> u32 {
        let mut epoch_begins = vec![begin; flows as usize];
        let (mut last_ten, mut changes) = (0, 0);
        let talks = seconds * 1000 / every.as_millis() as u32;
        for talk in 0..talks {
            for (flow, epoch_begin) in (0..).zip(&mut epoch_begins) {
                let now = begin + every * talk + every * flow / flows;
                if now - *epoch_begin >= pace.length {
                    *epoch_begin = now;
                    pace.count();
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
        let mut pace = EpochPace::new(SHORTEST, begin);
        run(&mut pace, begin, 4_000, Duration::from_millis(100), 30);
        assert_eq!(pace.length, SHORTEST);
    }

    #[test]
    fn many_flows_have_longer_ones_and_few_have_short_ones_again() {
        let second = Duration::from_secs(1);
        let begin = Instant::now();
        let mut pace = EpochPace::new(SHORTEST, begin);
        let epochs = run(&mut pace, begin, 65_536, second, 120);
        assert!((6_000..13_000).contains(&epochs), "{epochs}: {pace:?}");
        let begin = begin + second * 120;
        run(&mut pace, begin, 1_000, second, 60);
        assert_eq!(pace.length, SHORTEST);
    }

    #[test]
    fn an_epoch_is_no_longer_than_an_interval() {
        let begin = Instant::now();
        let mut pace = EpochPace::new(SHORTEST, begin);
        pace.fit_into(Duration::from_secs(1));
        run(&mut pace, begin, 65_536, Duration::from_millis(250), 20);
        assert_eq!(pace.length, Duration::from_secs(1));
    }
}
