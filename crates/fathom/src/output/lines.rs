//! Records as lines, in the format that was asked for.

use fathom_measure::Counts;
use fathom_record::{Record, Schema, Time};

use super::{Backlog, Format, Output};
use crate::arguments::{ExportArguments, OutputTarget};
use crate::signals::Signals;

/// A format that one measurement has for itself.
pub(crate) trait Formatter {
    /// Writes the lines of a record.
    fn put(&mut self, record: &dyn Record, text: &mut Vec<u8>);

    /// Writes what stands at the end.
    fn finish(&mut self, _text: &mut Vec<u8>) {}
}

/// What was asked for about records that are printed.
pub(crate) struct LineOptions<'a> {
    pub(crate) target: &'a OutputTarget,
    pub(crate) export: &'a ExportArguments,
    /// By default text.
    pub(crate) format: Option<Format>,
    /// Formats records in place of `format`.
    pub(crate) formatter: Option<Box<dyn Formatter>>,
    /// The kind of record that a table has.
    pub(crate) main: &'static Schema,
}

impl LineOptions<'_> {
    /// Are lines what the user wants to see? Else there may be a table.
    #[cfg(feature = "live")]
    pub(crate) fn is_asked_for(&self) -> bool {
        self.is_printed() || self.export.is_asked_for()
    }

    fn is_printed(&self) -> bool {
        self.format.is_some() || self.formatter.is_some() || self.target.output.is_some()
    }

    /// Opens it. What comes whether or not it is read, with a long backlog, does not wait.
    ///
    /// # Errors
    /// When it cannot be opened, or a collector cannot be reached.
    pub(crate) fn open(self, backlog: Backlog, signals: &Signals) -> anyhow::Result<Lines> {
        let format = self.format.unwrap_or(Format::Text);
        let output = Output::open(self.target, format, self.main, backlog, signals)?;
        let is_printed = self.is_printed();
        let mut output = output.exporting(self.export, self.target, is_printed)?;
        output.may_wait(backlog == Backlog::Short);
        Ok(Lines::new(output, self.formatter))
    }
}

/// Where records go, a line each or in a format of their own.
pub(crate) struct Lines {
    pub(crate) output: Output,
    formatter: Option<Box<dyn Formatter>>,
    written: anyhow::Result<()>,
}

impl Lines {
    pub(crate) fn new(output: Output, formatter: Option<Box<dyn Formatter>>) -> Self {
        Self {
            output,
            formatter,
            written: Ok(()),
        }
    }

    /// Takes a record.
    pub(crate) fn put(&mut self, record: &dyn Record) {
        match &mut self.formatter {
            None => self.output.put(record),
            Some(formatter) => {
                formatter.put(record, self.output.text_buffer());
                self.output.export(record);
            }
        }
        // What is written soon is still in the processor's cache.
        if self.output.is_full() && self.written.is_ok() {
            self.written = self.output.flush();
        }
    }

    /// Takes counts, which programs read.
    pub(crate) fn put_counts(&mut self, counts: &Counts, time: Time, measurement: &'static str) {
        for count in counts.records(time, measurement) {
            self.output.put_count(&count);
        }
    }

    /// Is there so much, or has something failed?
    pub(crate) fn should_flush(&self) -> bool {
        self.output.is_full() || self.written.is_err()
    }

    /// Has written what was put.
    ///
    /// # Errors
    /// When this, or what was put before, cannot be written.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        std::mem::replace(&mut self.written, Ok(()))?;
        self.output.flush()
    }

    /// Writes the rest, and waits until all is written.
    ///
    /// # Errors
    /// As [`Lines::flush`].
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(formatter) = &mut self.formatter {
            formatter.finish(self.output.text_buffer());
        }
        let written = std::mem::replace(&mut self.written, Ok(()));
        written.and(self.output.finish())
    }
}
