//! `fathom ipfix`: what exporters send, any exporter's.

mod arguments;
mod print;

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context;
use fathom_ipfix::{Collected, Collector, CollectorCounts, Hears, Limits, Listeners};
use fathom_record::Time;
use fathom_record::format::Format;

use crate::failure::say;
use crate::output::{Backlog, Output};
use crate::signals::Signals;
use arguments::DumpArguments;
pub(crate) use arguments::IpfixCommand;

/// Prints what arrives until the user has seen enough.
///
/// # Errors
/// When an address cannot be listened at, or the output cannot be written.
pub(crate) fn dump(arguments: &DumpArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(false)?;
    let mut listeners = Listeners::open(&arguments.listen)?;
    for address in listeners.addresses() {
        say!("listening at {address}");
    }
    let mut collector = Collector::new(Limits {
        template_lifetime: arguments.template_lifetime,
        ..Limits::default()
    });
    let begin = Instant::now();
    let mut printer = Printer {
        output: Output::lines(Backlog::Long, &signals)?,
        format: arguments.format,
        has_options: arguments.options,
        line: String::new(),
    };
    let mut written = Ok(());
    while !signals.should_stop() && written.is_ok() {
        collector.advance(Time(begin.elapsed().as_nanos() as u64));
        let waited = listeners.wait(&mut collector, &mut printer);
        waited.context("cannot wait for messages")?;
        written = printer.output.flush();
    }
    let written = written.and_then(|()| printer.output.finish());
    say_totals(&collector.counts());
    written
}

/// Prints records.
struct Printer {
    output: Output,
    format: Format,
    has_options: bool,
    line: String,
}

impl Hears for Printer {
    fn record(&mut self, record: Collected<'_>) {
        if record.is_options() && !self.has_options {
            return;
        }
        self.line.clear();
        if self.format == Format::Json {
            print::json(&record, &mut self.line);
        } else {
            print::text(&record, &mut self.line);
        }
        self.output.put_text(&self.line);
    }

    /// Messages that cannot be read are counted; an exporter whose connection ends is told of.
    fn malformed(&mut self, exporter: SocketAddr, reason: &dyn Display, is_over: bool) {
        if is_over {
            say!("{exporter}: {reason}; the connection is closed");
        }
    }
}

fn say_totals(counts: &CollectorCounts) {
    say!(
        "{} messages with {} records and {} about the exporters; {} records lost, {} sets without their template, {} messages malformed, {} templates refused, {} expired",
        counts.messages,
        counts.records,
        counts.options,
        counts.lost_records,
        counts.unknown_sets,
        counts.malformed,
        counts.refused_templates,
        counts.expired_templates
    );
}
