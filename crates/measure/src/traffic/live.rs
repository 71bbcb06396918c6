//! Measuring on live interfaces: the BPF program loaded and attached, its table of flows read.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};
use libbpf_rs::OpenObject;
use rustc_hash::FxBuildHasher;

use super::Settings;
use super::counts::{TrafficCounts, named};
use super::engine::IDLE_NS;
use super::increase::{Increase, add, counts_of, records, since};
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{
    FlowTable, Options, Places, Programs, choose_programs, monotonic_ns, passing, set_constants,
    size_flow_table,
};
use crate::measurement::{Interval, Measurement, Take, Ticker};
use crate::native::flow_key;
use crate::table::secret;
use crate::traffic::native::{self, traffic_counts, traffic_flow};
use crate::{Counts, Error};

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/traffic.bpf.o"));

/// As long may interfaces that go or come wait until they are looked at.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Between looks at the flows, where an interval is longer: so much of what a flow carried is not
/// told if it is evicted.
const SWEEP: Duration = Duration::from_secs(5);

/// A flow, as it was when it was looked at last.
struct Seen {
    counts: [traffic_counts; 2],
    /// What it has carried in the present interval.
    increase: [traffic_counts; 2],
    opener: u8,
    /// When its counts had last changed.
    last: u64,
    /// The number of the last look that found it.
    look: u64,
}

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct Live {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    places: Places,
    programs: Programs,
    flows: FlowTable,
    seen: HashMap<flow_key, Seen, FxBuildHasher>,
    looks: u64,
    sweep: Ticker,
    /// Flows that user space has deleted.
    deleted: u64,
    /// Records that were made.
    records: u64,
}

impl Live {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TooMany`], [`Error::Unsupported`] when privileges, the
    /// kernel or a device do not allow it, [`Error::Kernel`] when the kernel refuses a step.
    pub fn start(options: &Options<Settings>) -> Result<Self, Error> {
        let mut places = Places::find(&options.interfaces, true, passing(options.has_xdp))?;
        let programs = load(&options.settings, |program| places.need(program))?;
        places.attach(&programs)?;
        Ok(Self {
            places,
            flows: programs.flows("traffic_flows")?,
            programs,
            seen: HashMap::default(),
            looks: 0,
            sweep: Ticker::new(SWEEP),
            deleted: 0,
            records: 0,
        })
    }

    /// Looks through the flows: what they have carried, and which are over.
    fn look(&mut self) -> Result<(), Error> {
        self.sweep.restart();
        self.looks += 1;
        let (now, look) = (monotonic_ns(), self.looks);
        let mut over = Vec::new();
        let seen = &mut self.seen;
        self.programs
            .for_each_flow(&self.flows, |key, slot, value| {
                let Some((flow, _)) = read_prefix::<traffic_flow>(value) else {
                    return;
                };
                let own = seen.entry(*key).or_insert_with(|| Seen {
                    counts: Default::default(),
                    increase: Default::default(),
                    opener: flow.opener,
                    last: now,
                    look,
                });
                let counts = counts_of(&flow);
                if counts != own.counts {
                    add(&mut own.increase, &since(&counts, &own.counts));
                    own.counts = counts;
                    own.opener = flow.opener;
                    own.last = now;
                }
                own.look = look;
                if now.saturating_sub(own.last) > IDLE_NS {
                    over.push(slot);
                }
            })?;
        for slot in over {
            self.deleted += u64::from(self.flows.free(slot));
        }
        Ok(())
    }
}

impl Measurement for Live {
    fn name(&self) -> &'static str {
        "traffic"
    }

    fn describe(&self) -> Vec<String> {
        self.places.describe().collect()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.programs.events()
    }

    fn longest_wait(&self) -> Duration {
        LONGEST_WAIT
    }

    fn poll(&mut self, _: &mut Take<'_>) -> Result<(), Error> {
        if self.sweep.is_due() {
            self.look()?;
        }
        Ok(())
    }

    fn end_interval(
        &mut self,
        time: Time,
        length: Nanoseconds,
        _: &mut Take<'_>,
    ) -> Result<Option<Box<dyn Interval>>, Error> {
        self.look()?;
        let increases = self.seen.iter_mut().map(|(key, seen)| Increase {
            key: *key,
            counts: std::mem::take(&mut seen.increase),
            opener: seen.opener,
        });
        let increases: Vec<_> = increases.filter(Increase::is_something).collect();
        // What the kernel has no more is not remembered.
        let look = self.looks;
        self.seen.retain(|_, seen| seen.look == look);
        let records = records(increases, time, length, &self.places.names);
        self.records += records.len() as u64;
        Ok(Some(Box::new(records.into_iter())))
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        self.places.follow(&self.programs)?;
        Ok(self.places.take_told())
    }

    /// The last interval, which the session ends next, has all that passed.
    fn finish(&mut self, _: &mut Take<'_>) -> Result<(), Error> {
        self.places.clear();
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut counts = TrafficCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.programs.add_counters("traffic_cpus", own)?;
        counts.counters[native::TRAFFIC_COUNT_RECORDS as usize] = self.records;
        counts.counters[native::TRAFFIC_COUNT_FLOWS_DELETED as usize] = self.deleted;
        let opened = counts.counters[native::TRAFFIC_COUNT_FLOWS_OPENED as usize];
        counts.evicted = self.flows.evicted(opened, self.deleted);
        counts.refused = self.places.refused();
        Ok(named(&counts))
    }
}

/// Loads the programs that `is_needed` says yes to.
fn load(settings: &Settings, is_needed: impl Fn(&str) -> bool) -> Result<Programs, Error> {
    Programs::load(OBJECT, None, |object| prepare(object, settings, is_needed))
}

/// Sets what must be known before the load: constants, the size of the table, where programs will
/// be attached.
fn prepare(
    object: &mut OpenObject,
    settings: &Settings,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let config = settings.to_native(secret());
    let selection = settings.selection.to_native()?;
    let state_bytes = size_of::<traffic_flow>();
    size_flow_table(object, settings.flows, "traffic_flows", state_bytes)?;
    set_constants(
        object,
        &[
            (".rodata.traffic_config", bytes_of(&config)),
            (".rodata.selection", bytes_of(&selection)),
        ],
    )?;
    choose_programs(object, is_needed);
    Ok(())
}

/// Loads the programs without attaching them, to see whether this kernel takes them.
///
/// # Errors
/// As [`Live::start`].
pub fn probe(settings: &Settings) -> Result<(), Error> {
    load(settings, |_| true).map(drop)
}
