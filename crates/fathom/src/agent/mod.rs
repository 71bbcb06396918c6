//! `fathom agent`: several measurements at once, for as long as the host runs. Those of packets
//! that pass share their programs: a packet is parsed once.

mod arguments;
mod capture;
mod privileges;
mod record;
mod requests;
mod route;
mod service;
mod systemd;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ArgMatches;
use fathom_measure::kernel::{Hooks, OfPackets};
use fathom_measure::{Error, Measurement, Scope};
use fathom_record::{Count, Schema};

use crate::configuration::{self, Configured};
use crate::memory;
use crate::output::LineOptions;
use crate::session::{Emptying, Plan, Session, View};
use crate::signals::Signals;
use crate::{Description, MEASUREMENTS};
pub(crate) use arguments::AgentArguments;
use record::AgentRecord;
use service::Service;

/// The kinds of records that are its own.
pub(crate) const KINDS: &[&Schema] = &[AgentRecord::SCHEMA];

/// What a measurement is asked for by the agent.
pub(crate) struct Request<'a> {
    /// The options of its own command: those of the configuration file and the environment.
    pub(crate) options: &'a ArgMatches,
    /// Measure on these.
    pub(crate) interfaces: &'a [String],
    /// Put records together over such intervals; `None`: single samples are wanted.
    pub(crate) interval: Option<Duration>,
    /// Measure these flows; by default those that the options choose.
    pub(crate) scope: Option<&'a Scope>,
}

/// What the agent runs of a measurement.
pub(crate) enum Part {
    /// It measures packets that pass, in programs that it shares.
    OfPackets(Box<dyn Shared>),
    /// It has programs of its own.
    Alone(Start),
}

/// Begins to measure.
pub(crate) type Start = Box<dyn FnOnce() -> anyhow::Result<Box<dyn Measurement>>>;

/// A measurement in programs that it shares with others.
pub(crate) trait Shared {
    /// With which the programs are loaded.
    fn settings(&self) -> &dyn OfPackets;

    /// Begins to read what the programs tell.
    ///
    /// # Errors
    /// When the kernel refuses a step.
    fn start(&self, hooks: &Hooks) -> Result<Box<dyn Measurement>, Error>;
}

/// Measures until told to stop. What the tables of the measurements in the configuration file say
/// of measuring holds here, too.
///
/// # Errors
/// When a measurement cannot begin or fails, or its records cannot be written.
pub(crate) fn run(arguments: &AgentArguments, config: Option<&Path>) -> anyhow::Result<()> {
    if arguments.print_config {
        return configuration::print("agent");
    }
    if let Some(action) = &arguments.action {
        return requests::ask(&arguments.socket, action);
    }
    memory::share_what_is_freed();
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    signals.listen_to_reload()?;
    let mut service = Service::open(arguments, config, &signals)?;
    systemd::starting();
    let emptying = Emptying::start();
    let measurements = service.begin(&emptying)?;
    privileges::drop_others(needs_admin(arguments).is_some())?;
    let plan = Plan {
        duration: arguments.duration,
        interval: Some(arguments.interval),
        is_background: true,
        is_verbose: arguments.verbose,
    };
    let open_view = || open_view(arguments, &signals);
    let mut session = Session::start(measurements, &plan, open_view)?;
    // The kernel's types took much, while programs were loaded.
    memory::return_what_is_free();
    drop(emptying);
    let measured = service.attend(&mut session);
    drop(service);
    session.end(measured)
}

fn open_view(arguments: &AgentArguments, signals: &Signals) -> anyhow::Result<View> {
    let export = arguments.export();
    let lines = LineOptions {
        target: &arguments.output.target,
        export: &export,
        format: arguments.output.format,
        formatter: None,
        main: Count::SCHEMA,
    };
    View::lines(lines, signals)
}

/// Those that the agent can run.
fn measured() -> impl Iterator<Item = &'static Description> {
    MEASUREMENTS.iter().filter(|one| one.agent.is_some())
}

fn named(arguments: &AgentArguments) -> impl Iterator<Item = &'static Description> {
    measured().filter(|one| arguments.measure.iter().any(|name| name == one.name))
}

/// One of those that were named which needs `CAP_SYS_ADMIN` as long as it measures.
fn needs_admin(arguments: &AgentArguments) -> Option<&'static str> {
    let mut needing = named(arguments).filter(|one| one.needs_admin);
    needing.next().map(|one| one.name)
}

/// What is to be measured, and where.
#[derive(PartialEq)]
struct Wanted {
    interfaces: Vec<String>,
    /// Each with the options of its own command.
    measured: Vec<(&'static Description, ArgMatches)>,
    /// Put records together over such intervals; `None`: single samples are wanted.
    interval: Option<Duration>,
}

impl Wanted {
    /// Records of those that were named.
    fn named(arguments: &AgentArguments, config: Option<&Path>) -> anyhow::Result<Self> {
        let interval = Some(arguments.interval);
        Self::read(arguments, config, named(arguments), interval)
    }

    /// Single samples.
    fn samples(arguments: &AgentArguments, config: Option<&Path>) -> anyhow::Result<Self> {
        let sampled = measured().filter(|one| one.has_samples);
        Self::read(arguments, config, sampled, None)
    }

    fn read(
        arguments: &AgentArguments,
        config: Option<&Path>,
        measured: impl Iterator<Item = &'static Description>,
        interval: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let configured = Configured::read(config)?;
        let measured = measured.map(|one| Ok((one, configured.options_of(one.name)?)));
        Ok(Self {
            interfaces: interfaces(arguments)?,
            measured: measured.collect::<anyhow::Result<_>>()?,
            interval,
        })
    }
}

/// Begins to measure, in the flows of this scope alone, if there is one. `emptying` has the rings
/// from then on.
///
/// What takes long comes first, and to attach programs to interfaces last: at a reload, what runs
/// already measures until then.
fn begin(
    wanted: &Wanted,
    scope: Option<&Scope>,
    emptying: &Emptying,
) -> anyhow::Result<Vec<Box<dyn Measurement>>> {
    let (mut shared, mut alone) = (Vec::new(), Vec::new());
    for (one, options) in &wanted.measured {
        let Some(part) = one.agent else { continue };
        let request = Request {
            options,
            interfaces: &wanted.interfaces,
            interval: wanted.interval,
            scope,
        };
        let failed = || format!("cannot begin to measure {}", one.name);
        match part(&request).with_context(failed)? {
            Part::OfPackets(part) => shared.push(part),
            Part::Alone(start) => alone.push((start, one.name)),
        }
    }
    let settings: Vec<_> = shared.iter().map(|part| part.settings()).collect();
    let load = || Hooks::load(&wanted.interfaces, false, &settings);
    let hooks = (!settings.is_empty()).then(load).transpose()?;
    // Those of packets come first: they end at once, others take a moment.
    let mut measurements = Vec::new();
    let mut add = |measurement: Box<dyn Measurement>| {
        emptying.add(measurement.rings());
        measurements.push(measurement);
    };
    for (part, hooks) in shared.into_iter().zip(hooks.iter().cycle()) {
        add(part.start(hooks)?);
    }
    for (start, name) in alone {
        let failed = || format!("cannot begin to measure {name}");
        add(start().with_context(failed)?);
    }
    hooks.as_ref().map_or(Ok(()), Hooks::attach_loaded)?;
    Ok(measurements)
}

fn interfaces(arguments: &AgentArguments) -> anyhow::Result<Vec<String>> {
    if !arguments.interface.is_empty() {
        return Ok(arguments.interface.clone());
    }
    let found = route::interface_of_default();
    let found = found.context("this host has no default route: name an interface with -i")?;
    Ok(vec![found])
}
