//! `fathom hops`: the routers on the path of live flows.

mod agent;
mod arguments;
mod child;
mod doctor;
mod dot;
mod elf;
mod goal;
mod names;
mod own;
mod paths;
mod registry;
mod report;
mod rows;
mod systems;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_measure::hops::{
    Congestion, HopProbe, HopSummary, Options, Owner, Paths, Prober, Rate, RouteChange, Settings,
    UserPrograms,
};
use fathom_measure::kernel::Ring;
use fathom_measure::{Counts, Error, Measurement, Selection, Take};
use fathom_terminal::is_looked_at;

use crate::Description;
use crate::output::{Formatter, LineOptions};
use crate::session::{self, Plan, View};
use crate::signals::Signals;
use crate::table::Ranked;
use crate::zone;
pub(crate) use arguments::HopsArguments;
use arguments::{HopsFormat, RateMode};
use child::{Child, Running};
use goal::Goal;
use own::OwnFlow;
use registry::Registry;

/// Probes a second to each hop of a flow of fathom's own, as many as mtr sends.
const OWN_RATE: f64 = 1.0;

/// What others know of it.
pub(crate) const MEASUREMENT: Description = Description {
    name: "hops",
    kinds: &[
        HopSummary::SCHEMA,
        HopProbe::SCHEMA,
        Congestion::SCHEMA,
        RouteChange::SCHEMA,
        Paths::SCHEMA,
    ],
    examine: doctor::examine,
    import: None,
    agent: Some(agent::part),
    is_active: true,
    has_samples: false,
    needs_admin: false,
};

/// Probes until told to stop.
///
/// # Errors
/// When the kernel or the privileges do not allow it, or the output cannot be written.
pub(crate) fn run(arguments: &HopsArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.target.output.is_some())?;
    let shows_table = shows_table(arguments);
    let hops = start(arguments, shows_table)?;
    let interfaces = hops.interfaces.clone();
    let plan = Plan {
        duration: arguments.duration,
        interval: None,
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let open_view = || {
        let table = Ranked::new(rows::PathRows::new(zone::offset_at), &interfaces);
        let table = shows_table.then_some(table);
        View::open(line_options(arguments), table, &signals)
    };
    session::run(vec![Box::new(hops)], &plan, open_view, &signals)
}

/// Begins to probe, and then the command or the flow.
fn start(arguments: &HopsArguments, shows_table: bool) -> anyhow::Result<Hops> {
    let child = Child::prepare(&arguments.command)?;
    let registry = Registry::open(arguments)?;
    let target = arguments.target.destination.as_ref();
    let own = target
        .map(|target| own::Plan::make(target, arguments.family()))
        .transpose()?;
    let options = options(arguments, child.as_ref(), own.as_ref(), shows_table);
    let prober = Prober::start(&options)?;
    Ok(Hops {
        prober,
        registry,
        interfaces: options.interfaces,
        goal: arguments
            .goal()
            .map(|count| Goal::new(count, own.is_some())),
        own: own.map(own::Plan::begin).transpose()?,
        child: child.map(Child::start).transpose()?,
        patience: arguments.probing.timeout,
        end: None,
    })
}

/// Probes for as long as the command runs that was named, told with what others know of routers.
struct Hops {
    prober: Prober,
    registry: Registry,
    /// That are probed.
    interfaces: Vec<String>,
    goal: Option<Goal>,
    own: Option<OwnFlow>,
    child: Option<Running>,
    /// How long answers are waited for once the command has ended, at most.
    patience: Duration,
    /// It has: until then.
    end: Option<Instant>,
}

impl Measurement for Hops {
    fn name(&self) -> &'static str {
        self.prober.name()
    }

    fn describe(&self) -> Vec<String> {
        self.prober.describe()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.prober.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.prober.rings()
    }

    fn longest_wait(&self) -> Duration {
        self.prober.longest_wait()
    }

    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        if self.child.as_mut().is_some_and(Running::has_ended) {
            self.child = None;
            self.end = Instant::now().checked_add(self.patience);
        }
        let Self {
            prober,
            registry,
            goal,
            own,
            ..
        } = self;
        if let Some(own) = own {
            own.poll(Instant::now())?;
        }
        prober.poll(&mut |record| {
            if let Some(goal) = goal {
                goal.take(record);
            }
            registry.complete(record, take);
        })
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        let mut told = self.prober.follow()?;
        told.extend(self.own.iter_mut().flat_map(OwnFlow::take_told));
        Ok(told)
    }

    fn is_over(&mut self) -> bool {
        let is_over = |end| Instant::now() >= end || !self.prober.is_waiting();
        self.end.is_some_and(is_over) || self.goal.as_ref().is_some_and(Goal::is_reached)
    }

    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let Self {
            prober, registry, ..
        } = self;
        registry.settle();
        prober.finish(&mut |record| registry.complete(record, take))
    }

    fn counts(&self) -> Result<Counts, Error> {
        self.prober.counts()
    }
}

/// Is it the table that the user looks at? Not where a command has the terminal.
fn shows_table(arguments: &HopsArguments) -> bool {
    let asks_for_lines = line_options(arguments).is_asked_for() || arguments.output.each_probe;
    !asks_for_lines && arguments.command.is_empty() && is_looked_at()
}

/// Where records go.
fn line_options(arguments: &HopsArguments) -> LineOptions<'_> {
    let output = &arguments.output;
    let (format, formatter): (_, Option<Box<dyn Formatter>>) = match output.format {
        Some(HopsFormat::Common(format)) => (Some(format), None),
        Some(HopsFormat::Elf) => {
            let has_extracted = arguments.probing.reply_program.is_some();
            (None, Some(Box::new(elf::ElfWriter::new(has_extracted))))
        }
        Some(HopsFormat::Dot) => (None, Some(Box::new(dot::Graph::new()))),
        None if output.report => (None, Some(Box::new(report::Report::new()))),
        None => (None, None),
    };
    LineOptions {
        target: &output.target,
        export: &arguments.export,
        format,
        formatter,
        main: HopSummary::SCHEMA,
    }
}

/// Does somebody look at every probe?
fn needs_probes(arguments: &HopsArguments, shows_table: bool) -> bool {
    let by_format = matches!(
        arguments.output.format,
        Some(HopsFormat::Elf | HopsFormat::Dot)
    );
    let output = &arguments.output;
    by_format || output.each_probe || output.report || shows_table
}

fn options(
    arguments: &HopsArguments,
    child: Option<&Child>,
    own: Option<&own::Plan>,
    shows_table: bool,
) -> Options {
    let selection = &arguments.selection;
    let probing = &arguments.probing;
    let interfaces = own.filter(|_| arguments.interface.is_empty());
    Options {
        interfaces: interfaces
            .map_or(&arguments.interface, |own| &own.interfaces)
            .clone(),
        selection: own.map_or_else(
            || Selection {
                networks: selection.net.clone(),
                excluded: selection.not_net.clone(),
                ports: selection.port.clone(),
                protocols: selection.protocol.clone(),
            },
            own::Plan::selection,
        ),
        group: selection.cgroup.clone(),
        owner: Owner {
            name: selection.process.clone(),
            ancestor: child.map(|_| std::process::id()),
        },
        budget: probing.budget,
        destination_budget: probing.budget_per_destination,
        keeps_answers: probing.keep_icmp,
        is_full_size: probing.full_size,
        programs: UserPrograms {
            probe: probing.probe_program.clone(),
            reply: probing.reply_program.clone(),
        },
        settings: Settings {
            rate: rate(probing.rate.or(own.map(|_| OWN_RATE)), probing.rate_mode),
            is_own_flow: own.is_some(),
            highest_ttl: probing.max_hops,
            timeout: probing.timeout,
            interval: arguments.output.interval,
            idle: probing.idle,
            has_probes: needs_probes(arguments, shows_table),
        },
    }
}

/// A rate that was asked for is kept from the start; otherwise it is found.
fn rate(asked: Option<f64>, mode: RateMode) -> Rate {
    let rate = asked.map_or(Rate::default(), |rate| Rate {
        first: rate,
        most: rate,
        is_shared: false,
        is_asked: true,
    });
    Rate {
        is_shared: mode == RateMode::Global,
        ..rate
    }
}
