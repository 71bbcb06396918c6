//! Measuring over capture files: all through one engine, in the order given.

use std::time::Instant;

use clap::FromArgMatches;
use fathom_measure::rtt::{Engine, GroupBy, Report};
use fathom_measure::{Ended, Replay, secret};

use super::MEASUREMENT;
use super::arguments::RttArguments;
use super::intervals::Intervals;
use crate::captures::{Input, Reading, read_all};
use crate::import::Request;
use crate::output::{Backlog, Output};
use crate::signals::Signals;
use crate::summary::say_summary;

/// Reads all files that were named.
///
/// # Errors
/// When a file cannot be opened or is no capture, or when the output cannot be written. A file that
/// is damaged on the way is a warning.
pub(super) fn run(arguments: &RttArguments, signals: &Signals) -> anyhow::Result<()> {
    let begin = Instant::now();
    let inputs = Input::look_at_all(&arguments.source.files)?;
    let mut run = Run {
        engine: Engine::new(&arguments.settings_for_files(), secret())?,
        lines: arguments.line_options().open(Backlog::Short, signals)?,
        intervals: arguments.aggregation().map(Intervals::new),
        has_reader: arguments.threads > 1,
    };
    let last = read_all(&inputs, arguments.verbose, signals, &mut run)?;
    run.finish(last.as_ref())?;
    say_summary(&run.engine.counts(), begin.elapsed());
    Ok(())
}

/// Puts records of each flow, direction and interval into a store.
///
/// # Errors
/// As [`run`], and when an option of `fathom rtt` is wrong.
pub(super) fn import(request: &Request<'_>) -> anyhow::Result<()> {
    let mut arguments = RttArguments::from_arg_matches(request.options)?;
    arguments.source.files = request.files.to_vec();
    arguments.verbose = request.is_verbose;
    arguments.aggregation.interval = Some(request.interval);
    arguments.aggregation.by = GroupBy::Flow;
    arguments.output.format = None;
    arguments.output.target = request.target.clone();
    arguments.export = request.export.clone();
    run(&arguments, request.signals)
}

struct Run {
    engine: Engine,
    lines: Output,
    intervals: Option<Intervals>,
    /// A thread of its own reads ahead.
    has_reader: bool,
}

impl Reading for Run {
    fn prepare(&self, replay: Replay) -> Replay {
        let replay = match &self.intervals {
            Some(intervals) => intervals.prepare(replay),
            None => replay,
        };
        if self.has_reader {
            replay.read_ahead(&self.engine)
        } else {
            replay
        }
    }

    fn lines(&mut self) -> &mut Output {
        &mut self.lines
    }

    fn file_done(&mut self, replay: &Replay) {
        if let Some(intervals) = &mut self.intervals {
            intervals.count_file(replay, &self.engine);
        }
    }

    fn batch(&mut self, replay: &mut Replay) -> Option<Ended> {
        let Self {
            engine,
            lines,
            intervals,
            ..
        } = self;
        let Some(intervals) = intervals else {
            return replay.run(engine, &mut |report| lines.put(&report));
        };
        let ended = replay.run(engine, &mut |report| match report {
            Report::Sample(sample, _) => intervals.take(sample),
            Report::Flow(_) => lines.put(&report),
        });
        intervals.settle(replay, engine, lines);
        ended
    }
}

impl Run {
    /// The end of flows that are still open, the last interval, the last counts, and all that was
    /// not written yet.
    fn finish(&mut self, last: Option<&Replay>) -> anyhow::Result<()> {
        if let Some(replay) = last {
            let lines = &mut self.lines;
            self.engine.finish(replay.interfaces(), &mut |report| {
                lines.put(&report);
            });
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.finish(&self.engine, &mut self.lines);
        } else {
            let counts = self.engine.counts();
            self.lines
                .put_counts(&counts, self.engine.now(), MEASUREMENT.name);
        }
        self.lines.finish()
    }
}
