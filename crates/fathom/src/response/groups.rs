//! Where epochs go: each to the output, or into the groups of an interval.

use std::time::Duration;

use fathom_measure::response::{Grouping, ResponseAggregator, ResponseCounts, ResponseEpoch};
use fathom_record::{Nanoseconds, Time};

use crate::output::Output;

/// Intervals of groups, which follow the time of the epochs.
pub(super) struct Groups {
    aggregator: ResponseAggregator,
    length: u64,
    /// When the present interval began; `None` before the first epoch.
    begin: Option<u64>,
}

impl Groups {
    /// Nothing seen yet.
    pub(super) fn new(grouping: Grouping, length: Duration) -> Self {
        Self {
            aggregator: ResponseAggregator::new(grouping),
            length: Nanoseconds::from(length).0.max(1),
            begin: None,
        }
    }

    /// Takes an epoch in; the interval that ended before it, if one did, goes to the output.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch, output: &mut Output) {
        self.advance(epoch.time, output);
        self.aggregator.take(epoch);
    }

    /// Ends the interval if `now` is behind it.
    pub(super) fn advance(&mut self, now: Time, output: &mut Output) {
        let begin = *self.begin.get_or_insert(now.0);
        let passed = now.0.saturating_sub(begin) / self.length;
        if passed == 0 {
            return;
        }
        let end = Time(begin + self.length);
        self.aggregator
            .finish_interval(end, Nanoseconds(self.length), |group| output.put(group));
        // Those in between, if any, were empty.
        self.begin = Some(begin + passed * self.length);
    }

    /// The interval that is under way, with its own length.
    pub(super) fn finish(&mut self, now: Time, output: &mut Output) {
        let length = now.0.saturating_sub(self.begin.unwrap_or(now.0)).max(1);
        self.aggregator
            .finish_interval(now, Nanoseconds(length), |group| output.put(group));
    }
}

/// Lines of epochs, or of groups.
pub(super) struct Lines {
    pub(super) output: Output,
    groups: Option<Groups>,
}

impl Lines {
    /// To this output.
    pub(super) fn new(output: Output, grouping: Option<Grouping>, interval: Duration) -> Self {
        Self {
            output,
            groups: grouping.map(|grouping| Groups::new(grouping, interval)),
        }
    }

    /// Takes an epoch in.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch) {
        match &mut self.groups {
            Some(groups) => groups.take(epoch, &mut self.output),
            None => self.output.put(epoch),
        }
    }

    /// Ends the interval if `now` is behind it.
    #[cfg(feature = "live")]
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(groups) = &mut self.groups {
            groups.advance(now, &mut self.output);
        }
    }

    /// The interval that is under way, and, for programs, the last counts; waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, counts: &ResponseCounts, now: Time) -> anyhow::Result<()> {
        if let Some(groups) = &mut self.groups {
            groups.finish(now, &mut self.output);
        }
        if self.output.format().is_for_programs() {
            for count in counts.records(now) {
                self.output.put(&count);
            }
        }
        self.output.finish()
    }
}
