//! How hops are shown: as lines, in the columns of ELF, as a graph at the end, or on a terminal as a table that refreshes.

use fathom_measure::hops::{HopSummary, Report};
use fathom_record::Count;

use super::arguments::{HopsArguments, HopsFormat};
use super::dot;
use super::elf::ElfWriter;
use super::paths::Paths;
use super::table::HopsTable;
use crate::failure::say;
use crate::output::{Backlog, Output, OutputFormat};
use crate::signals::Signals;
use crate::table::{Screen, Wish, is_looked_at};
use crate::zone;

/// Where what is measured goes.
pub(super) enum View {
    /// Records.
    Lines(Output),
    /// Probes for the scripts of ELF.
    Elf(ElfWriter, Output),
    /// Nothing but the graph of all at the end.
    Graph(Paths, Output),
    /// A table.
    Table(Box<Screen<HopsTable>>),
}

/// Is it the table that the user looks at? Not where a command has the terminal.
fn is_table(arguments: &HopsArguments) -> bool {
    let output = &arguments.output;
    let asks_for_lines = output.format.is_some()
        || output.place.output.is_some()
        || output.each_probe
        || arguments.export.is_asked_for();
    !asks_for_lines && arguments.command.is_empty() && is_looked_at()
}

impl View {
    /// What was asked for; if nothing was, a table on a terminal, else lines.
    ///
    /// # Errors
    /// When the output cannot be opened.
    pub(super) fn open(arguments: &HopsArguments, signals: &Signals) -> anyhow::Result<Self> {
        if is_table(arguments) {
            let table = HopsTable::new(&arguments.interface, zone::offset_at);
            return Ok(Self::Table(Box::new(Screen::open(table)?)));
        }
        let format = match arguments.output.format {
            Some(HopsFormat::Json) => OutputFormat::Json,
            _ => OutputFormat::Text,
        };
        let place = &arguments.output.place;
        let is_asked_for = arguments.output.format.is_some() || place.output.is_some();
        let output = Output::open(place, format, HopSummary::SCHEMA, Backlog::Long, signals)?
            .exporting(&arguments.export, place, is_asked_for)?;
        Ok(match arguments.output.format {
            Some(HopsFormat::Csv) => Self::Elf(
                ElfWriter::new(arguments.probing.reply_program.is_some()),
                output,
            ),
            Some(HopsFormat::Dot) => Self::Graph(Paths::new(), output),
            Some(HopsFormat::Text | HopsFormat::Json) | None => Self::Lines(output),
        })
    }

    /// Does it need every probe?
    pub(super) fn needs_probes(arguments: &HopsArguments) -> bool {
        let by_format = matches!(
            arguments.output.format,
            Some(HopsFormat::Csv | HopsFormat::Dot)
        );
        by_format || arguments.output.each_probe || is_table(arguments)
    }

    pub(super) fn take(&mut self, report: &Report) {
        match self {
            Self::Lines(output) => output.put(report.record()),
            Self::Elf(writer, output) => {
                output.export(report.record());
                if let Report::Probe(probe) = report {
                    writer.put(probe, output);
                }
            }
            Self::Graph(paths, output) => {
                output.export(report.record());
                paths.take(report);
            }
            Self::Table(screen) => screen.shown.take(report),
        }
    }

    /// Tells programs of the counts; people are told at the end.
    pub(super) fn put_counts(&mut self, counts: &[Count]) {
        if let Self::Lines(output) = self
            && output.wants_counts()
        {
            for count in counts {
                output.put(count);
            }
        }
    }

    /// Tells the user something that is no data.
    pub(super) fn say(&mut self, message: String) {
        match self {
            Self::Table(screen) => screen.say(message),
            _ => say!("fathom: {message}"),
        }
    }

    /// Shows what has come. `false`: the user has seen enough.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub(super) fn refresh(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Lines(output) | Self::Elf(_, output) => {
                output.flush()?;
                output.reopen_if_asked()?;
                Ok(true)
            }
            Self::Graph(_, output) => {
                output.flush()?;
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

    /// Writes the rest, and waits until all is written.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Lines(output) | Self::Elf(_, output) => output.finish(),
            Self::Graph(paths, output) => {
                output.put_text(&dot::graph(paths));
                output.finish()
            }
            Self::Table(_) => Ok(()),
        }
    }
}
