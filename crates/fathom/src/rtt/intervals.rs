//! Intervals of aggregation that follow the time of a capture.

use fathom_measure::rtt::{Aggregation, Aggregator, Engine, RttSample};
use fathom_measure::{CaptureInterval, CaptureIntervals, Replay};

use super::MEASUREMENT;
use crate::output::Output;

/// Puts samples into intervals, which end at multiples of their length.
pub(super) struct Intervals {
    aggregator: Aggregator,
    clock: CaptureIntervals,
    samples: Vec<RttSample>,
}

impl Intervals {
    /// Nothing seen yet.
    pub(super) fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregator: Aggregator::new(aggregation),
            clock: CaptureIntervals::new(aggregation.interval),
            samples: Vec::new(),
        }
    }

    /// Takes a sample of the present batch.
    pub(super) fn take(&mut self, sample: RttSample) {
        self.samples.push(sample);
    }

    /// The packets of a file are measured interval by interval.
    pub(super) fn prepare(&self, mut replay: Replay) -> Replay {
        replay.stop_at(self.clock.end());
        replay
    }

    /// After a batch: ends the interval that is over, into the output.
    pub(super) fn settle(&mut self, replay: &mut Replay, engine: &Engine, lines: &mut Output) {
        for sample in self.samples.drain(..) {
            self.aggregator.on_sample(&sample);
        }
        let next = replay.stopped_before();
        if let Some(over) = next.and_then(|next| self.clock.advance(next)) {
            engine.count_traffic(&mut self.aggregator, replay.interfaces());
            self.write(over, engine, lines);
        }
        replay.stop_at(self.clock.end());
    }

    /// At the end of a file, whose packets nobody can count later.
    pub(super) fn count_file(&mut self, replay: &Replay, engine: &Engine) {
        engine.count_traffic(&mut self.aggregator, replay.interfaces());
    }

    /// At the end of all: the interval that is under way.
    pub(super) fn finish(&mut self, engine: &Engine, lines: &mut Output) {
        if let Some(over) = self.clock.finish(engine.now()) {
            self.write(over, engine, lines);
        }
    }

    fn write(&mut self, over: CaptureInterval, engine: &Engine, lines: &mut Output) {
        let records = self.aggregator.end_interval(over.end, over.length);
        if records.len() == 0 {
            return;
        }
        for record in records {
            lines.put(&record);
        }
        lines.put_counts(&engine.counts(), over.end, MEASUREMENT.name);
    }
}
