//! Where data goes: standard output or a file, in whole lines.

mod csv;
pub(crate) mod deliver;
mod export;
mod handover;
mod host;
mod keeper;
mod lines;
mod open;
mod record_sink;
mod writer;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fathom_measure::Counts;
use fathom_record::format::{Format, Sink};
use fathom_record::{Count, Record, Schema, Time};

use crate::arguments::{Choice, ExportArguments, OutputTarget};
use crate::failure::say;
use crate::signals::Signals;
use crate::zone;
use csv::Tables;
pub(crate) use lines::{Formatter, LineOptions};
use open::open_to_append;
use record_sink::Sinks;
use writer::{Failure, Writer};

/// Written out when there is more than this: waking the thread that writes costs as much as a few
/// records.
const FULL_BYTES: usize = 256 << 10;

/// How records are printed.
pub(crate) const FORMATS: [Choice<Format>; 3] = [
    TEXT,
    JSON,
    (
        Format::Csv,
        Format::Csv.name(),
        "Comma-separated values: a table of one kind of record",
    ),
];
/// The same where there are no tables.
pub(crate) const LINE_FORMATS: [Choice<Format>; 2] = [TEXT, JSON];
const TEXT: Choice<Format> = (Format::Text, Format::Text.name(), "Lines for people");
const JSON: Choice<Format> = (Format::Json, Format::Json.name(), "A JSON object a line");

/// How much may wait to be written. While that much waits, a caller with more to write waits too,
/// unless it [may not](Output::may_wait).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// 1 MiB, for those who read something that waits for them.
    Short,
    /// 64 MiB, for those who read something that comes whether or not it is read.
    Long,
}

impl Backlog {
    fn bytes(self) -> usize {
        match self {
            Self::Short => 1 << 20,
            Self::Long => 64 << 20,
        }
    }
}

/// An output that is open. What is put into it and flushed is written by a thread of its own.
pub(crate) struct Output {
    writer: Writer,
    /// `None`: standard output.
    path: Option<PathBuf>,
    format: Format,
    sink: Box<dyn Sink>,
    /// Formats records in place of `format`.
    formatter: Option<Box<dyn Formatter>>,
    host: String,
    buffer: Vec<u8>,
    /// What became of what was written while records were put.
    written: anyhow::Result<()>,
    /// Collectors and stores that get the same records.
    sinks: Sinks,
    /// Only these get them.
    is_silent: bool,
    signals: Signals,
    /// What is in no table of this file; `None` where all kinds may be.
    others: Option<Tables>,
}

impl Output {
    /// Opens the file to append to it, or takes standard output. Once `signals` say that it is time
    /// to end, a reader that takes nothing is not waited for. A table has records of the kind
    /// `main` alone.
    ///
    /// # Errors
    /// When the file cannot be opened, this host has no name, or the system has no thread left.
    pub(crate) fn open(
        target: &OutputTarget,
        format: Format,
        main: &'static Schema,
        backlog: Backlog,
        signals: &Signals,
    ) -> anyhow::Result<Self> {
        let host = match format {
            Format::Json | Format::Csv => target.host()?,
            Format::Text => String::new(),
        };
        let path = target.output.as_deref();
        let others = (format == Format::Csv).then(|| Tables::new(main));
        Self::start(path, format, host, others, backlog, signals)
    }

    fn start(
        path: Option<&Path>,
        format: Format,
        host: String,
        others: Option<Tables>,
        backlog: Backlog,
        signals: &Signals,
    ) -> anyhow::Result<Self> {
        let file = match path {
            Some(path) => open_to_append(path, signals)?,
            // Standard output as std gives it searches every write for the last line.
            None => io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .context("cannot use standard output")?
                .into(),
        };
        let writer = Writer::start(file, backlog.bytes(), signals.clone())
            .context("cannot start a thread that writes")?;
        Ok(Self {
            writer,
            path: path.map(Path::to_owned),
            format,
            sink: format.sink_of(&host, zone::offset_at),
            formatter: None,
            host,
            buffer: Vec::new(),
            written: Ok(()),
            sinks: Sinks::default(),
            is_silent: false,
            signals: signals.clone(),
            others,
        })
    }

    /// The same, that also sends all records to collectors, and keeps them in a store.
    /// `is_asked_for`: they are printed too, where there is one of these.
    ///
    /// # Errors
    /// When a collector cannot be reached, a store cannot be opened, or this host has no name to
    /// tell it.
    pub(crate) fn exporting(
        self,
        arguments: &ExportArguments,
        target: &OutputTarget,
        is_asked_for: bool,
    ) -> anyhow::Result<Self> {
        let sinks = Sinks::open(arguments, target)?;
        Ok(Self {
            is_silent: !sinks.is_empty() && !is_asked_for,
            sinks,
            ..self
        })
    }

    /// Text on standard output, by those who end at signals like any program.
    ///
    /// # Errors
    /// When there is no standard output, or the system has no thread left.
    pub(crate) fn text() -> anyhow::Result<Self> {
        Self::lines(Backlog::Short, &Signals::default())
    }

    /// Text on standard output.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub(crate) fn lines(backlog: Backlog, signals: &Signals) -> anyhow::Result<Self> {
        Self::start(None, Format::Text, String::new(), None, backlog, signals)
    }

    /// Takes a count, which people are told of in another way.
    pub(crate) fn put_count(&mut self, count: &Count) {
        if self.format == Format::Json {
            self.put(count);
        } else {
            self.export(count);
        }
    }

    /// Takes counts of what was lost on the way to the output and to each of the others.
    #[cfg(feature = "live")]
    pub(crate) fn put_losses(&mut self, time: Time) {
        let sinks = self.sinks.iter();
        let lost: Vec<_> = sinks
            .map(|sink| (sink.name(), sink.counts().get("lost")))
            .chain([("output", self.writer.lost_lines())])
            .filter(|&(_, lost)| lost > 0)
            .collect();
        for (name, lost) in lost {
            self.put_count(&Count::new(time, name, "lost", lost));
        }
    }

    /// Takes counts, which programs read.
    pub(crate) fn put_counts(&mut self, counts: &Counts, time: Time, measurement: &'static str) {
        for count in counts.records(time, measurement) {
            self.put_count(&count);
        }
    }

    /// Takes a record, to be written later.
    pub(crate) fn put(&mut self, record: &dyn Record) {
        if !self.is_silent {
            match (&mut self.formatter, &mut self.others) {
                (Some(formatter), _) => formatter.put(record, &mut self.buffer),
                (None, Some(others)) if !others.is_main(record) => {
                    others.put(record, self.path.as_deref(), &self.host, &self.signals);
                }
                _ => self.sink.write(record, &mut self.buffer),
            }
        }
        self.export(record);
        self.write_if_full();
    }

    /// Takes a record for collectors and the store only: people are told in another way.
    fn export(&mut self, record: &dyn Record) {
        self.sinks.put(record);
    }

    /// Takes a text as it is.
    pub(crate) fn put_text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
        self.write_if_full();
    }

    /// What is written soon is still in the processor's cache.
    fn write_if_full(&mut self) {
        if self.buffer.len() >= FULL_BYTES && self.written.is_ok() {
            self.written = self.write();
        }
    }

    /// Can nothing be written any more?
    pub(crate) fn has_failed(&self) -> bool {
        self.written.is_err()
    }

    /// Does so much wait to be written that more should wait too?
    #[cfg(feature = "live")]
    pub(crate) fn is_behind(&self) -> bool {
        self.writer.waiting_bytes() >= FULL_BYTES * 4 || self.sinks.is_behind()
    }

    /// What became of the records that went elsewhere: the name of each sink, and its counts.
    #[cfg(feature = "live")]
    pub(crate) fn sinks(&self) -> Vec<(&'static str, Counts)> {
        let sinks = self.sinks.iter();
        sinks.map(|sink| (sink.name(), sink.counts())).collect()
    }

    /// Has written what was put, in whole lines. Waits only while the backlog is full, if it may.
    ///
    /// # Errors
    /// When this, or what was put before, cannot be written; a reader that has gone away is among
    /// the causes as a broken pipe.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        std::mem::replace(&mut self.written, Ok(()))?;
        self.write()
    }

    fn write(&mut self) -> anyhow::Result<()> {
        self.sinks.tick();
        let written = self.writer.write(&mut self.buffer);
        written.map_err(|failure| self.error(failure))?;
        self.others.as_mut().map_or(Ok(()), Tables::flush)
    }

    /// Whether [`Output::flush`] may wait, as it does unless told otherwise. Where it may not,
    /// lines that nobody takes in time are lost: how many is told at the end.
    pub(crate) fn may_wait(&mut self, may_wait: bool) {
        self.writer.may_wait(may_wait);
        self.sinks.may_wait(may_wait);
        if let Some(others) = &mut self.others {
            others.may_wait(may_wait);
        }
    }

    /// Flushes, and waits until all is written; says how much was lost.
    ///
    /// # Errors
    /// As [`Output::flush`], when it is time to end and nobody takes it, and when collectors or the
    /// store have not got all.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(formatter) = &mut self.formatter {
            formatter.finish(&mut self.buffer);
        }
        self.may_wait(true);
        let written = self.flush().and_then(|()| {
            let written = self.writer.finish();
            written.map_err(|failure| self.error(failure))?;
            self.others.as_mut().map_or(Ok(()), Tables::finish)
        });
        let lost = self.writer.lost_lines();
        if lost > 0 {
            say!(
                "fathom: warning: {lost} lines were lost: {} is too slow",
                self.target_name()
            );
        }
        let finished = self.sinks.finish();
        written.and(finished)
    }

    /// Opens the file anew if a signal asked for it, as logrotate does after it has moved the file
    /// away.
    ///
    /// # Errors
    /// As [`Output::flush`]. If the new file cannot be opened, that is said, and the old one goes
    /// on being used.
    pub(crate) fn reopen_if_asked(&mut self) -> anyhow::Result<()> {
        if !self.signals.take_reopen() {
            return Ok(());
        }
        self.flush()?;
        self.reopen();
        if let Some(others) = &mut self.others {
            others.reopen();
        }
        Ok(())
    }

    fn reopen(&mut self) {
        if let Some(path) = &self.path {
            match open_to_append(path, &self.signals) {
                Ok(file) => {
                    self.writer.change(file);
                    // A new file has headers of its own.
                    self.sink = self.format.sink_of(&self.host, zone::offset_at);
                }
                Err(error) => say!("fathom: {error:#}; the old file is still written to"),
            }
        }
    }

    fn error(&self, failure: Failure) -> anyhow::Error {
        anyhow::Error::new(failure.cause).context(format!(
            "cannot write to {}: {} bytes were written, {} more were not",
            self.target_name(),
            failure.written_bytes,
            failure.lost_bytes
        ))
    }

    fn target_name(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
