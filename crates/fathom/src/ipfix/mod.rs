//! `fathom ipfix`: what exporters send, any exporter's.

mod arguments;
mod listen;
mod print;

use std::time::Instant;

use fathom_ipfix::{Collector, CollectorCounts, Limits};
use fathom_record::Time;
use fathom_record::format::Format;

use crate::failure::say;
use crate::output::{Backlog, Output};
use crate::signals::Signals;
use arguments::DumpArguments;
pub(crate) use arguments::IpfixCommand;
use listen::Listeners;

/// Prints what arrives until the user has seen enough.
///
/// # Errors
/// When an address cannot be listened at, or the output cannot be written.
pub(crate) fn dump(arguments: &DumpArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(false)?;
    let mut listeners = Listeners::open(&arguments.listen)?;
    let mut output = Output::lines(Backlog::Long, &signals)?;
    let mut collector = Collector::new(Limits {
        template_lifetime: arguments.template_lifetime,
        ..Limits::default()
    });
    let begin = Instant::now();
    let mut line = String::new();
    let mut written = Ok(());
    while !signals.should_stop() && written.is_ok() {
        collector.advance(Time(begin.elapsed().as_nanos() as u64));
        listeners.wait(&mut collector, &mut |record| {
            if record.is_options() && !arguments.options {
                return;
            }
            line.clear();
            if arguments.format == Format::Json {
                print::json(&record, &mut line);
            } else {
                print::text(&record, &mut line);
            }
            output.put_text(&line);
            if output.is_full() && written.is_ok() {
                written = output.flush();
            }
        })?;
        written = written.and_then(|()| output.flush());
    }
    written = written.and_then(|()| output.finish());
    say_totals(&collector.counts());
    written
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
