//! `fathom profile`: what the connections of this host go through, from its own stack.

mod export;
mod filter;
mod probes;

use std::time::{Duration, Instant};

use fathom_measure::profile::{Options, ProbeSet, Profiler};
use fathom_record::{Record, Time};

use crate::arguments::{PrintFormat, ProbeSetName, ProfileArguments};
use crate::failure::say;
use crate::output::{Backlog, Output};
use crate::signals::Signals;
use export::Exports;
use filter::Filter;

/// Between looks into the ring.
const POLL: Duration = Duration::from_millis(50);

/// Profiles until told to stop.
///
/// # Errors
/// When the kernel or the privileges do not allow it, or the output cannot be written.
pub(crate) fn run(arguments: &ProfileArguments) -> anyhow::Result<()> {
    if arguments.probes {
        return probes::print();
    }
    let signals = Signals::listen(arguments.output.output.is_some())?;
    let profiler = Profiler::start(&options(arguments))?;
    // To load the programs takes its time, in which nothing is measured.
    let begin = Instant::now();
    let end = arguments
        .duration
        .and_then(|duration| begin.checked_add(duration));
    say_probes(&profiler, arguments.verbose);
    let mut session = Session {
        profiler,
        output: open_output(arguments, &signals)?,
        exports: Exports::open(&arguments.export)?,
        filter: Filter::new(arguments),
        profiles: 0,
    };
    let mut measured = Ok(());
    while measured.is_ok() && !signals.should_stop() && end.is_none_or(|end| Instant::now() < end) {
        measured = session.read(end);
    }
    session.finish(measured, begin.elapsed())
}

struct Session {
    profiler: Profiler,
    /// Absent where profiles are only exported.
    output: Option<Output>,
    exports: Exports,
    filter: Filter,
    profiles: u64,
}

impl Session {
    fn read(&mut self, end: Option<Instant>) -> anyhow::Result<()> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(POLL, |left| left.min(POLL));
        let (profiler, mut sink) = self.parts();
        profiler.poll(timeout, &mut |record| sink.put(record))?;
        sink.written?;
        self.exports.tick(Time::now());
        self.output.as_mut().map_or(Ok(()), |output| {
            output.flush()?;
            output.reopen_if_asked()
        })
    }

    /// What is left, and a summary, also when something has failed.
    fn finish(mut self, measured: anyhow::Result<()>, elapsed: Duration) -> anyhow::Result<()> {
        let (profiler, mut sink) = self.parts();
        profiler.finish(&mut |record| sink.put(record))?;
        sink.written?;
        let counts = self.profiler.counts(Time::now())?;
        let mut outcome = measured;
        if let Some(output) = &mut self.output {
            if output.format().is_for_programs() {
                for count in &counts {
                    output.put(count);
                }
            }
            outcome = outcome.and(output.finish());
        }
        say!(
            "{} profiles in {:.1} s",
            self.profiles,
            elapsed.as_secs_f64()
        );
        for count in &counts {
            say!("  {}  {}", count.name, count.count);
        }
        self.exports.close();
        outcome
    }

    fn parts(&mut self) -> (&mut Profiler, Sink<'_>) {
        let sink = Sink {
            output: self.output.as_mut(),
            exports: &mut self.exports,
            now: Time::now(),
            filter: &self.filter,
            profiles: &mut self.profiles,
            written: Ok(()),
        };
        (&mut self.profiler, sink)
    }
}

/// Where profiles go while they are read.
struct Sink<'a> {
    output: Option<&'a mut Output>,
    exports: &'a mut Exports,
    now: Time,
    filter: &'a Filter,
    profiles: &'a mut u64,
    written: anyhow::Result<()>,
}

impl Sink<'_> {
    fn put(&mut self, record: &dyn Record) {
        if self.filter.admits(record) {
            *self.profiles += 1;
            self.filter.hide(record, |record| {
                if let Some(output) = &mut self.output {
                    output.put(record);
                    // What is written soon is still in the processor's cache.
                    if output.is_full() && self.written.is_ok() {
                        self.written = output.flush();
                    }
                }
                self.exports.put(record, self.now);
            });
        }
    }
}

fn options(arguments: &ProfileArguments) -> Options {
    Options {
        set: arguments.probe_set.map(|name| match name {
            ProbeSetName::Tracepoint => ProbeSet::Tracepoint,
            ProbeSetName::Fentry => ProbeSet::Fentry,
        }),
        selection: arguments.selection.ends.selection(&[]),
        group: arguments.selection.cgroup.clone(),
        active_timeout: arguments.active_timeout,
        has_all_namespaces: arguments.all_namespaces,
        has_dns: arguments.dns,
        has_names: !arguments.no_names,
        dns_timeout: arguments.dns_timeout,
    }
}

/// `None` where profiles are only exported.
fn open_output(arguments: &ProfileArguments, signals: &Signals) -> anyhow::Result<Option<Output>> {
    let is_asked_for = arguments.output.format.is_some() || arguments.output.output.is_some();
    if !is_asked_for && !arguments.export.export.is_empty() {
        return Ok(None);
    }
    let format = arguments.output.format.unwrap_or(PrintFormat::Text);
    let path = arguments.output.output.as_deref();
    Output::open(path, format.into(), Backlog::Long, signals).map(Some)
}

/// What profiles lack on this kernel is said once.
fn say_probes(profiler: &Profiler, is_verbose: bool) {
    let probes = profiler.probes();
    if is_verbose {
        say!("probes: {}", probes.set);
    }
    for (indicator, why) in &probes.missing {
        say!("fathom: profiles come without {}: {why}", indicator.about());
    }
    for note in &probes.notes {
        say!("fathom: {note}");
    }
}
