//! Measurements that run on this host until the user has seen enough. They are asked again and
//! again for their records, which go to the view.

mod intervals;
mod paced;
mod view;

use std::time::{Duration, Instant};

use fathom_measure::{Counts, Measurement, wait_for};
use fathom_record::Time;

use crate::failure::say;
use crate::signals::Signals;
use crate::summary::say_summary;
use intervals::Intervals;
pub(crate) use view::View;

/// For how long, and how, a session is to run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By default until a signal.
    pub(crate) duration: Option<Duration>,
    /// Records are put together over such intervals.
    pub(crate) interval: Option<Duration>,
    /// Tell how programs are attached.
    pub(crate) is_verbose: bool,
}

/// Runs these measurements, which have just started, until there is nothing more or until it is
/// told to stop.
///
/// # Errors
/// When `open_view` or a measurement fails, or the output cannot be written. What had been measured
/// by then is shown all the same.
pub(crate) fn run(
    measurements: Vec<Box<dyn Measurement>>,
    plan: &Plan,
    open_view: impl FnOnce() -> anyhow::Result<View>,
    signals: &Signals,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    if plan.is_verbose {
        for line in measurements.iter().flat_map(|one| one.describe()) {
            say!("{line}");
        }
    }
    let mut session = Session {
        measurements,
        view: open_view()?,
        intervals: plan.interval.map(Intervals::new),
        end: plan.duration.and_then(|length| begin.checked_add(length)),
    };
    let measured = session.measure(signals);
    let finished = session.finish();
    let written = session.view.finish();
    // Gives the terminal back, and ends what was started, before anything is said.
    drop(session);
    for counts in finished.iter().flatten() {
        say_summary(counts, begin.elapsed());
    }
    measured.and(finished.map(drop)).and(written)
}

struct Session {
    measurements: Vec<Box<dyn Measurement>>,
    view: View,
    intervals: Option<Intervals>,
    end: Option<Instant>,
}

impl Session {
    fn measure(&mut self, signals: &Signals) -> anyhow::Result<()> {
        self.follow()?;
        while !signals.should_stop() && !self.is_over() {
            wait_for(&self.measurements, self.longest_wait())?;
            for measurement in &mut self.measurements {
                measurement.poll(&mut |record| self.view.take(record))?;
            }
            if let Some(intervals) = &mut self.intervals {
                intervals.advance(&mut self.measurements, &mut self.view)?;
            }
            self.follow()?;
            if !self.view.refresh(&self.measurements)? {
                break;
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
            || self.measurements.iter_mut().all(|one| one.is_over())
    }

    /// Until the next thing that the session does itself.
    fn longest_wait(&self) -> Duration {
        let next = self.intervals.as_ref().map(Intervals::next);
        let next = next.into_iter().chain(self.end).min();
        next.map_or(Duration::MAX, |next| {
            next.saturating_duration_since(Instant::now())
        })
    }

    /// Interfaces go and come.
    fn follow(&mut self) -> anyhow::Result<()> {
        for measurement in &mut self.measurements {
            for told in measurement.follow()? {
                self.view.say(told);
            }
        }
        Ok(())
    }

    /// What is still in the kernel, then the last counts.
    fn finish(&mut self) -> anyhow::Result<Vec<Counts>> {
        self.view.may_wait();
        for measurement in &mut self.measurements {
            measurement.finish(&mut |record| self.view.take(record))?;
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.finish(&mut self.measurements, &mut self.view)?;
        }
        let mut all = Vec::new();
        for measurement in &self.measurements {
            let counts = measurement.counts()?;
            if self.intervals.is_none() {
                self.view
                    .put_counts(&counts, Time::now(), measurement.name());
            }
            all.push(counts);
        }
        if self.intervals.is_none() {
            self.view.put_losses(Time::now());
        }
        Ok(all)
    }
}
