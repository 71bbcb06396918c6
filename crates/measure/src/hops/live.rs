//! The programs loaded and attached, and their events handed to the engine.

use std::ffi::c_char;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fathom_record::Nanoseconds;
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject, ProgramInput};

use super::engine::{Engine, Settings};
use super::event::Event;
use super::flows::Flows;
use super::program::UserPrograms;
use super::schedule::{EXPLORING, interval_us};
use crate::bytes::{bytes_of, read_prefix};
use crate::counts::REFUSED;
use crate::hops::native::{self, hops_budget, hops_config};
use crate::kernel::{
    Framing, Group, Interface, NO_GROUPS, Places, Programs, Ring, choose_programs, decompress,
    group_root, monotonic_ns, set_constants, wall_clock_offset,
};
use crate::measurement::{Measurement, Take, Ticker};
use crate::{Counts, Error, Selection};

/// The compiled programs.
static OBJECT: LazyLock<Vec<u8>> =
    LazyLock::new(|| decompress(include_bytes!(concat!(env!("OUT_DIR"), "/hops.bpf.o.zst"))));

/// TTLs that are probed of a new TCP flow before anything is known of its path, and of others.
const FIRST_CEILING: u8 = 4;
const FIRST_CEILING_UNSAFE: u8 = 1;
/// As long may an answer wait before it is handed on.
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Between looks at how many packets there are.
const COUNT: Duration = Duration::from_millis(100);
/// Between looks for sockets of processes.
const LOOK: Duration = Duration::from_secs(1);
/// Between looks for destinations that are not probed any more.
const TIDY: Duration = Duration::from_secs(5);

/// Whose sockets' flows are probed: of processes that are all that is named here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// Their name, as `ps -o comm` shows it.
    pub name: Option<String>,
    /// The process that they descend from, or are.
    pub ancestor: Option<u32>,
}

impl Owner {
    /// Is anything named?
    fn is_named(&self) -> bool {
        *self != Self::default()
    }
}

/// What to probe, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interfaces that flows leave by: names, patterns, or `any`.
    pub interfaces: Vec<String>,
    /// Which flows.
    pub selection: Selection,
    /// Only flows of sockets in this control group or below, a folder of the version 2 hierarchy.
    pub group: Option<PathBuf>,
    /// Only flows of these processes' sockets.
    pub owner: Owner,
    /// Probes a second, in all.
    pub budget: u32,
    /// Probes a second to one destination.
    pub destination_budget: u32,
    /// Answers are passed on to the stack too.
    pub keeps_answers: bool,
    /// Probes are as long as the application's packets, where a router is known at their TTL.
    pub is_full_size: bool,
    /// Functions of the user's own.
    pub programs: UserPrograms,
    /// How flows are measured.
    pub settings: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            selection: Selection::default(),
            group: None,
            owner: Owner::default(),
            budget: 2_000,
            destination_budget: 1_000,
            keeps_answers: false,
            is_full_size: false,
            programs: UserPrograms::default(),
            settings: Settings::default(),
        }
    }
}

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct Prober {
    // Dropped in this order: first nothing runs any more, then the maps go.
    places: Places,
    links: Vec<Link>,
    look: Option<Link>,
    flows: Flows,
    programs: Programs,
    engine: Engine,
    sockets: Ticker,
    budgets: Ticker,
    packets: Ticker,
}

impl Prober {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Unsupported`] when privileges, the kernel or a device do
    /// not allow it, [`Error::Kernel`] when the kernel refuses a step, or a program of the user's.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let places = Places::find(&options.interfaces, false, programs_of)?;
        let object = options.programs.link_into(&OBJECT)?;
        let programs = Programs::load(&object, "hops_events", |object| {
            prepare(object, options, &places)
        })
        .map_err(|error| options.programs.explain(error))?;
        let now = monotonic_ns();
        let mut prober = Self {
            places,
            links: Vec::new(),
            look: None,
            flows: Flows::open(&programs)?,
            programs,
            engine: Engine::new(options.settings.clone(), now),
            sockets: Ticker::new(LOOK),
            budgets: Ticker::new(TIDY),
            packets: Ticker::new(COUNT),
        };
        if options.owner.is_named() {
            prober.watch_sockets()?;
        }
        prober.places.attach(&prober.programs)?;
        Ok(prober)
    }

    /// Are there probes whose fate is not known yet?
    pub fn is_waiting(&self) -> bool {
        self.engine.is_waiting()
    }

    fn drain(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.engine.offset_ns = wall_clock_offset();
        let (engine, names) = (&mut self.engine, &self.places.names);
        self.programs.read_events(|mut bytes| {
            while let Some((event, behind)) = Event::read(bytes, names) {
                engine.take(&event, &mut |report| take(report.record()));
                bytes = behind;
            }
        })
    }

    /// Probes are to be few beside packets: the engine is told how many there are.
    fn count_packets(&mut self, now: u64) -> Result<(), Error> {
        let mut sums = [0; native::HOPS_COUNTER_COUNT as usize];
        self.programs.add_counters("hops_cpus", &mut sums)?;
        self.engine
            .watched(sums[native::HOPS_COUNT_PACKETS_WATCHED as usize], now);
        Ok(())
    }

    /// Makes room for new destinations: a budget that was not touched for a second is whole again,
    /// as a new one is.
    fn tidy_budgets(&self, now: u64) -> Result<(), Error> {
        let budgets = self.programs.map("hops_budgets")?;
        let destinations: Vec<Vec<u8>> = budgets.keys().collect();
        for destination in destinations {
            let bytes = budgets
                .lookup(&destination, MapFlags::ANY)
                .map_err(|error| Error::kernel("read the budgets of destinations", error))?;
            let budget = bytes.as_deref().and_then(read_prefix::<hops_budget>);
            let is_whole = budget.is_some_and(|(budget, _)| budget.filled + 1_000_000_000 < now);
            if is_whole {
                // Failing means that it is gone already.
                let _ = budgets.delete(&destination);
            }
        }
        Ok(())
    }

    /// Takes the turns of a flow that sends nothing itself.
    fn probe_silent(&self, number: u32) -> Result<(), Error> {
        let program = self.programs.program("silent_flow")?;
        let frame = [0; 128];
        // The start of a struct __sk_buff: its length, its type, its mark; the rest is zero.
        let mut context = [0; 12];
        context[8..].copy_from_slice(&number.to_ne_bytes());
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&frame),
            ..ProgramInput::default()
        };
        program
            .test_run(input)
            .map(drop)
            .map_err(|error| Error::kernel("probe a silent flow", error))
    }

    /// Learns of sockets as they are made, and of those that are there.
    fn watch_sockets(&mut self) -> Result<(), Error> {
        let root = group_root().ok_or_else(|| Error::Unsupported {
            needs: "selecting processes needs control groups of version 2".to_owned(),
            found: NO_GROUPS.to_owned(),
            remedy: "mount them, or select networks or ports".to_owned(),
        })?;
        let attempt = || format!("open {}", root.display());
        let folder = std::fs::File::open(&root).map_err(|error| Error::kernel(attempt(), error))?;
        let failed = |error| Error::kernel("watch sockets being made", error);
        let made = self.programs.program("socket_made")?;
        self.links
            .push(made.attach_cgroup(folder.as_raw_fd()).map_err(failed)?);
        let open = self.programs.program("open_socket")?;
        self.look = Some(open.attach().map_err(failed)?);
        self.look_for_sockets()
    }

    /// Sockets that were there before, or were passed on: nothing tells of those.
    fn look_for_sockets(&self) -> Result<(), Error> {
        let Some(link) = &self.look else {
            return Ok(());
        };
        let failed = |error| Error::kernel("look through open files", error);
        let mut iterator = Iter::new(link).map_err(failed)?;
        let mut nothing = [0; 64];
        while std::io::Read::read(&mut iterator, &mut nothing)
            .map_err(|error| Error::kernel("look through open files", error))?
            != 0
        {}
        Ok(())
    }
}

impl Measurement for Prober {
    fn name(&self) -> &'static str {
        "hops"
    }

    fn describe(&self) -> Vec<String> {
        self.places.describe().collect()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.programs.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.programs.ring().into_iter().collect()
    }

    fn longest_wait(&self) -> Duration {
        LONGEST_WAIT
    }

    /// Hands on the records that have come, and has silent flows probed.
    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.drain(take)?;
        let now = monotonic_ns();
        if self.packets.is_due() {
            self.count_packets(now)?;
        }
        let plans = self.engine.tick(now, &mut |report| take(report.record()));
        for (number, plan) in plans {
            self.flows.apply(number, &plan);
        }
        for (number, is_asked) in self.engine.open_flows() {
            let Some(seen) = self.flows.seen(number) else {
                continue;
            };
            self.engine.hear(number, seen);
            if is_asked && self.engine.is_silent(seen, now) {
                self.probe_silent(number)?;
            }
        }
        if self.sockets.is_due() {
            self.look_for_sockets()?;
        }
        if self.budgets.is_due() {
            self.tidy_budgets(now)?;
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        let gone = self.places.follow(&self.programs)?;
        for interface in gone.into_iter().flatten() {
            self.flows.forget(interface);
        }
        Ok(self.places.take_told())
    }

    /// Hands on what is in the ring, and a last summary.
    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.drain(take)?;
        self.places.clear();
        let now = monotonic_ns();
        self.engine.finish(now, &mut |report| take(report.record()));
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut sums = [0; native::HOPS_COUNTER_COUNT as usize];
        self.programs.add_counters("hops_cpus", &mut sums)?;
        let purposes = self.engine.purposes;
        let own = [
            ("probes to known routers", purposes.measured),
            ("probes that found a router", purposes.explored),
            ("probes beyond the last known router", purposes.beyond),
            ("answers that came too late", self.engine.late),
            (REFUSED, self.places.refused()),
            (
                "flows left out of the comparison of paths: too many ended",
                self.engine.forgotten(),
            ),
        ];
        let counters = native::counter_names().iter().copied().zip(sums);
        Ok(Counts {
            measured: vec![
                ("flows", sums[native::HOPS_COUNT_FLOWS_OPENED as usize]),
                ("probes", sums[native::HOPS_COUNT_PROBES_SENT as usize]),
            ],
            named: counters
                .chain(own)
                .filter(|(_, count)| *count != 0)
                .collect(),
        })
    }
}

/// The programs that an interface needs: what takes answers first, or the first ones would be
/// missed.
fn programs_of(interface: &Interface) -> Vec<&'static str> {
    match interface.framing {
        Framing::Ethernet => vec!["ethernet_ingress", "ethernet_egress"],
        Framing::Ip => vec!["ip_ingress", "ip_egress"],
    }
}

/// Sets what must be known before the load.
fn prepare(object: &mut OpenObject, options: &Options, places: &Places) -> Result<(), Error> {
    let configuration = configuration(options)?;
    let selection = options.selection.to_native()?;
    set_constants(
        object,
        &[
            (".rodata.hops_config", bytes_of(&configuration)),
            (".rodata.selection", bytes_of(&selection)),
        ],
    )?;
    choose_programs(object, |program| match program {
        "silent_flow" => true,
        "socket_made" | "open_socket" => options.owner.is_named(),
        program => places.need(program),
    });
    Ok(())
}

fn configuration(options: &Options) -> Result<hops_config, Error> {
    let group = match &options.group {
        Some(folder) => Group::of(folder)?,
        None => Group::default(),
    };
    let rate = &options.settings.rate;
    // Who shares what is known waits for a plan.
    let first = |ceiling: u8| {
        if rate.is_asked {
            ceiling.min(options.settings.highest_ttl)
        } else {
            0
        }
    };
    let mut configuration = hops_config {
        cgroup: group.number,
        cgroup_level: group.level,
        timeout: Nanoseconds::from(options.settings.timeout).0,
        probes_per_second: options.budget,
        probes_per_destination: options.destination_budget,
        interval: interval_us(rate.first.min(EXPLORING)),
        has_owners: u8::from(options.owner.is_named()),
        parent: options.owner.ancestor.unwrap_or(0),
        keeps_answers: u8::from(options.keeps_answers),
        first_ceiling: first(FIRST_CEILING),
        first_ceiling_unsafe: first(if options.settings.is_own_flow {
            FIRST_CEILING
        } else {
            FIRST_CEILING_UNSAFE
        }),
        is_full_size: u8::from(options.is_full_size),
        has_edit: u8::from(options.programs.probe.is_some()),
        has_extract: u8::from(options.programs.reply.is_some()),
        ..hops_config::default()
    };
    let room = configuration.process.len() - 1;
    let name = options.owner.name.as_deref().unwrap_or_default();
    for (target, byte) in configuration.process[..room].iter_mut().zip(name.bytes()) {
        *target = c_char::from_ne_bytes([byte]);
    }
    Ok(configuration)
}
