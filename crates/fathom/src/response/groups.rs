//! Intervals of groups that follow the time of a capture.

use std::time::Duration;

use fathom_measure::response::{Grouping, ResponseAggregator, ResponseEpoch};
use fathom_measure::{CaptureInterval, CaptureIntervals, Replay};
use fathom_record::{Nanoseconds, Time};

use crate::output::Output;

/// Puts epochs into intervals, which end at multiples of their length.
pub(super) struct Groups {
    aggregator: ResponseAggregator,
    intervals: CaptureIntervals,
    epochs: Vec<ResponseEpoch>,
}

impl Groups {
    /// Nothing seen yet.
    pub(super) fn new(grouping: Grouping, length: Duration) -> Self {
        Self {
            aggregator: ResponseAggregator::new(grouping),
            intervals: CaptureIntervals::new(length),
            epochs: Vec::new(),
        }
    }

    /// Takes an epoch of the present batch.
    pub(super) fn take(&mut self, epoch: ResponseEpoch) {
        self.epochs.push(epoch);
    }

    /// After a batch: ends the intervals that are over, into the output.
    pub(super) fn settle(&mut self, replay: &Replay, lines: &mut Output) {
        if let Some(begin) = replay.begin() {
            self.intervals.begin(begin);
        }
        let mut epochs = std::mem::take(&mut self.epochs);
        for epoch in epochs.drain(..) {
            if let Some(over) = self.intervals.advance(epoch.time) {
                self.write(over, lines);
            }
            self.aggregator.take(&epoch);
        }
        self.epochs = epochs;
    }

    /// At the end of all: the interval that is under way.
    pub(super) fn finish(&mut self, now: Time, lines: &mut Output) {
        if let Some(over) = self.intervals.finish(now) {
            self.write(over, lines);
        }
    }

    fn write(&mut self, over: CaptureInterval, lines: &mut Output) {
        // By it responses are divided.
        let length = Nanoseconds(over.length.0.max(1));
        for record in self.aggregator.end_interval(over.end, length) {
            lines.put(&record);
        }
    }
}
