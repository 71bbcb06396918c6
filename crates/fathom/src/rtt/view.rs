//! How a live measurement is shown: as lines, or on a terminal as a table that refreshes.

use fathom_measure::rtt::{Counts, Live, Report};
use fathom_record::{Record, Time};

use super::arguments::RttArguments;
use super::lines::Lines;
use super::table::RttTable;
use crate::failure::say;
use crate::output::Backlog;
use crate::signals::Signals;
use crate::table::{Screen, Wish, is_looked_at};

/// Where what is measured goes.
pub(super) enum View {
    Lines(Box<Lines>),
    Table(Box<Screen<RttTable>>),
}

impl View {
    /// A table if it is that which the user looks at, else lines.
    ///
    /// # Errors
    /// When the output cannot be opened.
    pub(super) fn open(arguments: &RttArguments, signals: &Signals) -> anyhow::Result<Self> {
        let asks_for_lines = arguments.output.format.is_some()
            || arguments.output.place.output.is_some()
            || arguments.output.events
            || arguments.export.is_asked_for()
            || arguments.aggregation.interval.is_some();
        if !asks_for_lines && is_looked_at() {
            let table = RttTable::new(&arguments.source.interface);
            return Ok(Self::Table(Box::new(Screen::open(table)?)));
        }
        let lines = Lines::open(arguments, Backlog::Long, signals)?;
        Ok(Self::Lines(Box::new(lines)))
    }

    pub(super) fn take(&mut self, report: &Report) {
        match (self, report) {
            (Self::Lines(lines), report) => lines.put(report),
            (Self::Table(screen), Report::Sample(sample, _)) => screen.shown.take(sample),
            (Self::Table(_), Report::Flow(_)) => {}
        }
    }

    pub(super) fn put(&mut self, record: &dyn Record) {
        if let Self::Lines(lines) = self {
            lines.output.put(record);
        }
    }

    pub(super) fn put_counts(&mut self, counts: &Counts, time: Time) {
        for count in counts.records(time) {
            self.put(&count);
        }
    }

    /// Tells the user something that is no data.
    pub(super) fn say(&mut self, message: String) {
        match self {
            Self::Lines(_) => say!("fathom: {message}"),
            Self::Table(screen) => screen.say(message),
        }
    }

    pub(super) fn is_for_programs(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.output.wants_counts())
    }

    /// Shows what has come. `false`: the user has seen enough.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(super) fn refresh(&mut self, live: &Live) -> anyhow::Result<bool> {
        match self {
            Self::Lines(lines) => {
                lines.output.flush()?;
                lines.output.reopen_if_asked()?;
                Ok(true)
            }
            Self::Table(screen) => {
                let wish = screen.refresh(|table, now| {
                    table.update(now, live.counts()?);
                    Ok(())
                })?;
                Ok(wish == Wish::More)
            }
        }
    }

    /// Writes the rest, and waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Lines(lines) => lines.output.finish(),
            Self::Table(_) => Ok(()),
        }
    }
}
