//! Intervals of aggregation that follow the time of a capture.

use fathom_measure::Replay;
use fathom_measure::rtt::{Aggregation, Aggregator, Engine, RttSample};
use fathom_record::{Nanoseconds, Time};

use super::MEASUREMENT;
use crate::output::Lines;

/// Puts samples into intervals, the first of which begins with the first sample.
///
/// Samples are in the interval that their time says. Packets and bytes are counted at the end of a
/// batch of frames: at a boundary up to a batch of them is in the interval before.
pub(super) struct Intervals {
    aggregator: Aggregator,
    length_ns: u64,
    /// Where the present interval began; `None` before the first sample.
    begin_ns: Option<u64>,
    samples: Vec<RttSample>,
}

impl Intervals {
    /// Nothing seen yet.
    pub(super) fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregator: Aggregator::new(aggregation),
            length_ns: u64::try_from(aggregation.interval.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1),
            begin_ns: None,
            samples: Vec::new(),
        }
    }

    /// Takes a sample of the present batch.
    pub(super) fn take(&mut self, sample: RttSample) {
        self.samples.push(sample);
    }

    /// After a batch: ends the intervals that are over, into the output.
    pub(super) fn settle(&mut self, replay: &Replay, engine: &Engine, lines: &mut Lines) {
        let mut samples = std::mem::take(&mut self.samples);
        for sample in samples.drain(..) {
            self.advance(sample.time.0, replay, engine, lines);
            self.aggregator.on_sample(&sample);
        }
        self.samples = samples;
        self.advance(engine.now().0, replay, engine, lines);
    }

    fn advance(&mut self, now_ns: u64, replay: &Replay, engine: &Engine, lines: &mut Lines) {
        if now_ns == 0 {
            return; // no packet yet
        }
        let begin = *self.begin_ns.get_or_insert(now_ns);
        let passed = now_ns.saturating_sub(begin) / self.length_ns;
        if passed == 0 {
            return;
        }
        engine.count_traffic(&mut self.aggregator, replay.interfaces());
        let end = begin.saturating_add(self.length_ns);
        self.write(Time(end), self.length_ns, engine, lines);
        // Those in between, if any, were empty.
        self.begin_ns = Some(begin.saturating_add(passed.saturating_mul(self.length_ns)));
    }

    /// At the end of a file, whose packets nobody can count later.
    pub(super) fn count_file(&mut self, replay: &Replay, engine: &Engine) {
        engine.count_traffic(&mut self.aggregator, replay.interfaces());
    }

    /// At the end of all: the interval that is not full, with its own length.
    pub(super) fn finish(&mut self, engine: &Engine, lines: &mut Lines) {
        let now = engine.now();
        let begin = self.begin_ns.unwrap_or(now.0);
        let length = now.0.saturating_sub(begin);
        self.write(now, length, engine, lines);
    }

    fn write(&mut self, end: Time, length_ns: u64, engine: &Engine, lines: &mut Lines) {
        let records = self.aggregator.end_interval(end, Nanoseconds(length_ns));
        if records.len() == 0 {
            return;
        }
        for record in records {
            lines.put(&record);
        }
        lines.put_counts(&engine.counts(), end, MEASUREMENT.name);
    }
}
