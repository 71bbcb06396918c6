//! Measuring over capture files: all through one engine, in the order given.

use std::time::Instant;

use clap::FromArgMatches;
use fathom_measure::response::{Engine, GroupBy, ResponseEpoch};
use fathom_measure::{Ended, Replay, secret};

use super::MEASUREMENT;
use super::arguments::{By, ResponseArguments};
use super::groups::Groups;
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
pub(super) fn run(arguments: &ResponseArguments, signals: &Signals) -> anyhow::Result<()> {
    let begin = Instant::now();
    let inputs = Input::look_at_all(&arguments.source.files)?;
    let settings = arguments.settings_for_files();
    let interval = arguments.groups.interval;
    let mut run = Run {
        engine: Engine::new(&settings, secret(), arguments.estimation.compare)?,
        lines: arguments.line_options().open(Backlog::Short, signals)?,
        groups: arguments
            .grouping()
            .map(|grouping| Groups::new(grouping, interval)),
    };
    let last = read_all(&inputs, arguments.verbose, signals, &mut run)?;
    run.finish(last.as_ref())?;
    say_summary(&run.engine.counts(), begin.elapsed());
    Ok(())
}

/// Puts records of each flow and interval into a store.
///
/// # Errors
/// As [`run`], and when an option of `fathom response` is wrong.
pub(super) fn import(request: &Request<'_>) -> anyhow::Result<()> {
    let mut arguments = ResponseArguments::from_arg_matches(request.options)?;
    arguments.source.files = request.files.to_vec();
    arguments.verbose = request.is_verbose;
    arguments.groups.interval = request.interval;
    arguments.groups.by = By(Some(GroupBy::Flow));
    arguments.output.format = None;
    arguments.output.target = request.target.clone();
    arguments.export = request.export.clone();
    run(&arguments, request.signals)
}

struct Run {
    engine: Engine,
    lines: Output,
    groups: Option<Groups>,
}

impl Reading for Run {
    fn batch(&mut self, replay: &mut Replay) -> Option<Ended> {
        let Self {
            engine,
            lines,
            groups,
        } = self;
        let ended = replay.run(engine, &mut |epoch| put(epoch, groups.as_mut(), lines));
        if let Some(groups) = groups {
            groups.settle(replay, lines);
        }
        ended
    }

    fn lines(&mut self) -> &mut Output {
        &mut self.lines
    }
}

impl Run {
    /// The epochs that are under way, the last interval, the last counts, and all that was not
    /// written yet.
    fn finish(&mut self, last: Option<&Replay>) -> anyhow::Result<()> {
        let Self {
            engine,
            lines,
            groups,
        } = self;
        if let Some(replay) = last {
            engine.finish(replay.interfaces(), &mut |epoch| {
                put(epoch, groups.as_mut(), lines);
            });
            if let Some(groups) = groups {
                groups.settle(replay, lines);
            }
        }
        let now = engine.now();
        if let Some(groups) = groups {
            groups.finish(now, lines);
        }
        lines.put_counts(&engine.counts(), now, MEASUREMENT.name);
        lines.finish()
    }
}

/// An epoch goes into a group if there are any.
fn put(epoch: ResponseEpoch, groups: Option<&mut Groups>, lines: &mut Output) {
    match groups {
        Some(groups) => groups.take(epoch),
        None => lines.put(&epoch),
    }
}
