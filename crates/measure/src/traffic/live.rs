//! Measuring on live interfaces: the BPF program loaded and attached, its table of flows read.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};
use libbpf_rs::OpenObject;

use super::Settings;
use super::counts::{TrafficCounts, named};
use super::engine::IDLE_NS;
use super::increase::{Increase, Kept, TrafficInterval, counts_of, since};
use crate::by_slot::{BySlot, Own};
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{Hooks, OfPackets, Options, Part, monotonic_ns, set_constants};
use crate::measurement::{Interval, Measurement, Take, Ticker};
use crate::table::secret;
use crate::traffic::native::{self, traffic_flow};
use crate::{Counts, Error, Portion, Scope};

/// Between looks at the flows, where an interval is longer: so much of what a flow carried is not
/// told if it is evicted.
const SWEEP: Duration = Duration::from_secs(10);

/// A flow, as it was when it was looked at last.
struct Seen {
    counts: Kept,
    /// What it has carried in the present interval.
    increase: Kept,
    opener: u8,
    /// When its counts had last changed.
    last: u64,
    /// Was it found since its last interval ended?
    is_there: bool,
}

impl Seen {
    fn new(opener: u8, now: u64) -> Self {
        Self {
            counts: Kept::default(),
            increase: Kept::default(),
            opener,
            last: now,
            is_there: true,
        }
    }
}

impl Own<Seen> {
    /// What there is of the present interval, taken out.
    fn increase(&mut self) -> Increase {
        Increase {
            key: self.key,
            counts: std::mem::take(&mut self.state.increase).counts(),
            opener: self.state.opener,
        }
    }
}

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct TrafficMonitor {
    part: Part,
    seen: BySlot<Seen>,
    /// Of the present interval, of flows that have lost their slots.
    gone: Vec<Increase>,
    sweep: Ticker,
    /// Flows that user space has deleted.
    deleted: u64,
    /// Records that were made.
    records: u64,
}

impl TrafficMonitor {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TooMany`], [`Error::Unsupported`] when privileges, the
    /// kernel or a device do not allow it, [`Error::Kernel`] when the kernel refuses a step.
    pub fn start(options: &Options<Settings>) -> Result<Self, Error> {
        let settings = &options.settings;
        let hooks = Hooks::attach(&options.interfaces, options.has_xdp, &[settings])?;
        Self::of(&hooks)
    }

    /// Reads what programs tell that were attached for this measurement, and maybe others.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel refuses a step.
    pub fn of(hooks: &Hooks) -> Result<Self, Error> {
        Ok(Self {
            part: hooks.part("traffic", None)?,
            seen: BySlot::new(),
            gone: Vec::new(),
            sweep: Ticker::new(SWEEP),
            deleted: 0,
            records: 0,
        })
    }

    /// Looks through a portion of the flows: what they have carried, and which are over.
    fn look(&mut self, portion: Portion) -> Result<(), Error> {
        if portion.is_last() {
            self.sweep.restart();
        }
        let now = monotonic_ns();
        let mut over = Vec::new();
        let (seen, gone) = (&mut self.seen, &mut self.gone);
        self.part.for_each_flow(portion, |key, slot, value| {
            let Some((flow, _)) = read_prefix::<traffic_flow>(value) else {
                return;
            };
            let first = || Seen::new(flow.opener, now);
            let (own, before) = seen.claim(slot.index(), key, |_| true, first);
            gone.extend(before.map(|mut before| before.increase()));
            let (counts, before) = (counts_of(&flow), own.counts.counts());
            if counts != before {
                own.increase.add(&since(&counts, &before));
                own.counts.set(counts);
                own.opener = flow.opener;
                own.last = now;
            }
            own.is_there = true;
            if now.saturating_sub(own.last) > IDLE_NS {
                over.push(slot);
            }
        })?;
        for slot in over {
            self.deleted += u64::from(self.part.flows.free(slot));
        }
        Ok(())
    }
}

impl Measurement for TrafficMonitor {
    fn name(&self) -> &'static str {
        "traffic"
    }

    fn describe(&self) -> Vec<String> {
        self.part.describe()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.part.programs.events()
    }

    fn poll(&mut self, _: &mut Take<'_>) -> Result<(), Error> {
        if self.sweep.is_due() {
            self.look(Portion::ALL)?;
        }
        Ok(())
    }

    fn end_interval(
        &mut self,
        portion: Portion,
        time: Time,
        length: Nanoseconds,
        _: &mut Take<'_>,
    ) -> Result<Option<Box<dyn Interval>>, Error> {
        self.look(portion)?;
        let mut increases = Vec::new();
        if portion.is_last() {
            increases.append(&mut self.gone);
        }
        self.seen.retain(self.part.flows.numbers(portion), |own| {
            increases.push(own.increase());
            // What the kernel has no more is not remembered.
            std::mem::take(&mut own.state.is_there)
        });
        increases.retain(Increase::is_something);
        let names = self.part.names().clone();
        let records = TrafficInterval::new(increases, time, length, names);
        self.records += records.len() as u64;
        Ok(Some(Box::new(records)))
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        self.part.follow()?;
        Ok(self.part.take_told())
    }

    /// The last interval, which the session ends next, has all that passed.
    fn finish(&mut self, _: &mut Take<'_>) -> Result<(), Error> {
        self.part.detach();
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut counts = TrafficCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.part.counters.add_to(own)?;
        counts.counters[native::TRAFFIC_COUNT_RECORDS as usize] = self.records;
        counts.counters[native::TRAFFIC_COUNT_FLOWS_DELETED as usize] = self.deleted;
        let opened = counts.counters[native::TRAFFIC_COUNT_FLOWS_OPENED as usize];
        counts.evicted = self.part.flows.evicted(opened, self.deleted);
        counts.refused = self.part.refused();
        Ok(named(&counts))
    }
}

impl OfPackets for Settings {
    fn name(&self) -> &'static str {
        "traffic"
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn state_bytes(&self) -> usize {
        size_of::<traffic_flow>()
    }

    fn prepare(&self, object: &mut OpenObject) -> Result<(), Error> {
        let config = self.to_native(secret());
        set_constants(object, &[(".rodata.traffic_config", bytes_of(&config))])
    }
}
