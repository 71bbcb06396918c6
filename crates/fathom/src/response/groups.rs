//! Where epochs go: each to the output, or into the groups of an interval.

use std::time::{Duration, Instant};

use fathom_measure::response::{
    Grouping, ResponseAggregator, ResponseCounts, ResponseEpoch, ResponseInterval,
};
use fathom_record::{Nanoseconds, Time};

use crate::leaving::Leaving;
use crate::output::Output;

/// Intervals of groups, which follow the time of the epochs.
pub(super) struct Groups {
    aggregator: ResponseAggregator,
    length: Duration,
    /// Records leave some at a time: what is measured does not wait for them.
    is_live: bool,
    /// When the present interval began; `None` before the first epoch.
    begin: Option<u64>,
    /// The present interval goes on beyond its end: whoever reads has not taken the one before, and two of very many groups would take too much memory.
    is_longer: bool,
    /// The interval before, on its way out.
    leaving: Option<Leaving<ResponseInterval>>,
}

impl Groups {
    /// Nothing seen yet.
    pub(super) fn new(grouping: Grouping, length: Duration, is_live: bool) -> Self {
        Self {
            aggregator: ResponseAggregator::new(grouping),
            length,
            is_live,
            begin: None,
            is_longer: false,
            leaving: None,
        }
    }

    /// Takes an epoch in; the interval that ended before it, if one did, goes to the output.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch, output: &mut Output) {
        self.advance(epoch.time, output);
        self.aggregator.take(epoch);
    }

    /// Ends the interval if `now` is behind it.
    pub(super) fn advance(&mut self, now: Time, output: &mut Output) {
        let length = Nanoseconds::from(self.length).0.max(1);
        let begin = *self.begin.get_or_insert(now.0);
        let passed = now.0.saturating_sub(begin) / length;
        if passed == 0 {
            return;
        }
        if self.leaving.is_some() {
            self.is_longer = true;
            return;
        }
        // Those in between, if any, were empty.
        self.begin = Some(begin + passed * length);
        let is_longer = std::mem::take(&mut self.is_longer);
        let length = length * if is_longer { passed } else { 1 };
        let records = self
            .aggregator
            .end_interval(Time(begin + length), Nanoseconds(length));
        if self.is_live {
            self.leaving = Some(Leaving::new(records, Instant::now(), self.length));
        } else {
            records.for_each(|record| output.put(&record));
        }
    }

    /// Puts out the records whose time it is.
    #[cfg(feature = "live")]
    fn let_leave(&mut self, now: Instant, output: &mut Output) {
        if let Some(leaving) = &mut self.leaving
            && leaving.put_due(now, output)
        {
            self.leaving = None;
        }
    }

    /// All that has not left, and the interval that is under way, with its own length.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, now: Time, output: &mut Output) -> anyhow::Result<()> {
        if let Some(leaving) = self.leaving.take() {
            leaving.put_all(output)?;
        }
        let length = now.0.saturating_sub(self.begin.unwrap_or(now.0)).max(1);
        let records = self.aggregator.end_interval(now, Nanoseconds(length));
        Leaving::new(records, Instant::now(), self.length).put_all(output)
    }
}

/// Lines of epochs, or of groups.
pub(super) struct Lines {
    pub(super) output: Output,
    groups: Option<Groups>,
}

impl Lines {
    /// To this output.
    pub(super) fn new(
        output: Output,
        grouping: Option<Grouping>,
        interval: Duration,
        is_live: bool,
    ) -> Self {
        Self {
            output,
            groups: grouping.map(|grouping| Groups::new(grouping, interval, is_live)),
        }
    }

    /// Takes an epoch in.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch) {
        match &mut self.groups {
            Some(groups) => groups.take(epoch, &mut self.output),
            None => self.output.put(epoch),
        }
    }

    /// Ends the interval if `now` is behind it, and has records of the one before leave.
    #[cfg(feature = "live")]
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(groups) = &mut self.groups {
            groups.advance(now, &mut self.output);
            groups.let_leave(Instant::now(), &mut self.output);
        }
    }

    /// The interval that is under way, and, for programs, the last counts; waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, counts: &ResponseCounts, now: Time) -> anyhow::Result<()> {
        if let Some(groups) = &mut self.groups {
            groups.finish(now, &mut self.output)?;
        }
        if self.output.wants_counts() {
            for count in counts.records(now) {
                self.output.put(&count);
            }
        }
        self.output.finish()
    }
}
