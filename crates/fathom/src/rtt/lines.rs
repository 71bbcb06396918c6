//! Samples and flows as lines.

use fathom_measure::rtt::{Report, RttAggregate, RttSample};

use super::arguments::{RttArguments, RttFormat};
use super::ppviz;
use crate::output::{Backlog, Output, OutputFormat};
use crate::signals::Signals;

/// Where reports go, one a line.
pub(super) struct Lines {
    pub(super) output: Output,
    is_for_ppviz: bool,
}

impl Lines {
    /// Opens what was asked for, else lines for people on standard output.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(
        arguments: &RttArguments,
        backlog: Backlog,
        signals: &Signals,
    ) -> anyhow::Result<Self> {
        let (format, place) = (arguments.output.format, &arguments.output.place);
        let main = match arguments.aggregation.interval {
            Some(_) => RttAggregate::SCHEMA,
            None => RttSample::SCHEMA,
        };
        let is_asked_for = format.is_some() || place.output.is_some();
        let output = Output::open(place, printed(format), main, backlog, signals)?;
        Ok(Self {
            output: output.exporting(&arguments.export, place, is_asked_for)?,
            is_for_ppviz: format == Some(RttFormat::Ppviz),
        })
    }

    /// Takes a report. Of a sample ppviz shows more than the record has, of flows nothing.
    pub(super) fn put(&mut self, report: &Report) {
        if !self.is_for_ppviz {
            self.output.put(report.as_record());
            return;
        }
        if let Report::Sample(sample, bytes) = report {
            ppviz::put_line(sample, *bytes, self.output.text_buffer());
        }
        self.output.export(report.as_record());
    }
}

/// How all is printed that has no format of its own.
fn printed(format: Option<RttFormat>) -> OutputFormat {
    match format {
        Some(RttFormat::Json) => OutputFormat::Json,
        Some(RttFormat::Csv) => OutputFormat::Csv,
        Some(RttFormat::Text | RttFormat::Ppviz) | None => OutputFormat::Text,
    }
}
