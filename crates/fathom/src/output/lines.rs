//! What was asked for about records that are printed as lines.

use fathom_record::{Record, Schema};

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

/// What was asked for.
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
    pub(crate) fn open(self, backlog: Backlog, signals: &Signals) -> anyhow::Result<Output> {
        let format = self.format.unwrap_or(Format::Text);
        let output = Output::open(self.target, format, self.main, backlog, signals)?;
        let is_printed = self.is_printed();
        let mut output = output.exporting(self.export, self.target, is_printed)?;
        output.formatter = self.formatter;
        output.may_wait(backlog == Backlog::Short);
        Ok(output)
    }
}
