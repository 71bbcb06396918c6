//! The price of a unit of traffic, with fathom and without, in turns.

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use fathom_benches::statistics::{interval, median};
use fathom_lab::Namespace;

use super::least::Least;
use super::processor::{Clocks, Used};
use super::profiling::{Invocation, Profiling};
use super::programs::{Program, Statistics, empty_run_ns, profilers};

/// After fathom has come or gone, until the processor's caches and the connections are as they
/// stay.
const SETTLING: Duration = Duration::from_millis(300);

/// Traffic that runs until told to stop.
pub(super) trait Load {
    /// Units so far: connections, or bytes.
    fn done(&self) -> anyhow::Result<u64>;
    /// Whether it still runs.
    fn check(&self) -> anyhow::Result<()>;
    /// The processes whose time is that of the traffic.
    fn processes(&self) -> Vec<u32>;
}

/// What is measured, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) subject: Subject<'a>,
    /// Windows with, and as many without.
    pub(super) pairs: u32,
    /// Length of each.
    pub(super) window: Duration,
}

/// Whose cost is measured.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    /// fathom, run so.
    Fathom(&'a Invocation),
    /// The least that could be in its place, with the file that it writes rows to, if it does.
    Least(Option<&'a Path>),
}

/// The subject, in place; gone when dropped.
enum Present {
    Fathom(Profiling),
    Least(Least),
}

impl Subject<'_> {
    fn start(self, namespace: &Namespace) -> anyhow::Result<Present> {
        Ok(match self {
            Self::Fathom(invocation) => {
                Present::Fathom(invocation.start(namespace, Stdio::null())?)
            }
            Self::Least(file) => Present::Least(Least::start(namespace, file)?),
        })
    }
}

impl Present {
    /// The process that holds the programs.
    fn process(&self) -> u32 {
        match self {
            Self::Fathom(fathom) => fathom.id(),
            Self::Least(least) => least.id(),
        }
    }

    /// Ends it, and returns what fathom counted.
    fn stop(self) -> anyhow::Result<Vec<(String, u64)>> {
        match self {
            Self::Fathom(fathom) => fathom.stop(),
            Self::Least(_) => Ok(Vec::new()),
        }
    }
}

/// One window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    used: Used,
    units: u64,
    elapsed: Duration,
    /// Another profiler came, went, or was there.
    is_disturbed: bool,
}

impl Cost {
    fn of(&self, used: Duration) -> f64 {
        used.as_nanos() as f64 / self.units as f64
    }

    /// Nanoseconds of all processors a unit.
    pub(super) fn total_ns(&self) -> f64 {
        self.of(self.used.total())
    }

    /// Of them, by the process of fathom.
    pub(super) fn fathom_ns(&self) -> f64 {
        self.of(self.used.fathom)
    }

    /// Of them, by threads of the kernel.
    pub(super) fn kernel_ns(&self) -> f64 {
        self.of(self.used.kernel)
    }

    /// Units a second.
    pub(super) fn rate(&self) -> f64 {
        self.units as f64 / self.elapsed.as_secs_f64()
    }
}

/// Two windows one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) without: Cost,
    pub(super) with: Cost,
}

impl Pair {
    /// Whether another profiler is in the figures.
    pub(super) fn is_disturbed(&self) -> bool {
        self.without.is_disturbed || self.with.is_disturbed
    }
}

/// What all windows say.
pub(super) struct Overhead {
    pub(super) pairs: Vec<Pair>,
    /// What each program took in a window of its own, in which the kernel's statistics are on: they
    /// cost something too.
    pub(super) programs: Vec<Program>,
    /// Units in that window.
    pub(super) counted_units: u64,
    /// What the statistics themselves add to each run, in nanoseconds.
    pub(super) empty_run_ns: f64,
    /// What fathom counted in the end of each of its runs, by name.
    pub(super) counts: Vec<(String, u64)>,
}

impl Overhead {
    /// How much more a unit takes with fathom, as a share: the median of the pairs.
    pub(super) fn share(&self) -> f64 {
        median(self.shares())
    }

    /// Where the median of all pairs that could be is, with a probability of 95 %.
    pub(super) fn interval(&self) -> (f64, f64) {
        interval(self.shares())
    }

    /// Whether it is at most `limit`: by the median where its interval is on one side of the limit,
    /// otherwise, as noise then hides what is asked for, by what is accounted for.
    pub(super) fn is_within(&self, limit: f64) -> bool {
        let (lower, upper) = self.interval();
        if lower <= limit && limit < upper {
            self.accounted_share() <= limit
        } else {
            self.share() <= limit
        }
    }

    fn shares(&self) -> impl Iterator<Item = f64> {
        let ratio = |pair: &Pair| pair.with.total_ns() / pair.without.total_ns() - 1.0;
        self.pairs.iter().map(ratio)
    }

    /// The median of a figure of each window without fathom.
    pub(super) fn without(&self, figure: impl Fn(&Cost) -> f64) -> f64 {
        median(self.pairs.iter().map(|pair| figure(&pair.without)))
    }

    /// The median of a figure of each window with fathom.
    pub(super) fn with(&self, figure: impl Fn(&Cost) -> f64) -> f64 {
        median(self.pairs.iter().map(|pair| figure(&pair.with)))
    }

    /// Nanoseconds in programs a unit, without what counting them takes.
    pub(super) fn programs_ns(&self) -> f64 {
        let programs = self.programs.iter();
        programs.map(|program| self.program_ns(program)).sum()
    }

    /// The same of one of them.
    pub(super) fn program_ns(&self, program: &Program) -> f64 {
        self.run_ns(program) * program.runs as f64 / self.counted_units as f64
    }

    /// Nanoseconds of a run of a program, without what counting it takes.
    pub(super) fn run_ns(&self, program: &Program) -> f64 {
        let counted_ns = program.run_time_ns as f64 / program.runs.max(1) as f64;
        (counted_ns - self.empty_run_ns).max(0.0)
    }

    /// What fathom is known to take, as a share: its process and its programs. The rest of the
    /// difference is noise, and what calls the programs.
    pub(super) fn accounted_share(&self) -> f64 {
        (self.programs_ns() + self.with(Cost::fathom_ns)) / self.without(Cost::total_ns)
    }
}

/// Measures traffic with and without fathom, in turns; every second pair the other way round, so
/// that a drift cancels out.
pub(super) fn measure(load: &dyn Load, plan: &Plan<'_>) -> anyhow::Result<Overhead> {
    let mut pairs = Vec::new();
    let mut counts = Vec::new();
    thread::sleep(plan.window);
    // One in the figures is one too many, but somebody may be at work all the time.
    let mut tries = 2 * plan.pairs;
    while pairs.len() < plan.pairs as usize {
        let mut with = || -> anyhow::Result<Cost> {
            let subject = plan.subject.start(plan.namespace)?;
            let cost = window(load, Some(&subject), plan.window)?;
            counts.extend(subject.stop()?);
            Ok(cost)
        };
        let without = || window(load, None, plan.window);
        let pair = if pairs.len() % 2 == 0 {
            let without = without()?;
            let with = with()?;
            Pair { without, with }
        } else {
            let with = with()?;
            let without = without()?;
            Pair { without, with }
        };
        load.check()?;
        tries = tries.saturating_sub(1);
        if !pair.is_disturbed() || tries < plan.pairs {
            pairs.push(pair);
        }
    }
    let (programs, counted_units) = count_programs(load, plan)?;
    Ok(Overhead {
        pairs,
        programs,
        counted_units,
        empty_run_ns: empty_run_ns()?,
        counts,
    })
}

fn window(load: &dyn Load, subject: Option<&Present>, length: Duration) -> anyhow::Result<Cost> {
    thread::sleep(SETTLING);
    let fathom = subject.map(Present::process);
    let own = usize::from(matches!(subject, Some(Present::Fathom(_))));
    let is_alone = || profilers() == own;
    let was_alone = is_alone();
    let processes = load.processes();
    let (begin, units) = (Instant::now(), load.done()?);
    let before = Clocks::read(&processes, fathom)?;
    thread::sleep(length);
    let used = Clocks::read(&processes, fathom)?.since(&before);
    let (units, elapsed) = (load.done()? - units, begin.elapsed());
    ensure!(units > 0, "there was no traffic");
    Ok(Cost {
        used,
        units,
        elapsed,
        is_disturbed: !was_alone || !is_alone(),
    })
}

fn count_programs(load: &dyn Load, plan: &Plan<'_>) -> anyhow::Result<(Vec<Program>, u64)> {
    let subject = plan.subject.start(plan.namespace)?;
    let statistics = Statistics::enable()?;
    thread::sleep(SETTLING);
    let (before, units) = (statistics.of(subject.process())?, load.done()?);
    thread::sleep(plan.window);
    let after = statistics.of(subject.process())?;
    let units = load.done()? - units;
    subject.stop()?;
    Ok((Program::differences(&before, &after), units))
}
