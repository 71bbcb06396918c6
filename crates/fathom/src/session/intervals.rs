//! Intervals over which records are put together, by the clock.

use std::time::{Duration, Instant};

use fathom_measure::{Counts, Measurement};
use fathom_record::{Nanoseconds, Time};

use super::paced::PacedRecords;
use super::view::View;

/// Between looks while records of an interval that is over leave, some at a time.
const LEAVING: Duration = Duration::from_millis(10);

pub(super) struct Intervals {
    length: Duration,
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
    pub(super) fn new(length: Duration) -> Self {
        let begin = Instant::now();
        Self {
            length,
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
        while self.end <= now {
            self.end += self.length;
        }
        // One for all: by it, and by the flow, join the records of an interval.
        let time = Time::now();
        for measurement in measurements {
            let records =
                measurement.end_interval(time, length, &mut |record| view.take(record))?;
            self.paced.push(Ended {
                records: records.map(|records| PacedRecords::new(records, now, self.length)),
                time,
                counts: measurement.counts()?,
                measurement: measurement.name(),
            });
        }
        view.put_losses(time);
        Ok(())
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
