//! `fathom hops`: the routers on the path of live flows.

mod arguments;
mod child;
mod doctor;
mod dot;
mod elf;
mod names;
mod paths;
mod systems;
mod table;
mod view;

use std::time::{Duration, Instant};

use fathom_measure::Selection;
use fathom_measure::hops::{
    Congestion, HopProbe, HopSummary, Options, Owner, Paths, Prober, Rate, Report, RouteChange,
    Settings, UserPrograms,
};
use fathom_record::{Count, Time};

use crate::Measurement;
use crate::failure::say;
use crate::signals::Signals;
pub(crate) use arguments::HopsArguments;
use arguments::RateMode;
use child::{Child, Running};
use names::Names;
use systems::Systems;
use view::View;

/// What others know of it.
pub(crate) const MEASUREMENT: Measurement = Measurement {
    name: "hops",
    kinds: &[
        HopSummary::SCHEMA,
        HopProbe::SCHEMA,
        Congestion::SCHEMA,
        RouteChange::SCHEMA,
        Paths::SCHEMA,
    ],
    examine: doctor::examine,
};

/// Between looks into the ring.
const POLL: Duration = Duration::from_millis(20);
/// How long names are waited for at the end.
const NAMES_PATIENCE: Duration = Duration::from_secs(2);

/// Probes until told to stop.
///
/// # Errors
/// When the kernel or the privileges do not allow it, or the output cannot be written.
pub(crate) fn run(arguments: &HopsArguments) -> anyhow::Result<()> {
    let signals = Signals::listen(arguments.output.place.output.is_some())?;
    let child = Child::prepare(&arguments.command)?;
    let registry = Registry::open(arguments)?;
    let prober = Prober::start(&options(arguments, child.as_ref()))?;
    // To load the programs takes its time, in which nothing is measured.
    let begin = Instant::now();
    let end = arguments
        .duration
        .and_then(|duration| begin.checked_add(duration));
    if arguments.verbose {
        for line in prober.describe() {
            say!("{line}");
        }
    }
    let mut session = Session {
        prober,
        registry,
        view: View::open(arguments, &signals)?,
        child: child.map(Child::start).transpose()?,
        end,
        linger: arguments.probing.timeout,
        lingers: false,
    };
    let measured = session.measure(&signals);
    let counts = measured.and_then(|()| session.finish());
    let flows = session.prober.flows();
    // Gives the terminal back, and ends the command, before anything is said.
    drop(session);
    say_summary(flows, &counts?, begin.elapsed());
    Ok(())
}

struct Session {
    prober: Prober,
    registry: Registry,
    view: View,
    child: Option<Running>,
    end: Option<Instant>,
    /// How long answers are waited for once the command has ended, at most.
    linger: Duration,
    /// It has.
    lingers: bool,
}

impl Session {
    fn measure(&mut self, signals: &Signals) -> anyhow::Result<()> {
        self.follow()?;
        while !signals.should_stop() && self.end.is_none_or(|end| Instant::now() < end) {
            self.read()?;
            if self.child.as_mut().is_some_and(Running::has_ended) {
                self.child = None;
                self.lingers = true;
                self.end = Instant::now().checked_add(self.linger);
            }
            if self.lingers && !self.prober.is_waiting() {
                break;
            }
            if !self.view.refresh()? {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let Self {
            prober,
            registry,
            view,
            ..
        } = self;
        prober.poll(POLL, &mut |report| view.take(&registry.complete(report)))?;
        self.follow()
    }

    /// Interfaces go and come.
    fn follow(&mut self) -> anyhow::Result<()> {
        for told in self.prober.follow()? {
            self.view.say(told);
        }
        Ok(())
    }

    /// What is still in the kernel, then the last counts.
    fn finish(&mut self) -> anyhow::Result<Vec<Count>> {
        let Self {
            prober,
            registry,
            view,
            ..
        } = self;
        registry.settle();
        prober.finish(&mut |report| view.take(&registry.complete(report)))?;
        let counts = self.prober.counts(Time::now())?;
        self.view.put_counts(&counts);
        self.view.finish()?;
        Ok(counts)
    }
}

/// What others know of routers.
struct Registry {
    names: Option<Names>,
    systems: Option<Systems>,
}

impl Registry {
    fn open(arguments: &HopsArguments) -> anyhow::Result<Self> {
        let output = &arguments.output;
        Ok(Self {
            names: output.names.then(Names::start).transpose()?,
            systems: output.asn.as_deref().map(Systems::open).transpose()?,
        })
    }

    /// With name and number of its router, if they are asked for and known by now.
    fn complete(&self, mut report: Report) -> Report {
        if let Report::Hop(hop) = &mut report
            && let Some(responder) = hop.responder
        {
            hop.responder_name = self.names.as_ref().and_then(|names| names.of(responder));
            hop.as_number = self
                .systems
                .as_ref()
                .and_then(|systems| systems.of(responder));
        }
        report
    }

    fn settle(&self) {
        if let Some(names) = &self.names {
            names.settle(NAMES_PATIENCE);
        }
    }
}

fn say_summary(flows: usize, counts: &[Count], elapsed: Duration) {
    say!("{flows} flows now, {:.1} s", elapsed.as_secs_f64());
    for count in counts {
        say!("  {}  {}", count.name, count.count);
    }
}

fn options(arguments: &HopsArguments, child: Option<&Child>) -> Options {
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
            has_probes: View::needs_probes(arguments),
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
