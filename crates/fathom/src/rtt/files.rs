//! Measuring over capture files: all through one engine, in the order given.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use anyhow::Context;
use fathom_measure::rtt::{Engine, Report};
use fathom_measure::{Ended, Replay};

use super::intervals::Intervals;
use super::progress::Progress;
use super::stream::Stream;
use super::summary::say_summary;
use crate::arguments::RttArguments;
use crate::failure::say;
use crate::output::Output;
use crate::signals::Signals;

/// Reads all files that were named.
///
/// # Errors
/// When a file cannot be opened or is no capture, or when the output cannot be written. A file that is damaged on the way is a warning.
pub(super) fn run(arguments: &RttArguments, signals: &Signals) -> anyhow::Result<()> {
    let begin = Instant::now();
    let inputs = arguments
        .files
        .iter()
        .map(|path| Input::look_at(path))
        .collect::<Result<Vec<_>, _>>()?;
    // Secret, so that nobody can aim packets at one bucket of a hash table.
    let seed = RandomState::new().hash_one(0);
    let mut run = Run {
        engine: Engine::new(&arguments.settings_for_files(), seed)?,
        output: arguments.open_output()?,
        intervals: arguments.aggregation().map(Intervals::new),
        progress: Progress::new(inputs.iter().map(|input| input.bytes).sum()),
        signals,
    };
    let mut last = None;
    for input in &inputs {
        if signals.should_stop() {
            break;
        }
        if arguments.verbose {
            say!("reading {}", input.path);
        }
        let mut replay = match input.open(signals) {
            // It ended while we waited for its first bytes.
            Err(_) if signals.should_stop() => break,
            opened => opened?,
        };
        if arguments.threads > 1 {
            replay = replay.read_ahead(&run.engine);
        }
        run.file(input, &mut replay)?;
        last = Some(replay);
    }
    run.finish(last.as_ref())?;
    drop(run.progress);
    say_summary(run.engine.counts(), begin.elapsed());
    Ok(())
}

/// A file that was named.
struct Input<'a> {
    path: &'a str,
    /// Its size, if it is a file that has one; others are streams.
    bytes: Option<u64>,
}

impl<'a> Input<'a> {
    /// Finds out what it is, so that a name that was mistyped is told before hours of work on the others.
    fn look_at(path: &'a str) -> anyhow::Result<Self> {
        if path == "-" {
            return Ok(Self { path, bytes: None });
        }
        let found = std::fs::metadata(path)
            .with_context(|| format!("cannot open the capture file {path}"))?;
        Ok(Self {
            path,
            bytes: found.is_file().then_some(found.len()),
        })
    }

    fn open(&self, signals: &Signals) -> anyhow::Result<Replay> {
        if self.bytes.is_some() {
            return Ok(Replay::open(self.path)?);
        }
        let (name, stream) = if self.path == "-" {
            ("stdin", Stream::standard_input(signals))
        } else {
            (self.path, Stream::open(self.path, signals))
        };
        let stream =
            stream.with_context(|| format!("cannot open the capture file {}", self.path))?;
        Ok(Replay::from_reader(name, stream)?)
    }
}

struct Run<'a> {
    engine: Engine,
    output: Output,
    intervals: Option<Intervals>,
    progress: Progress,
    signals: &'a Signals,
}

impl Run<'_> {
    fn file(&mut self, input: &Input<'_>, replay: &mut Replay) -> anyhow::Result<()> {
        loop {
            let ended = self.batch(replay);
            // What comes through a pipe may be live: it is not held back.
            if self.output.is_full() || input.bytes.is_none() {
                self.output.flush()?;
            }
            self.output.reopen_if_asked(self.signals)?;
            self.progress.at(replay.position());
            match ended {
                None if self.signals.should_stop() => break,
                None => continue,
                Some(Ended::Broken(error)) if !self.signals.should_stop() => {
                    say!(
                        "fathom: warning: {:#}; all before that was measured",
                        anyhow::Error::new(error)
                    );
                }
                Some(_) => {}
            }
            break;
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.count_file(replay, &self.engine);
        }
        self.progress
            .file_done(input.bytes.unwrap_or(replay.position()));
        Ok(())
    }

    fn batch(&mut self, replay: &mut Replay) -> Option<Ended> {
        let Self {
            engine,
            output,
            intervals,
            ..
        } = self;
        let Some(intervals) = intervals else {
            return replay.run(engine, &mut |report| output.put(report.as_record()));
        };
        let ended = replay.run(engine, &mut |report| match report {
            Report::Sample(_) => intervals.take(report),
            Report::Flow(flow) => output.put(&flow),
        });
        intervals.settle(replay, engine, output);
        ended
    }

    /// The end of flows that are still open, the last interval, the last counts, and all that was not written yet.
    fn finish(&mut self, last: Option<&Replay>) -> anyhow::Result<()> {
        if let Some(replay) = last {
            let output = &mut self.output;
            replay.finish(&self.engine, &mut |report| output.put(report.as_record()));
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.finish(&self.engine, &mut self.output);
        } else if self.output.format().is_for_programs() {
            for count in self.engine.counts().records(self.engine.now()) {
                self.output.put(&count);
            }
        }
        self.output.flush()
    }
}
