//! Measuring over capture files: all through one engine, in the order given.

use std::time::Instant;

use clap::FromArgMatches;
use fathom_measure::traffic::{Engine, Settings};
use fathom_measure::{Ended, Replay, secret};

use super::MEASUREMENT;
use super::arguments::TrafficArguments;
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
pub(super) fn run(arguments: &TrafficArguments, signals: &Signals) -> anyhow::Result<()> {
    let begin = Instant::now();
    let inputs = Input::look_at_all(&arguments.source.files)?;
    let settings = arguments.settings(&Settings::files());
    let mut run = Run {
        engine: Engine::new(&settings, arguments.interval, secret())?,
        lines: arguments.line_options().open(Backlog::Short, signals)?,
    };
    let last = read_all(&inputs, arguments.verbose, signals, &mut run)?;
    let Run { engine, lines } = &mut run;
    if let Some(replay) = last {
        engine.finish(replay.interfaces(), &mut |record| lines.put(&record));
    }
    lines.put_counts(&engine.counts(), engine.now(), MEASUREMENT.name);
    lines.finish()?;
    say_summary(&engine.counts(), begin.elapsed());
    Ok(())
}

/// Puts records of each flow and interval into a store.
///
/// # Errors
/// As [`run`], and when an option of `fathom traffic` is wrong.
pub(super) fn import(request: &Request<'_>) -> anyhow::Result<()> {
    let mut arguments = TrafficArguments::from_arg_matches(request.options)?;
    arguments.source.files = request.files.to_vec();
    arguments.verbose = request.is_verbose;
    arguments.interval = request.interval;
    arguments.output.format = None;
    arguments.output.target = request.target.clone();
    arguments.export = request.export.clone();
    run(&arguments, request.signals)
}

struct Run {
    engine: Engine,
    lines: Output,
}

impl Reading for Run {
    fn batch(&mut self, replay: &mut Replay) -> Option<Ended> {
        let Self { engine, lines } = self;
        replay.run(engine, &mut |record| lines.put(&record))
    }

    fn lines(&mut self) -> &mut Output {
        &mut self.lines
    }
}
