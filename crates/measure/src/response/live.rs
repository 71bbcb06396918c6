//! Measuring on live interfaces: the BPF program loaded and attached, its epochs read.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_record::{Nanoseconds, Time};
use libbpf_rs::{MapHandle, OpenObject};

use super::counts::ResponseCounts;
use super::engine::{HANDSHAKES, IDLE_NS, record, waiting};
use super::waits::Waits;
use super::{Estimator, Grouping, ResponseAggregator, Settings};
use crate::by_slot::PerSlot;
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{
    Hooks, OfPackets, Options, Part, Ring, monotonic_ns, set_constants, set_variable,
    wall_clock_offset,
};
use crate::measurement::{Interval, LONGEST_WAIT, Measurement, Take, Ticker};
use crate::pace::Pace;
use crate::response::native::{
    self, Requests, response_batches, response_bins, response_config, response_epoch,
    response_flow, response_modes,
};
use crate::table::secret;
use crate::{Counts, Error, Portion, Scope};

/// Between looks through the flows for silent ones, where epochs are put together: each interval
/// ends with one, too.
const SWEEP: Duration = Duration::from_secs(10);
/// So many epochs a second are made an estimate each: 0.7 % of a processor. While there are more,
/// they become longer.
const MOST_EPOCHS: f64 = 7_500.0;
/// The map of the variable that says how long an epoch is.
const EPOCH_TICKS: &str = ".data.response_epoch_ticks";

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct ResponseMonitor {
    part: Part,
    config: response_config,
    estimator: Estimator,
    aggregator: Option<ResponseAggregator>,
    /// By slot, epochs that were ended by a sweep: the kernel tells of them again at the next
    /// packet.
    swept: PerSlot<Swept>,
    /// Epochs that only a sweep has told of.
    swept_count: u64,
    sweep: Ticker,
    waits: Waits,
    /// For flows that wait for longer than this.
    waiting: Option<(Duration, Ticker)>,
    /// Flows that user space has deleted.
    deleted: u64,
    /// Of epochs that are put together.
    pace: Option<Paced>,
}

/// The last epoch that a sweep has told of. When it began says whose it was.
#[derive(Debug, Clone, Copy, Default)]
struct Swept {
    /// 0: there is none.
    begin: u64,
    causal_gaps: u32,
}

/// How long epochs are, and where the kernel reads it.
struct Paced {
    pace: Pace,
    length: MapHandle,
}

impl ResponseMonitor {
    /// Loads and attaches. Epochs are handed on, or put together by interval. With `waiting` there
    /// is a record of each flow whose last request has been unanswered for so long, again whenever
    /// that has doubled.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TooMany`], [`Error::Unsupported`] when privileges, the
    /// kernel or a device do not allow it, [`Error::Kernel`] when the kernel refuses a step.
    pub fn start(
        options: &Options<Settings>,
        grouping: Option<Grouping>,
        waiting: Option<Duration>,
    ) -> Result<Self, Error> {
        let settings = &options.settings;
        let hooks = Hooks::attach(&options.interfaces, options.has_xdp, &[settings])?;
        Self::of(&hooks, settings, grouping, waiting)
    }

    /// Reads what programs tell that were attached with these settings, and maybe others'.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::Kernel`] when the kernel refuses a step.
    pub fn of(
        hooks: &Hooks,
        settings: &Settings,
        grouping: Option<Grouping>,
        waiting: Option<Duration>,
    ) -> Result<Self, Error> {
        let part = hooks.part("response", Some("response_events"))?;
        let config = settings.to_native(secret(), HANDSHAKES)?;
        let paced = |_| -> Result<Paced, Error> {
            Ok(Paced {
                pace: Pace::new(settings.epoch, MOST_EPOCHS, Instant::now()),
                length: part.programs.map(EPOCH_TICKS)?,
            })
        };
        Ok(Self {
            pace: grouping.map(paced).transpose()?,
            part,
            config,
            estimator: settings.estimator,
            aggregator: grouping.map(ResponseAggregator::new),
            swept: PerSlot::default(),
            swept_count: 0,
            sweep: Ticker::new(grouping.map_or(settings.epoch, |_| SWEEP)),
            waits: Waits::default(),
            waiting: waiting.map(|limit| (limit, Ticker::new(limit / 4))),
            deleted: 0,
        })
    }

    /// Hands on what is in the ring.
    fn drain(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let offset = wall_clock_offset();
        let Self {
            part,
            swept,
            swept_count,
            estimator,
            aggregator,
            pace,
            ..
        } = self;
        let names = &*part.names();
        part.programs.read_events(|mut rest| {
            while let Some((epoch, behind)) = read_prefix::<response_epoch>(rest) {
                rest = behind;
                if let Some(paced) = pace {
                    paced.pace.count(1);
                }
                let told = std::mem::take(swept.at(epoch.slot));
                let told = Some(told).filter(|told| told.begin == epoch.begin);
                if told.is_some() {
                    *swept_count -= 1; // the kernel has counted it now
                    if pace.is_none() {
                        continue;
                    }
                }
                let (slot, key, direction) = (epoch.slot, epoch.key, epoch.flow.direction());
                let mut epoch = record(&epoch, None, *estimator, names, offset);
                if let Some(told) = told {
                    // It went on: epochs became longer after it was told of.
                    epoch.causal_gaps = epoch.causal_gaps.saturating_sub(told.causal_gaps);
                    if epoch.causal_gaps == 0 {
                        continue;
                    }
                }
                match aggregator {
                    Some(aggregator) => aggregator.take_at(slot, &key, direction, &epoch),
                    None => take(&epoch),
                }
            }
        })
    }

    /// Epochs become longer while there are very many.
    fn adapt(&mut self) -> Result<(), Error> {
        let Some(paced) = self.pace.as_mut() else {
            return Ok(());
        };
        if let Some(length) = paced.pace.adapt(Instant::now()) {
            let ticks = (length.as_nanos() >> native::RESPONSE_TICK_SHIFT) as u32;
            set_variable(&paced.length, &ticks.to_ne_bytes(), "make epochs longer")?;
            self.config.epoch = ticks;
        }
        Ok(())
    }

    /// Looks through the flows between their epochs for those that wait.
    fn look_for_waits(&mut self, limit: Duration, take: &mut Take<'_>) -> Result<(), Error> {
        let (now, offset) = (monotonic_ns(), wall_clock_offset());
        let mut look = self.waits.look(limit, now, offset);
        let names = &*self.part.names();
        self.part.for_each_flow(Portion::ALL, |key, _, value| {
            if let Some((flow, _)) = read_prefix::<response_flow>(value) {
                look.at(key, &flow, names, &mut |wait| take(&wait));
            }
        })
    }

    /// Looks through a portion of the flows: ends the epochs of those that are silent, or of all,
    /// and forgets those that are over.
    fn end_epochs(
        &mut self,
        portion: Portion,
        at_once: bool,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        if portion.is_last() {
            self.sweep.restart();
        }
        self.drain(take)?;
        let (now, offset) = (monotonic_ns(), wall_clock_offset());
        let mut over = Vec::new();
        let names = &*self.part.names();
        self.part.for_each_flow(portion, |key, slot, value| {
            let Some(mut requests) = requests_of(value, self.estimator) else {
                return;
            };
            // The kernel may have written to it since.
            let silence = now.saturating_sub(requests.flow.last);
            if silence > IDLE_NS {
                over.push(slot);
            }
            let last = requests.flow;
            let ended = requests.end_epoch(key, now.max(last.last), at_once, &self.config);
            let told = self.swept.at(slot.index());
            let Some(ended) = ended.filter(|ended| told.begin != ended.begin) else {
                return;
            };
            self.swept_count += 1;
            let mut epoch = record(&ended, None, self.estimator, names, offset);
            *told = Swept {
                begin: ended.begin,
                causal_gaps: epoch.causal_gaps,
            };
            epoch.waiting_ns = waiting(key, &last, now);
            match &mut self.aggregator {
                Some(aggregator) => {
                    aggregator.take_at(slot.index(), key, last.direction(), &epoch);
                }
                None => take(&epoch),
            }
        })?;
        for slot in over {
            self.deleted += u64::from(self.part.flows.free(slot));
        }
        Ok(())
    }
}

impl Measurement for ResponseMonitor {
    fn name(&self) -> &'static str {
        "response"
    }

    fn describe(&self) -> Vec<String> {
        self.part.describe()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.part.programs.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.part.programs.ring().into_iter().collect()
    }

    fn longest_wait(&self) -> Duration {
        let look = self.waiting.as_ref().map(|(limit, _)| *limit / 4);
        look.map_or(LONGEST_WAIT, |look| look.min(LONGEST_WAIT))
    }

    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.drain(take)?;
        if let Some((limit, look)) = &mut self.waiting
            && look.is_due()
        {
            let limit = *limit;
            self.look_for_waits(limit, take)?;
        }
        if self.sweep.is_due() {
            self.end_epochs(Portion::ALL, false, take)?;
        }
        self.adapt()
    }

    fn end_interval(
        &mut self,
        portion: Portion,
        time: Time,
        length: Nanoseconds,
        take: &mut Take<'_>,
    ) -> Result<Option<Box<dyn Interval>>, Error> {
        if let Some(paced) = &mut self.pace {
            paced.pace.fit_into(Duration::from_nanos(length.0));
            self.end_epochs(portion, false, take)?;
        }
        let slots = self.part.flows.numbers(portion);
        let aggregator = self.aggregator.as_mut();
        let records = aggregator
            .map(|aggregator| aggregator.end_portion(slots, portion.is_last(), time, length));
        Ok(records.map(|records| Box::new(records) as Box<dyn Interval>))
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        self.part.follow()?;
        Ok(self.part.take_told())
    }

    /// Hands on what is in the ring, then the epochs that are under way.
    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.part.detach();
        self.end_epochs(Portion::ALL, true, take)
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut counts = ResponseCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.part.counters.add_to(own)?;
        counts.counters[native::RESPONSE_COUNT_EPOCHS as usize] += self.swept_count;
        counts.counters[native::RESPONSE_COUNT_FLOWS_DELETED as usize] += self.deleted;
        let opened = counts.counters[native::RESPONSE_COUNT_FLOWS_OPENED as usize];
        counts.evicted = self.part.flows.evicted(opened, self.deleted);
        counts.refused = self.part.refused();
        Ok(counts.into())
    }
}

/// Bytes that an estimator keeps of a flow.
fn gaps_size(estimator: Estimator) -> usize {
    match estimator {
        Estimator::Timestamps | Estimator::Acknowledged | Estimator::Split => {
            size_of::<response_bins>()
        }
        Estimator::Modes => size_of::<response_modes>(),
        Estimator::Fixed => size_of::<response_batches>(),
    }
}

/// What the table holds of a flow.
fn requests_of(value: &[u8], estimator: Estimator) -> Option<Requests> {
    let (flow, rest) = read_prefix::<response_flow>(value)?;
    Requests::of_bytes(flow, rest.get(..gaps_size(estimator))?)
}

impl OfPackets for Settings {
    fn name(&self) -> &'static str {
        "response"
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn state_bytes(&self) -> usize {
        size_of::<response_flow>() + gaps_size(self.estimator)
    }

    fn prepare(&self, object: &mut OpenObject) -> Result<(), Error> {
        for mut map in object.maps_mut() {
            if map.name() == "response_handshakes" {
                map.set_max_entries(HANDSHAKES)
                    .map_err(|error| Error::kernel("set the table of handshakes up", error))?;
            }
        }
        let config = self.to_native(secret(), HANDSHAKES)?;
        set_constants(
            object,
            &[
                (".rodata.response_config", bytes_of(&config)),
                (EPOCH_TICKS, bytes_of(&config.epoch)),
            ],
        )
    }
}
