//! How a live measurement is shown: as lines, or on a terminal as a table that refreshes.

use fathom_measure::response::{ResponseCounts, ResponseEpoch, ResponseWait};
use fathom_record::Time;

use super::arguments::{ResponseArguments, ResponsesBy};
use super::groups::Lines;
use super::table::ServiceTable;
use crate::failure::say;
use crate::output::Backlog;
use crate::signals::Signals;
use crate::table::{Screen, Wish, is_looked_at};

/// Where what is measured goes.
pub(super) enum View {
    Lines(Box<Lines>),
    Table(Box<Screen<ServiceTable>>),
}

impl View {
    /// A table if it is that which the user looks at, else lines.
    ///
    /// # Errors
    /// When the output cannot be opened.
    pub(super) fn open(arguments: &ResponseArguments, signals: &Signals) -> anyhow::Result<Self> {
        let asks_for_lines = arguments.output.format.is_some()
            || arguments.output.place.output.is_some()
            || arguments.groups.by != ResponsesBy::Flow
            || arguments.export.is_asked_for();
        if !asks_for_lines && is_looked_at() {
            let table = ServiceTable::new(&arguments.source.interface);
            return Ok(Self::Table(Box::new(Screen::open(table)?)));
        }
        let output = arguments.open_output(Backlog::Long, signals)?;
        let lines = Lines::new(
            output,
            arguments.grouping(),
            arguments.groups.interval,
            true,
        );
        Ok(Self::Lines(Box::new(lines)))
    }

    pub(super) fn take(&mut self, epoch: &ResponseEpoch) {
        match self {
            Self::Lines(lines) => lines.take(epoch),
            Self::Table(screen) => screen.shown.take(epoch),
        }
    }

    /// A flow that waits; the table shows those anyway.
    pub(super) fn tell(&mut self, wait: &ResponseWait) {
        match self {
            Self::Lines(lines) => lines.output.put(wait),
            Self::Table(_) => {}
        }
    }

    /// Tells the user something that is no data.
    pub(super) fn say(&mut self, message: String) {
        match self {
            Self::Lines(_) => say!("fathom: {message}"),
            Self::Table(screen) => screen.say(message),
        }
    }

    /// Shows what has come. `false`: the user has seen enough.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(super) fn refresh(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Lines(lines) => {
                lines.advance(Time::now());
                lines.output.flush()?;
                lines.output.reopen_if_asked()?;
                Ok(true)
            }
            Self::Table(screen) => {
                let wish = screen.refresh(|table, now| {
                    table.update(now);
                    Ok(())
                })?;
                Ok(wish == Wish::More)
            }
        }
    }

    /// The interval that is under way, and the last counts; waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self, counts: &ResponseCounts) -> anyhow::Result<()> {
        match self {
            Self::Lines(lines) => lines.finish(counts, Time::now()),
            Self::Table(_) => Ok(()),
        }
    }
}
