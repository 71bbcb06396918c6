//! How what is measured is shown: as lines, or on a terminal as a table that refreshes.

use fathom_measure::{Counts, Measurement};
use fathom_record::{Record, Time};
use fathom_terminal::is_looked_at;

use crate::failure::say;
use crate::output::{Backlog, LineOptions, Output};
use crate::signals::Signals;
use crate::table::{Screen, TableView};

/// Where what is measured goes.
pub(crate) enum View {
    Lines(Box<Output>),
    Table(Box<Screen>),
}

impl View {
    /// The `table`, if there is one and the user looks at it, else lines.
    ///
    /// # Errors
    /// When the terminal or the output cannot be opened.
    pub(crate) fn open(
        options: LineOptions<'_>,
        table: Option<impl TableView + 'static>,
        signals: &Signals,
    ) -> anyhow::Result<Self> {
        Ok(match table.filter(|_| is_looked_at()) {
            Some(table) => Self::Table(Box::new(Screen::open(Box::new(table))?)),
            None => return Self::lines(options, signals),
        })
    }

    /// Lines.
    ///
    /// # Errors
    /// When the output cannot be opened.
    pub(crate) fn lines(options: LineOptions<'_>, signals: &Signals) -> anyhow::Result<Self> {
        let lines = options.open(Backlog::Long, signals)?;
        Ok(Self::Lines(Box::new(lines)))
    }

    /// Takes a record.
    pub(crate) fn take(&mut self, record: &dyn Record) {
        match self {
            Self::Lines(lines) => lines.put(record),
            Self::Table(screen) => screen.view.take(record),
        }
    }

    /// Tells programs of the counts; people are told at the end.
    pub(super) fn put_counts(&mut self, counts: &Counts, time: Time, measurement: &'static str) {
        if let Self::Lines(lines) = self {
            lines.put_counts(counts, time, measurement);
        }
    }

    /// Tells programs of what was lost on its way to them.
    pub(super) fn put_losses(&mut self, time: Time) {
        if let Self::Lines(lines) = self {
            lines.put_losses(time);
        }
    }

    /// Tells the user something that is no data.
    pub(crate) fn say(&mut self, message: String) {
        match self {
            Self::Lines(_) => say!("fathom: {message}"),
            Self::Table(screen) => screen.say(message),
        }
    }

    /// Does so much wait to be written that more should wait, too?
    pub(super) fn is_behind(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.is_behind())
    }

    /// Whether records may wait for the reader.
    pub(super) fn may_wait(&mut self, may_wait: bool) {
        if let Self::Lines(lines) = self {
            lines.may_wait(may_wait);
        }
    }

    /// What became of records that went to collectors and stores, a measurement's counts each.
    pub(crate) fn sinks(&self) -> Vec<(&'static str, Counts)> {
        match self {
            Self::Lines(lines) => lines.sinks(),
            Self::Table(_) => Vec::new(),
        }
    }

    /// Shows what has come. `false`: the user has seen enough.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(super) fn refresh(
        &mut self,
        measurements: &[Box<dyn Measurement>],
    ) -> anyhow::Result<bool> {
        match self {
            Self::Lines(lines) => {
                lines.flush()?;
                lines.reopen_if_asked()?;
                Ok(true)
            }
            Self::Table(screen) => {
                let next = screen.refresh(|table, now| {
                    for measurement in measurements {
                        table.update(now, &measurement.counts()?);
                    }
                    Ok(())
                })?;
                Ok(next.is_continue())
            }
        }
    }

    /// Writes the rest, and waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Lines(lines) => lines.finish(),
            Self::Table(_) => Ok(()),
        }
    }
}
