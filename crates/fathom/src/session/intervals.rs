//! Intervals over which records are put together, by the clock.

use std::time::{Duration, Instant};

use fathom_measure::{Counts, Measurement, Portion};
use fathom_record::{Nanoseconds, Record, Time};

use crate::failure::say;

use super::paced::{AT_ONCE, PacedRecords};
use super::view::View;

/// Between looks while records of an interval that is over leave, some at a time.
const LEAVING: Duration = Duration::from_millis(10);
/// Where intervals may be longer, there are so many records a second: a record takes 3 us until it
/// is in a store, so this is 1.5 % of a processor.
const MOST_A_SECOND: u64 = 5000;
/// How many times longer intervals may be: of the default of 10 s, up to a minute.
const TIMES: [u32; 4] = [1, 2, 3, 6];
/// In the background they end for one of so many portions of the flows after the other, so that not
/// all their records wait in memory at a time.
const PORTIONS: usize = 64;

pub(super) struct Intervals {
    length: Duration,
    /// How many times that the present one is.
    times: u32,
    /// In the background they may be longer while there are very many records.
    is_background: bool,
    /// When they began, for each portion of the flows.
    begins: Vec<Instant>,
    /// The portion that ends next.
    next: usize,
    /// When the last one ends.
    end: Instant,
    /// That came of portions before the next one.
    records: u64,
    /// The interval before, on its way out, one measurement after the other.
    paced: Vec<Ended>,
}

/// An interval of a measurement.
struct Ended {
    /// `None`: it puts nothing together.
    records: Option<PacedRecords>,
    /// At its end.
    time: Time,
    /// With the last portion.
    counts: Option<Counts>,
    measurement: &'static str,
}

impl Intervals {
    /// The first begins now.
    pub(super) fn new(length: Duration, is_background: bool) -> Self {
        let begin = Instant::now();
        let portions = if is_background { PORTIONS } else { 1 };
        Self {
            length,
            times: 1,
            is_background,
            begins: vec![begin; portions],
            next: 0,
            end: begin + length,
            records: 0,
            paced: Vec::new(),
        }
    }

    /// When there is something to do.
    pub(super) fn next(&self) -> Instant {
        if self.paced.is_empty() {
            self.next_end()
        } else {
            Instant::now() + LEAVING
        }
    }

    /// When the next portion ends: all at a time, or where intervals are longer spread over one.
    fn next_end(&self) -> Instant {
        let after = (self.begins.len() - 1 - self.next) as u32;
        let spread = self.end.checked_sub(self.per_portion() * after);
        spread.filter(|_| self.times > 1).unwrap_or(self.end)
    }

    fn per_portion(&self) -> Duration {
        self.length * self.times / self.begins.len() as u32
    }

    /// Ends the interval for portions where it is over, and has their records leave. An interval is
    /// longer if the reader has not taken the portion before: two of very many flows would take too
    /// much memory.
    ///
    /// # Errors
    /// When a measurement fails.
    pub(super) fn advance(
        &mut self,
        measurements: &mut [Box<dyn Measurement>],
        view: &mut View,
    ) -> anyhow::Result<()> {
        let (now, time) = (Instant::now(), Time::now());
        let mut records = 0;
        loop {
            self.paced.retain_mut(|ended| !ended.put_due(now, view));
            let is_over = now >= self.next_end();
            if !is_over || !self.paced.is_empty() || records >= AT_ONCE {
                return Ok(());
            }
            records += self.end_portion(now, time, measurements, view)?;
            if self.next == 0 {
                self.begin_turn(now);
            }
        }
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
        let (now, time) = (Instant::now(), Time::now());
        for _ in 0..self.begins.len() {
            self.end_portion(now, time, measurements, view)?;
            self.put_all(view);
        }
        Ok(())
    }

    /// Has the records of the next portion leave, with the true length of its interval. Returns how
    /// many there are.
    fn end_portion(
        &mut self,
        now: Instant,
        time: Time,
        measurements: &mut [Box<dyn Measurement>],
        view: &mut View,
    ) -> anyhow::Result<usize> {
        let mut count = 0;
        let begin = std::mem::replace(&mut self.begins[self.next], now);
        let length = Nanoseconds::from(now.saturating_duration_since(begin));
        let portion = Portion::new(self.next as u32, self.begins.len() as u32);
        let is_last = portion.is_last();
        // They have the same time: by it, and by the flow, join the records of an interval.
        for measurement in measurements {
            let mut take = |record: &dyn Record| view.take(record);
            let records = measurement.end_interval(portion, time, length, &mut take)?;
            let records =
                records.map(|records| PacedRecords::new(records, now, self.per_portion()));
            count += records.as_ref().map_or(0, PacedRecords::count);
            self.paced.push(Ended {
                records,
                time,
                counts: is_last.then(|| measurement.counts()).transpose()?,
                measurement: measurement.name(),
            });
        }
        if is_last {
            view.put_losses(time);
        }
        self.next = (self.next + 1) % self.begins.len();
        self.records += count as u64;
        Ok(count)
    }

    /// All portions have ended. How long the next intervals are is set by how many records came of
    /// these.
    fn begin_turn(&mut self, now: Instant) {
        let records = std::mem::take(&mut self.records);
        let times = times(records, self.length);
        if self.is_background && times != self.times {
            self.times = times;
            say!("fathom: {}", self.told(records));
        }
        while self.end <= now {
            self.end += self.length * self.times;
        }
    }

    fn told(&self, records: u64) -> String {
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
        if let Some(counts) = &self.counts {
            view.put_counts(counts, self.time, self.measurement);
        }
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
