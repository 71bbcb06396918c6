//! Capture files that were named on the command line: looked at, opened, read to the end, and how
//! far that has come.

mod progress;
mod stream;

use anyhow::Context;
use fathom_measure::{Ended, Replay};

use progress::Progress;
use stream::Stream;

use crate::failure::say;
use crate::output::Output;
use crate::signals::Signals;

/// What files are read for.
pub(crate) trait Reading {
    /// How a file is read that was just opened.
    fn prepare(&self, replay: Replay) -> Replay {
        replay
    }

    /// Measures the next frames; how the file ended, if it did.
    fn batch(&mut self, replay: &mut Replay) -> Option<Ended>;

    /// Where records go.
    fn lines(&mut self) -> &mut Output;

    /// A file has been read.
    fn file_done(&mut self, _: &Replay) {}
}

/// Reads all files in the order given, or until it is told to stop. The last one that was read.
///
/// # Errors
/// When a file cannot be opened or is no capture, or when the output cannot be written. A file that
/// is damaged on the way is a warning.
pub(crate) fn read_all(
    inputs: &[Input<'_>],
    is_verbose: bool,
    signals: &Signals,
    reading: &mut impl Reading,
) -> anyhow::Result<Option<Replay>> {
    let mut progress = Progress::new(inputs.iter().map(|input| input.bytes).sum());
    let mut last = None;
    for input in inputs {
        if signals.should_stop() {
            break;
        }
        if is_verbose {
            say!("reading {}", input.path);
        }
        let opened = match input.open(signals) {
            // It ended while we waited for its first bytes.
            Err(_) if signals.should_stop() => break,
            opened => opened?,
        };
        let mut replay = reading.prepare(opened);
        read(input, &mut replay, signals, &progress, reading)?;
        say_copies(input, &replay);
        reading.file_done(&replay);
        progress.file_done(input.bytes.unwrap_or(replay.position()));
        last = Some(replay);
    }
    Ok(last)
}

/// Says that packets were left out, and what to do about it.
fn say_copies(input: &Input<'_>, replay: &Replay) {
    let copies = replay.copies();
    if copies > 0 {
        say!(
            "fathom: warning: {}: {copies} packets are copies of others, and left out; capture on one interface, or mirror one direction of each port",
            input.path
        );
    }
}

fn read(
    input: &Input<'_>,
    replay: &mut Replay,
    signals: &Signals,
    progress: &Progress,
    reading: &mut impl Reading,
) -> anyhow::Result<()> {
    loop {
        let ended = reading.batch(replay);
        let lines = reading.lines();
        // What comes through a pipe may be live: it is not held back.
        if lines.has_failed() || input.bytes.is_none() {
            lines.flush()?;
        }
        lines.reopen_if_asked()?;
        progress.at(replay.position());
        match ended {
            None if signals.should_stop() => return Ok(()),
            None => {}
            Some(Ended::Broken(error)) if !signals.should_stop() => {
                say!(
                    "fathom: warning: {:#}; all before that was measured",
                    anyhow::Error::new(error)
                );
                return Ok(());
            }
            Some(_) => return Ok(()),
        }
    }
}

/// A file that was named.
pub(crate) struct Input<'a> {
    path: &'a str,
    /// Its size, if it is a file that has one; others are streams.
    bytes: Option<u64>,
}

impl<'a> Input<'a> {
    /// Finds out what they are, so that a name that was mistyped is told before hours of work on
    /// the others.
    ///
    /// # Errors
    /// When one of them is not there.
    pub(crate) fn look_at_all(paths: &'a [String]) -> anyhow::Result<Vec<Self>> {
        paths.iter().map(|path| Self::look_at(path)).collect()
    }

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

    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened or is no capture.
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
