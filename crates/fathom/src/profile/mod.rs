//! `fathom profile`: what the connections of this host go through, from its own stack.

mod arguments;
mod doctor;
mod filter;
mod probes;

use std::time::{Duration, Instant};

use fathom_measure::profile::{
    DnsProfile, LookupProfile, MptcpProfile, Options, ProbeSet, Probes, Profiler, TcpProfile,
};
use fathom_record::{Record, Time, Value};

use crate::Measurement;
use crate::failure::say;
use crate::output::OutputFormat;
use crate::output::{Backlog, Output};
use crate::signals::Signals;
use arguments::ProbeSetName;
pub(crate) use arguments::ProfileArguments;
use filter::Filter;

/// What others know of it.
pub(crate) const MEASUREMENT: Measurement = Measurement {
    name: "profile",
    kinds: &[
        TcpProfile::SCHEMA,
        MptcpProfile::SCHEMA,
        DnsProfile::SCHEMA,
        LookupProfile::SCHEMA,
    ],
    examine: doctor::examine,
};

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
    let signals = Signals::listen(arguments.output.place.output.is_some())?;
    let output = open_output(arguments, &signals)?;
    let profiler = Profiler::start(&options(arguments))?;
    // To load the programs takes its time, in which nothing is measured.
    let begin = Instant::now();
    let end = arguments
        .duration
        .and_then(|duration| begin.checked_add(duration));
    let mut session = Session {
        lacking: say_probes(profiler.probes(), arguments.verbose),
        profiler,
        output,
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
    output: Output,
    filter: Filter,
    /// What is to be said once a connection of MPTCP is met.
    lacking: Vec<String>,
    profiles: u64,
}

impl Session {
    fn read(&mut self, end: Option<Instant>) -> anyhow::Result<()> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(POLL, |left| left.min(POLL));
        let (profiler, mut sink) = self.parts();
        profiler.poll(timeout, &mut |record| sink.put(record))?;
        sink.written?;
        self.output.flush()?;
        self.output.reopen_if_asked()
    }

    /// What is left, and a summary, also when something has failed.
    fn finish(mut self, measured: anyhow::Result<()>, elapsed: Duration) -> anyhow::Result<()> {
        let (profiler, mut sink) = self.parts();
        profiler.finish(&mut |record| sink.put(record))?;
        sink.written?;
        let counts = self.profiler.counts(Time::now())?;
        if self.output.wants_counts() {
            for count in &counts {
                self.output.put(count);
            }
        }
        say!(
            "{} profiles in {:.1} s",
            self.profiles,
            elapsed.as_secs_f64()
        );
        for count in &counts {
            say!("  {}  {}", count.name, count.count);
        }
        measured.and(self.output.finish())
    }

    fn parts(&mut self) -> (&mut Profiler, Sink<'_>) {
        let sink = Sink {
            output: &mut self.output,
            filter: &self.filter,
            lacking: &mut self.lacking,
            profiles: &mut self.profiles,
            written: Ok(()),
        };
        (&mut self.profiler, sink)
    }
}

/// Where profiles go while they are read.
struct Sink<'a> {
    output: &'a mut Output,
    filter: &'a Filter,
    lacking: &'a mut Vec<String>,
    profiles: &'a mut u64,
    written: anyhow::Result<()>,
}

impl Sink<'_> {
    fn put(&mut self, record: &dyn Record) {
        if self.filter.admits(record) {
            *self.profiles += 1;
            if !self.lacking.is_empty() && is_of_mptcp(record) {
                for line in self.lacking.drain(..) {
                    say!("{line}");
                }
            }
            self.filter.hide(record, |record| {
                self.output.put(record);
                // What is written soon is still in the processor's cache.
                if self.output.is_full() && self.written.is_ok() {
                    self.written = self.output.flush();
                }
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

/// A connection of MPTCP, or a subflow of one.
fn is_of_mptcp(record: &dyn Record) -> bool {
    let position = record.schema().position("mptcp_token");
    position.is_some_and(|index| record.value(index) != Value::Missing)
}

fn open_output(arguments: &ProfileArguments, signals: &Signals) -> anyhow::Result<Output> {
    let place = &arguments.output.place;
    let is_asked_for = arguments.output.format.is_some() || place.output.is_some();
    let format = arguments.output.format.unwrap_or(OutputFormat::Text);
    let main = TcpProfile::SCHEMA;
    Output::open(place, format, main, Backlog::Long, signals)?.exporting(
        &arguments.export,
        place,
        is_asked_for,
    )
}

/// Says what profiles lack on this kernel; what only those of MPTCP lack is given back.
fn say_probes(probes: &Probes, is_verbose: bool) -> Vec<String> {
    if is_verbose {
        say!("probes: {}", probes.set);
    }
    let mut later = Vec::new();
    for (indicator, why) in &probes.missing {
        let line = format!("fathom: profiles come without {}: {why}", indicator.about());
        if indicator.is_of_mptcp() {
            later.push(line);
        } else {
            say!("{line}");
        }
    }
    for note in &probes.notes {
        say!("fathom: {note}");
    }
    later
}
