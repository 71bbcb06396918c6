//! `fathom hops`: the routers on the path of live flows.

mod agent;
mod arguments;
mod child;
mod doctor;
mod dot;
mod elf;
mod names;
mod paths;
mod registry;
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
use registry::Registry;

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
    let child = Child::prepare(&arguments.command)?;
    let shows_table = shows_table(arguments);
    let hops = start(arguments, child, shows_table)?;
    let plan = Plan {
        duration: arguments.duration,
        interval: None,
        is_verbose: arguments.verbose,
        ..Plan::default()
    };
    let open_view = || {
        let table = Ranked::new(rows::PathRows::new(zone::offset_at), &arguments.interface);
        let table = shows_table.then_some(table);
        View::open(line_options(arguments), table, &signals)
    };
    session::run(vec![Box::new(hops)], &plan, open_view, &signals)
}

/// Begins to probe, and then the command.
fn start(
    arguments: &HopsArguments,
    child: Option<Child>,
    shows_table: bool,
) -> anyhow::Result<Hops> {
    let registry = Registry::open(arguments)?;
    let prober = Prober::start(&options(arguments, child.as_ref(), shows_table))?;
    Ok(Hops {
        prober,
        registry,
        child: child.map(Child::start).transpose()?,
        patience: arguments.probing.timeout,
        end: None,
    })
}

/// Probes for as long as the command runs that was named, told with what others know of routers.
struct Hops {
    prober: Prober,
    registry: Registry,
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
            prober, registry, ..
        } = self;
        prober.poll(&mut |record| registry.complete(record, take))
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        self.prober.follow()
    }

    fn is_over(&mut self) -> bool {
        let is_over = |end| Instant::now() >= end || !self.prober.is_waiting();
        self.end.is_some_and(is_over)
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
    by_format || arguments.output.each_probe || shows_table
}

fn options(arguments: &HopsArguments, child: Option<&Child>, shows_table: bool) -> Options {
    let selection = &arguments.selection;
    let probing = &arguments.probing;
    Options {
        interfaces: arguments.interface.clone(),
        selection: Selection {
            networks: selection.net.clone(),
            excluded: selection.not_net.clone(),
            ports: selection.port.clone(),
            protocols: selection.protocol.clone(),
        },
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
            rate: rate(probing.rate, probing.rate_mode),
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
