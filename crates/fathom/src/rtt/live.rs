//! Measuring on interfaces, until the user has seen enough.

use std::time::{Duration, Instant};

use fathom_measure::rtt::{Aggregation, Aggregator, Counts, Live, Options, Report, RttInterval};
use fathom_record::{Nanoseconds, Time};

use super::arguments::RttArguments;
use super::summary::say_summary;
use super::view::View;
use crate::failure::say;
use crate::leaving::Leaving;
use crate::signals::Signals;

/// The longest wait for samples: as long may a line wait before it is written.
const POLL: Duration = Duration::from_millis(50);
/// The same while records of an interval that is over leave, some at a time.
const POLL_LEAVING: Duration = Duration::from_millis(10);
/// Between looks through the table of flows.
const SWEEP: Duration = Duration::from_secs(5);

/// Measures on the interfaces that were named.
///
/// # Errors
/// When the kernel refuses, an interface does not exist, or the output cannot be written.
pub(super) fn run(arguments: &RttArguments, signals: &Signals) -> anyhow::Result<()> {
    let live = Live::start(&Options {
        interfaces: arguments.source.interface.clone(),
        has_xdp: arguments.source.xdp,
        settings: arguments.settings_for_interfaces(),
    })?;
    // To load the programs takes its time, in which nothing is measured.
    let begin = Instant::now();
    if arguments.verbose {
        for line in live.describe() {
            say!("{line}");
        }
    }
    let mut session = Session {
        live,
        view: View::open(arguments, signals)?,
        intervals: arguments.aggregation().map(Intervals::new),
        sweep: Every::new(SWEEP),
    };
    let end = arguments
        .source
        .duration
        .and_then(|duration| begin.checked_add(duration));
    let ended = session.measure(end, signals);
    let counts = ended.and_then(|()| session.finish());
    // Gives the terminal back before anything is said.
    drop(session.view);
    say_summary(&counts?, begin.elapsed());
    Ok(())
}

struct Session {
    live: Live,
    view: View,
    intervals: Option<Intervals>,
    sweep: Every,
}

impl Session {
    fn measure(&mut self, end: Option<Instant>, signals: &Signals) -> anyhow::Result<()> {
        self.follow()?;
        while !signals.should_stop() {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                break;
            }
            self.read(self.wait(now, end))?;
            let now = Instant::now();
            if self
                .intervals
                .as_ref()
                .is_some_and(|intervals| intervals.is_over(now))
            {
                self.end_interval(now)?;
            }
            self.let_leave(now);
            if self.sweep.is_due(now) {
                self.look_through()?;
            }
            self.follow()?;
            if !self.view.refresh(&self.live)? {
                break;
            }
        }
        Ok(())
    }

    /// Interfaces go and come.
    fn follow(&mut self) -> anyhow::Result<()> {
        for told in self.live.follow()? {
            self.view.say(told);
        }
        Ok(())
    }

    /// Until the next thing to do.
    fn wait(&self, now: Instant, end: Option<Instant>) -> Duration {
        let intervals = self.intervals.as_ref();
        if intervals.is_some_and(|intervals| intervals.leaving.is_some()) {
            return POLL_LEAVING;
        }
        let next = intervals.map(|intervals| intervals.end);
        let next = next.into_iter().chain(end).min();
        next.map_or(POLL, |next| next.saturating_duration_since(now).min(POLL))
    }

    fn read(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let Self {
            live,
            view,
            intervals,
            ..
        } = self;
        live.poll(timeout, &mut |report| {
            take(report, view, intervals.as_mut());
        })?;
        Ok(())
    }

    fn look_through(&mut self) -> anyhow::Result<()> {
        let Self {
            live,
            view,
            intervals,
            ..
        } = self;
        let aggregator = intervals
            .as_mut()
            .map(|intervals| &mut intervals.aggregator);
        live.sweep(aggregator, &mut |report| take(report, view, None))?;
        Ok(())
    }

    /// The records of the interval leave from now on, and behind them the counts.
    fn end_interval(&mut self, now: Instant) -> anyhow::Result<()> {
        self.look_through()?;
        let (time, counts) = (Time::now(), self.live.counts()?);
        if let Some(intervals) = &mut self.intervals {
            intervals.end(now, time, counts);
        }
        Ok(())
    }

    /// Puts out the records whose time it is.
    fn let_leave(&mut self, now: Instant) {
        if let Some(intervals) = &mut self.intervals
            && let Some((leaving, time, counts)) = &mut intervals.leaving
            && let View::Lines(lines) = &mut self.view
            && leaving.put_due(now, &mut lines.output)
        {
            for count in counts.records(*time) {
                lines.output.put(&count);
            }
            intervals.leaving = None;
        }
    }

    /// The same for all that are left.
    fn let_all_leave(&mut self) -> anyhow::Result<()> {
        if let Some(intervals) = &mut self.intervals
            && let Some((leaving, time, counts)) = intervals.leaving.take()
            && let View::Lines(lines) = &mut self.view
        {
            leaving.put_all(&mut lines.output)?;
            self.view.put_counts(&counts, time);
        }
        Ok(())
    }

    /// What is still in the kernel, then the last counts.
    fn finish(&mut self) -> anyhow::Result<Counts> {
        let Self {
            live,
            view,
            intervals,
            ..
        } = self;
        live.finish(&mut |report| take(report, view, intervals.as_mut()))?;
        let counts = self.live.counts()?;
        if self.intervals.is_some() {
            self.let_all_leave()?;
            self.end_interval(Instant::now())?;
            self.let_all_leave()?;
        } else if self.view.is_for_programs() {
            self.view.put_counts(&counts, Time::now());
        }
        self.view.finish()?;
        Ok(counts)
    }
}

/// A sample goes to the aggregator if there is one, everything else is shown.
fn take(report: Report, view: &mut View, intervals: Option<&mut Intervals>) {
    match intervals {
        Some(intervals) if matches!(report, Report::Sample(..)) => {
            intervals.aggregator.on_report(&report);
        }
        _ => view.take(&report),
    }
}

/// Intervals of aggregation, by the clock.
struct Intervals {
    aggregator: Aggregator,
    length: Duration,
    begin: Instant,
    end: Instant,
    /// The interval before, on its way out, and the counts at its end.
    leaving: Option<(Leaving<RttInterval>, Time, Counts)>,
}

impl Intervals {
    fn new(aggregation: Aggregation) -> Self {
        let begin = Instant::now();
        Self {
            aggregator: Aggregator::new(aggregation),
            length: aggregation.interval,
            begin,
            end: begin + aggregation.interval,
            leaving: None,
        }
    }

    /// An interval is longer where whoever reads has not taken the one before: two of very many flows would take too much memory.
    fn is_over(&self, now: Instant) -> bool {
        now >= self.end && self.leaving.is_none()
    }

    /// Has the records of the time since the last end leave, with its true length.
    fn end(&mut self, now: Instant, time: Time, counts: Counts) {
        let length = now.saturating_duration_since(self.begin);
        let length = Nanoseconds(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
        self.begin = now;
        while self.end <= now {
            self.end += self.length;
        }
        let records = self.aggregator.end_interval(time, length);
        let leaving = Leaving::new(records, now, self.length);
        self.leaving = Some((leaving, time, counts));
    }
}

/// Something to do again and again.
struct Every {
    period: Duration,
    next: Instant,
}

impl Every {
    fn new(period: Duration) -> Self {
        Self {
            period,
            next: Instant::now() + period,
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now + self.period;
        }
        is_due
    }
}
