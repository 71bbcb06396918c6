//! Intervals of aggregation that follow the time of a capture.

use fathom_measure::Replay;
use fathom_measure::rtt::{Aggregation, Aggregator, Engine, Report};
use fathom_record::{Nanoseconds, Time};

use crate::output::Output;

/// Puts samples into intervals, the first of which begins with the first sample.
///
/// Samples are in the interval that their time says. Packets and bytes are counted at the end of a batch of frames: at a boundary up to
/// a batch of them is in the interval before.
pub(super) struct Intervals {
    aggregator: Aggregator,
    length_ns: u64,
    /// Where the present interval began; `None` before the first sample.
    begin_ns: Option<u64>,
    reports: Vec<Report>,
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
            reports: Vec::new(),
        }
    }

    /// Takes a report of the present batch; flows that open and close are not for it.
    pub(super) fn take(&mut self, report: Report) {
        self.reports.push(report);
    }

    /// After a batch: ends the intervals that are over, into the output.
    pub(super) fn settle(&mut self, replay: &Replay, engine: &Engine, output: &mut Output) {
        let mut reports = std::mem::take(&mut self.reports);
        for report in &reports {
            if let Report::Sample(sample, _) = report {
                self.advance(sample.time.0, replay, engine, output);
                self.aggregator.on_report(report);
            }
        }
        reports.clear();
        self.reports = reports;
        self.advance(engine.now().0, replay, engine, output);
    }

    fn advance(&mut self, now_ns: u64, replay: &Replay, engine: &Engine, output: &mut Output) {
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
        self.write(Time(end), self.length_ns, engine, output);
        // Those in between, if any, were empty.
        self.begin_ns = Some(begin.saturating_add(passed.saturating_mul(self.length_ns)));
    }

    /// At the end of a file, whose packets nobody can count later.
    pub(super) fn count_file(&mut self, replay: &Replay, engine: &Engine) {
        engine.count_traffic(&mut self.aggregator, replay.interfaces());
    }

    /// At the end of all: the interval that is not full, with its own length.
    pub(super) fn finish(&mut self, engine: &Engine, output: &mut Output) {
        let now = engine.now();
        let begin = self.begin_ns.unwrap_or(now.0);
        let length = now.0.saturating_sub(begin);
        self.write(now, length, engine, output);
    }

    fn write(&mut self, end: Time, length_ns: u64, engine: &Engine, output: &mut Output) {
        let records = self.aggregator.end_interval(end, Nanoseconds(length_ns));
        if records.len() == 0 {
            return;
        }
        for record in records {
            output.put(&record);
        }
        for count in engine.counts().records(end) {
            output.put(&count);
        }
    }
}
