//! `fathom profile`: what the connections of this host go through, from its own stack.

mod agent;
mod arguments;
mod doctor;
mod filter;
mod probes;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use fathom_measure::kernel::Ring;
use fathom_measure::profile::{
    DnsProfile, LookupProfile, MptcpProfile, Options, Probes, Profiler, TcpProfile,
};
use fathom_measure::{Counts, Error, Measurement, Take};
use fathom_record::{Record, Value};

use crate::Description;
use crate::failure::say;
use crate::output::LineOptions;
use crate::session::{self, Plan, View};
use crate::signals::Signals;
pub(crate) use arguments::ProfileArguments;
use filter::Filter;

/// What others know of it.
pub(crate) const MEASUREMENT: Description = Description {
    name: "profile",
    kinds: &[
        TcpProfile::SCHEMA,
        MptcpProfile::SCHEMA,
        DnsProfile::SCHEMA,
        LookupProfile::SCHEMA,
    ],
    examine: doctor::examine,
    import: None,
    agent: Some(agent::part),
    is_active: false,
    has_samples: false,
    // Probes of the libraries of containers that start later.
    needs_admin: true,
};

/// Profiles until told to stop.
///
/// # Errors
/// When the kernel or the privileges do not allow it, or the output cannot be written.
pub(crate) fn run(arguments: &ProfileArguments) -> anyhow::Result<()> {
    if arguments.probes {
        return probes::print();
    }
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    let profiles = start(arguments)?;
    let plan = Plan {
        duration: arguments.duration,
        interval: None,
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let lines = LineOptions {
        target: &arguments.output.target,
        export: &arguments.export,
        format: arguments.output.format,
        formatter: None,
        main: TcpProfile::SCHEMA,
    };
    let open_view = || View::lines(lines, &signals);
    session::run(vec![profiles], &plan, open_view, &signals)
}

/// Begins to profile.
///
/// # Errors
/// When the kernel or the privileges do not allow it.
fn start(arguments: &ProfileArguments) -> anyhow::Result<Box<dyn Measurement>> {
    let profiler = Profiler::start(&options(arguments))?;
    Ok(Box::new(Profiles {
        lacking: say_probes(profiler.probes()),
        profiler,
        filter: Filter::new(arguments),
        count: 0,
    }))
}

/// Profiles of the processes that were named, as they may be seen.
struct Profiles {
    profiler: Profiler,
    filter: Filter,
    /// What is to be said once a connection of MPTCP is met.
    lacking: Vec<String>,
    /// That were handed on.
    count: u64,
}

impl Profiles {
    /// The profiler, and what its records pass.
    fn parts<'a>(
        &'a mut self,
        take: &'a mut Take<'_>,
    ) -> (&'a mut Profiler, impl FnMut(&dyn Record) + 'a) {
        let Self {
            profiler,
            filter,
            lacking,
            count,
        } = self;
        let pass = move |record: &dyn Record| {
            if filter.admits(record) {
                *count += 1;
                if !lacking.is_empty() && is_of_mptcp(record) {
                    for line in lacking.drain(..) {
                        say!("{line}");
                    }
                }
                filter.hide(record, &mut *take);
            }
        };
        (profiler, pass)
    }
}

impl Measurement for Profiles {
    fn name(&self) -> &'static str {
        self.profiler.name()
    }

    fn describe(&self) -> Vec<String> {
        self.profiler.describe()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.profiler.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.profiler.rings()
    }

    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let (profiler, mut pass) = self.parts(take);
        profiler.poll(&mut pass)
    }

    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let (profiler, mut pass) = self.parts(take);
        profiler.finish(&mut pass)
    }

    fn counts(&self) -> Result<Counts, Error> {
        Ok(Counts {
            measured: vec![("profiles", self.count)],
            ..self.profiler.counts()?
        })
    }
}

fn options(arguments: &ProfileArguments) -> Options {
    Options {
        set: arguments.probe_set,
        selection: arguments.selection.ends.selection(&[]),
        group: arguments.selection.cgroup.clone(),
        active_timeout: arguments.active_timeout,
        coalesces: arguments.coalesce,
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

/// Says what profiles lack on this kernel; what only those of MPTCP lack is given back.
fn say_probes(probes: &Probes) -> Vec<String> {
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
