//! Measurements that run on this host until the user has seen enough. They are asked again and
//! again for their records, which go to the view.

mod emptying;
mod intervals;
mod paced;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_measure::kernel::Ring;
use fathom_measure::{Counts, Measurement, wait_for};
use fathom_record::Time;

use crate::failure::say;
use crate::signals::Signals;
use crate::summary::say_summary;
pub(crate) use emptying::Emptying;
use intervals::Intervals;
pub(crate) use view::View;

/// For how long, and how, a session is to run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By default until a signal.
    pub(crate) duration: Option<Duration>,
    /// Records are put together over such intervals.
    pub(crate) interval: Option<Duration>,
    /// Intervals may be longer while there are very many records.
    pub(crate) is_background: bool,
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
    let mut session = Session::start(measurements, plan, open_view)?;
    let measured = session.measure(signals);
    session.end(measured)
}

/// What runs, and where its records go.
pub(crate) struct Session {
    pub(crate) measurements: Vec<Box<dyn Measurement>>,
    pub(crate) view: View,
    pub(crate) begin: Instant,
    intervals: Option<Intervals>,
    is_background: bool,
    end: Option<Instant>,
}

impl Session {
    /// Begins with these measurements, which have just started.
    ///
    /// # Errors
    /// When `open_view` fails.
    pub(crate) fn start(
        measurements: Vec<Box<dyn Measurement>>,
        plan: &Plan,
        open_view: impl FnOnce() -> anyhow::Result<View>,
    ) -> anyhow::Result<Self> {
        let begin = Instant::now();
        if plan.is_verbose {
            for line in measurements.iter().flat_map(|one| one.describe()) {
                say!("{line}");
            }
        }
        let mut session = Self {
            measurements,
            view: open_view()?,
            begin,
            intervals: plan
                .interval
                .map(|length| Intervals::new(length, plan.is_background)),
            is_background: plan.is_background,
            end: plan.duration.and_then(|length| begin.checked_add(length)),
        };
        session.follow()?;
        Ok(session)
    }

    fn measure(&mut self, signals: &Signals) -> anyhow::Result<()> {
        while !signals.should_stop() && self.turn()? {}
        Ok(())
    }

    /// Waits a moment for what is measured, and hands it on. `false`: there is nothing more, or the
    /// user has seen enough.
    ///
    /// # Errors
    /// When a measurement fails, or the output cannot be written.
    pub(crate) fn turn(&mut self) -> anyhow::Result<bool> {
        if self.is_over() {
            return Ok(false);
        }
        wait_for(&self.measurements, self.longest_wait())?;
        for measurement in &mut self.measurements {
            measurement.poll(&mut |record| self.view.take(record))?;
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.advance(&mut self.measurements, &mut self.view)?;
        }
        self.follow()?;
        self.view.refresh(&self.measurements)
    }

    /// The rings of what is measured.
    pub(crate) fn rings(&self) -> impl Iterator<Item = Arc<Ring>> {
        self.measurements.iter().flat_map(|one| one.rings())
    }

    /// Goes on with these measurements, which have just started, over intervals of this length. The
    /// ones before hand on what they have.
    ///
    /// # Errors
    /// When one of those before fails.
    pub(crate) fn replace(
        &mut self,
        measurements: Vec<Box<dyn Measurement>>,
        interval: Option<Duration>,
    ) -> anyhow::Result<()> {
        self.view.may_wait(true);
        let finished = self.finish();
        self.view.may_wait(false);
        self.measurements = measurements;
        let is_background = self.is_background;
        self.intervals = interval.map(|length| Intervals::new(length, is_background));
        finished.map(drop)
    }

    /// Ends, after `measured`: says what was counted.
    ///
    /// # Errors
    /// That of `measured`, or when the rest cannot be handed on.
    pub(crate) fn end(mut self, measured: anyhow::Result<()>) -> anyhow::Result<()> {
        self.view.may_wait(true);
        let finished = self.finish();
        let written = self.view.finish();
        let elapsed = self.begin.elapsed();
        // Gives the terminal back, and ends what was started, before anything is said.
        drop(self);
        for counts in finished.iter().flatten() {
            say_summary(counts, elapsed);
        }
        measured.and(finished.map(drop)).and(written)
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
