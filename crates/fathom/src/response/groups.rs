//! Intervals of groups that follow the time of a capture.

use fathom_measure::response::{Grouping, ResponseAggregator, ResponseEpoch};
use fathom_record::{Nanoseconds, Time};

use crate::output::Lines;

/// Puts epochs into intervals, the first of which begins with the first epoch.
pub(super) struct Groups {
    aggregator: ResponseAggregator,
    length: Nanoseconds,
    /// When the present interval began; `None` before the first epoch.
    begin: Option<u64>,
}

impl Groups {
    /// Nothing seen yet.
    pub(super) fn new(grouping: Grouping, length: Nanoseconds) -> Self {
        Self {
            aggregator: ResponseAggregator::new(grouping),
            length,
            begin: None,
        }
    }

    /// Takes an epoch in, after the interval that ended before it, if one did.
    pub(super) fn take(&mut self, epoch: &ResponseEpoch, lines: &mut Lines) {
        let length = self.length.0.max(1);
        let begin = *self.begin.get_or_insert(epoch.time.0);
        let passed = epoch.time.0.saturating_sub(begin) / length;
        if passed > 0 {
            self.write(Time(begin + length), self.length, lines);
            // Those in between, if any, were empty.
            self.begin = Some(begin + passed * length);
        }
        self.aggregator.take(epoch);
    }

    /// At the end of all: the interval that is not full, with its own length.
    pub(super) fn finish(&mut self, now: Time, lines: &mut Lines) {
        let length = now.0.saturating_sub(self.begin.unwrap_or(now.0)).max(1);
        self.write(now, Nanoseconds(length), lines);
    }

    fn write(&mut self, end: Time, length: Nanoseconds, lines: &mut Lines) {
        for record in self.aggregator.end_interval(end, length) {
            lines.put(&record);
        }
    }
}
