//! Intervals over which records are put together, by the clock.

use std::time::{Duration, Instant};

use fathom_measure::{Counts, Measurement};
use fathom_record::{Nanoseconds, Time};

use crate::failure::say;

use super::paced::PacedRecords;
use super::view::View;

/// Between looks while records of an interval that is over leave, some at a time.
const LEAVING: Duration = Duration::from_millis(10);
/// Where intervals may be longer, there are so many records a second: a record takes 3 us until it
/// is in a store, so this is 1.5 % of a processor.
const MOST_A_SECOND: u64 = 5000;
/// How many times longer intervals may be: of the default of 10 s, up to a minute.
const TIMES: [u32; 4] = [1, 2, 3, 6];

pub(super) struct Intervals {
    length: Duration,
    /// How many times that the present one is.
    times: u32,
    /// May they be longer while there are very many records?
    may_stretch: bool,
    begin: Instant,
    end: Instant,
    /// The interval before, on its way out, one measurement after the other.
    paced: Vec<Ended>,
}

/// An interval of a measurement.
struct Ended {
    /// `None`: it puts nothing together.
    records: Option<PacedRecords>,
    /// At its end.
    time: Time,
    counts: Counts,
    measurement: &'static str,
}

impl Intervals {
    /// The first begins now.
    pub(super) fn new(length: Duration, may_stretch: bool) -> Self {
        let begin = Instant::now();
        Self {
            length,
            times: 1,
            may_stretch,
            begin,
            end: begin + length,
            paced: Vec::new(),
        }
    }

    /// When there is something to do.
    pub(super) fn next(&self) -> Instant {
        if self.paced.is_empty() {
            self.end
        } else {
            Instant::now() + LEAVING
        }
    }

    /// Ends the interval if it is over, and has records of the one before leave. An interval is
    /// longer if the reader has not taken the one before: two of very many flows would take
    /// too much memory.
    ///
    /// # Errors
    /// When a measurement fails.
    pub(super) fn advance(
        &mut self,
        measurements: &mut [Box<dyn Measurement>],
        view: &mut View,
    ) -> anyhow::Result<()> {
        let now = Instant::now();
        if now >= self.end && self.paced.is_empty() {
            self.end(now, measurements, view)?;
        }
        self.paced.retain_mut(|ended| !ended.put_due(now, view));
        Ok(())
    }

    /// All that has not left, and the interval that is under way, with its own length.
    ///
    /// # Errors
    /// When a measurement fails.
    pub(super) fn finish(
        &mut self,
        measurements: &mut [Box<dyn Measurement>],
        view: &mut View,
    ) -> anyhow::Result<()> {
        self.put_all(view);
        self.end(Instant::now(), measurements, view)?;
        self.put_all(view);
        Ok(())
    }

    /// Has the records of the time since the last end leave, with its true length.
    fn end(
        &mut self,
        now: Instant,
        measurements: &mut [Box<dyn Measurement>],
        view: &mut View,
    ) -> anyhow::Result<()> {
        let length = Nanoseconds::from(now.saturating_duration_since(self.begin));
        self.begin = now;
        // One for all: by it, and by the flow, join the records of an interval.
        let time = Time::now();
        for measurement in measurements {
            let records =
                measurement.end_interval(time, length, &mut |record| view.take(record))?;
            self.paced.push(Ended {
                records: records
                    .map(|records| PacedRecords::new(records, now, self.length * self.times)),
                time,
                counts: measurement.counts()?,
                measurement: measurement.name(),
            });
        }
        view.put_losses(time);
        if self.may_stretch {
            self.stretch(length);
        }
        while self.end <= now {
            self.end += self.length * self.times;
        }
        Ok(())
    }

    /// Sets how long the next ones are, by how many records come of this one.
    fn stretch(&mut self, length: Nanoseconds) {
        let records = self.paced.iter().filter_map(|ended| ended.records.as_ref());
        let records: usize = records.map(PacedRecords::count).sum();
        let times = times(records as u64, self.length);
        // The last one, when the session ends, may be very short.
        if times != self.times && length.0 >= Nanoseconds::from(self.length / 2).0 {
            self.times = times;
            say!("fathom: {}", self.told(records));
        }
    }

    fn told(&self, records: usize) -> String {
        let length = (self.length * self.times).as_secs_f64();
        format!("{records} records came of an interval: from now on one has {length} s")
    }

    fn put_all(&mut self, view: &mut View) {
        for mut ended in self.paced.drain(..) {
            if let Some(records) = &mut ended.records {
                records.put_all(view);
            }
            ended.put_counts(view);
        }
    }
}

/// How many times longer intervals are to be, after one of which so many records came. There are
/// hardly more of a longer one: flows that go on have one each.
fn times(records: u64, length: Duration) -> u32 {
    let fits = |times: &u32| {
        let most = u128::from(MOST_A_SECOND) * (length * *times).as_millis() / 1000;
        u128::from(records) <= most
    };
    TIMES.into_iter().find(fits).unwrap_or(TIMES[3])
}

impl Ended {
    /// Puts those out whose time it is, and behind the last the counts. `true`: all have left.
    fn put_due(&mut self, now: Instant, view: &mut View) -> bool {
        let records = self.records.as_mut();
        let has_left = records.is_none_or(|records| records.put_due(now, view));
        if has_left {
            self.put_counts(view);
        }
        has_left
    }

    fn put_counts(&self, view: &mut View) {
        view.put_counts(&self.counts, self.time, self.measurement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_as_long_as_their_records_need() {
        let ten = Duration::from_secs(10);
        assert_eq!(times(0, ten), 1);
        assert_eq!(times(50_000, ten), 1);
        assert_eq!(times(50_001, ten), 2);
        assert_eq!(times(262_144, ten), 6, "65,536 flows with four each");
        assert_eq!(times(10_000_000, ten), 6);
        assert_eq!(times(4 * 5_000, Duration::from_secs(1)), 6);
    }
}
