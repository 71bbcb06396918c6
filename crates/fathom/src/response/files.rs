//! Measuring over capture files: all through one engine, in the order given.

use std::time::Instant;

use fathom_measure::response::Engine;
use fathom_measure::{Ended, Replay, secret};

use super::arguments::ResponseArguments;
use super::groups::Lines;
use super::summary::say_summary;
use crate::captures::{Input, Reading, read_all};
use crate::output::{Backlog, Output};
use crate::signals::Signals;

/// Reads all files that were named.
///
/// # Errors
/// When a file cannot be opened or is no capture, or when the output cannot be written. A file that is damaged on the way is a warning.
pub(super) fn run(arguments: &ResponseArguments, signals: &Signals) -> anyhow::Result<()> {
    let begin = Instant::now();
    let inputs = Input::look_at_all(&arguments.source.files)?;
    let settings = arguments.settings_for_files();
    let output = arguments.open_output(Backlog::Short, signals)?;
    let mut run = Run {
        engine: Engine::new(&settings, secret(), arguments.estimation.compare)?,
        lines: Lines::new(
            output,
            arguments.grouping(),
            arguments.groups.interval,
            false,
        ),
    };
    let last = read_all(&inputs, arguments.verbose, signals, &mut run)?;
    let Run { engine, lines } = &mut run;
    if let Some(replay) = last {
        engine.finish(replay.interfaces(), &mut |epoch| lines.take(&epoch));
    }
    lines.finish(engine.counts(), engine.now())?;
    say_summary(engine.counts(), begin.elapsed());
    Ok(())
}

struct Run {
    engine: Engine,
    lines: Lines,
}

impl Reading for Run {
    fn batch(&mut self, replay: &mut Replay) -> Option<Ended> {
        let Self { engine, lines } = self;
        replay.run(engine, &mut |epoch| lines.take(&epoch))
    }

    fn output(&mut self) -> &mut Output {
        &mut self.lines.output
    }
}
