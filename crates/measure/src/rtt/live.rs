//! Measuring on live interfaces: the BPF program loaded and attached, its samples read.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fathom_record::{Nanoseconds, Time};
use libbpf_rs::MapHandle;

use super::batches::Batches;
use super::event::{Transition, decode};
use super::object::Object;
use super::{Aggregation, Aggregator, Report, Samples, Settings};
use crate::bytes::read_prefix;
use crate::kernel::{Hooks, Options, Ring, monotonic_ns, set_variable, wall_clock_offset};
use crate::measurement::{Interval, Measurement, Take, Ticker};
use crate::pace::Pace;
use crate::replay::Interfaces;
use crate::rtt::native::{self, rtt_batch_event, rtt_event, rtt_flow, rtt_flow_event};
use crate::{Counts, Error, Portion};

/// Flows without packets for so long are over and leave the table.
const IDLE: Duration = Duration::from_secs(300);
/// A closed connection may still see a late packet; after this long it will not.
const CLOSED: Duration = Duration::from_secs(10);
/// Between looks through the table of flows.
const SWEEP: Duration = Duration::from_secs(10);

/// So many samples a second cost less than half a percent of a processor.
const MOST_SAMPLES: f64 = 25_000.0;
/// How often they are counted.
const COUNTED: Duration = Duration::from_secs(1);
/// The map of the variable that says how long flows pause between samples at least.
const SHORTEST_PAUSE: &str = ".data.rtt_shortest_pause";

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct RttMonitor {
    object: Object,
    has_events: bool,
    aggregator: Option<Aggregator>,
    batches: Option<Batches>,
    sweep: Ticker,
    pace: Option<Paced>,
}

/// How seldom flows are sampled, and where the kernel reads it.
struct Paced {
    pace: Pace,
    pause: MapHandle,
    /// By the kernel, when they were counted last.
    samples: u64,
    count: Ticker,
}

impl RttMonitor {
    /// Loads and attaches. Samples are handed on, or put together by interval.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Unsupported`] when privileges, the kernel or a device do
    /// not allow it, [`Error::Kernel`] when the kernel refuses a step.
    pub fn start(
        options: &Options<Settings>,
        aggregation: Option<Aggregation>,
    ) -> Result<Self, Error> {
        let settings = &options.settings;
        let hooks = Hooks::attach(&options.interfaces, options.has_xdp, &[settings])?;
        Self::of(&hooks, settings, aggregation)
    }

    /// Reads what programs tell that were attached with these settings, and maybe others'.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel refuses a step.
    ///
    /// # Panics
    /// When samples come in batches, and are not put together.
    pub fn of(
        hooks: &Hooks,
        settings: &Settings,
        aggregation: Option<Aggregation>,
    ) -> Result<Self, Error> {
        assert!(aggregation.is_some() || settings.samples != Samples::InBatches);
        let object = Object::open(hooks)?;
        object.learn_addresses()?;
        Ok(Self {
            object,
            has_events: settings.has_events,
            aggregator: aggregation.map(Aggregator::new),
            batches: (settings.samples == Samples::InBatches)
                .then(|| Batches::new(settings.pending_entries())),
            sweep: Ticker::new(SWEEP),
            pace: None,
        })
    }

    /// Has each flow give fewer samples while all together give very many. For samples that come in
    /// batches, with an interval between them.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the programs are not there.
    pub fn pace_samples(&mut self, settings: &Settings) -> Result<(), Error> {
        self.pace = Some(Paced {
            pace: Pace::new(settings.sample_interval, MOST_SAMPLES, Instant::now()),
            pause: self.object.part.programs.map(SHORTEST_PAUSE)?,
            samples: 0,
            count: Ticker::new(COUNTED),
        });
        Ok(())
    }

    fn adapt(&mut self) -> Result<(), Error> {
        let Some(paced) = &mut self.pace else {
            return Ok(());
        };
        if !paced.count.is_due() {
            return Ok(());
        }
        let samples = self.object.samples()?;
        paced.pace.count(samples.saturating_sub(paced.samples));
        paced.samples = samples;
        if let Some(length) = paced.pace.adapt(Instant::now()) {
            let ns = Nanoseconds::from(length).0.to_ne_bytes();
            set_variable(&paced.pause, &ns, "take fewer samples")?;
        }
        Ok(())
    }

    /// Hands on what is in the ring.
    fn drain(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let part = &self.object.part;
        let mut events = Events {
            aggregator: self.aggregator.as_mut(),
            batches: self.batches.as_mut(),
            names: &*part.names(),
            offset: wall_clock_offset(),
            take,
        };
        part.programs.read_events(|mut bytes| {
            while let Some(behind) = events.on_event(bytes) {
                bytes = behind;
            }
        })
    }

    /// Looks through a portion of the flows: counts their traffic, where it is put together, and
    /// ends those that are over. Samples wait in their batches until an interval ends.
    fn sweep(&mut self, portion: Portion, is_end: bool, take: &mut Take<'_>) -> Result<(), Error> {
        if portion.is_last() {
            self.sweep.restart();
        }
        self.drain(take)?;
        let now = monotonic_ns();
        let offset = wall_clock_offset();
        let mut over = Vec::new();
        let Object { part, deleted } = &mut self.object;
        let names = part.names();
        part.for_each_flow(portion, |key, slot, value| {
            let Some((flow, _)) = read_prefix::<rtt_flow>(value) else {
                return;
            };
            let idle = Duration::from_nanos(now.saturating_sub(flow.last_seen));
            let is_closed = u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED != 0;
            let is_over = idle > IDLE || (is_closed && idle > CLOSED);
            if is_over {
                over.push((*key, slot, flow, is_closed));
            }
            let Some(aggregator) = &mut self.aggregator else {
                return;
            };
            aggregator.on_flow(key, slot.index(), &flow, &*names);
            if let Some(batches) = self.batches.as_mut().filter(|_| is_end || is_over) {
                batches.read(&part.flows, slot, |direction, samples| {
                    aggregator.on_samples(key, slot.index(), direction, samples, &*names);
                });
            }
        })?;
        for (key, slot, flow, is_closed) in over {
            if !part.flows.free(slot) {
                continue; // the kernel was faster
            }
            *deleted += 1;
            if self.has_events && !is_closed {
                let closing = Transition::close(native::RTT_REASON_TIMEOUT, now);
                take(&closing.report(&key, &flow, &*names, offset));
            }
        }
        drop(names);
        if portion.is_last() {
            self.object.learn_addresses()?;
        }
        Ok(())
    }
}

/// Where events go.
struct Events<'a, 'b, I> {
    aggregator: Option<&'a mut Aggregator>,
    batches: Option<&'a mut Batches>,
    names: &'a I,
    offset: u64,
    take: &'a mut Take<'b>,
}

impl<I: Interfaces> Events<'_, '_, I> {
    /// Takes the first of these events. Returns what is behind it; `None` if there is none.
    fn on_event<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (event, behind) = read_prefix::<rtt_event>(bytes)?;
        match u32::from(event.type_) {
            native::RTT_EVENT_SAMPLE => {
                let report = decode(&event, None, self.names, self.offset);
                match (&mut self.aggregator, &report) {
                    (Some(aggregator), Report::Sample(sample, _)) => aggregator.on_sample(sample),
                    _ => (self.take)(&report),
                }
                Some(behind)
            }
            native::RTT_EVENT_BATCH => {
                let (event, behind) = read_prefix::<rtt_batch_event>(bytes)?;
                self.on_batch(&event);
                Some(behind)
            }
            _ => {
                let (event, behind) = read_prefix::<rtt_flow_event>(bytes)?;
                let traffic = Some(&event.traffic);
                (self.take)(&decode(&event.event, traffic, self.names, self.offset));
                Some(behind)
            }
        }
    }

    fn on_batch(&mut self, rtt_batch_event { event, batch }: &rtt_batch_event) {
        if let (Some(aggregator), Some(batches)) = (&mut self.aggregator, &mut self.batches) {
            let direction = event.sample.direction & 1;
            let samples = batches.rest(event.slot, direction, batch);
            aggregator.on_samples(&event.key, event.slot, direction, samples, self.names);
        }
    }
}

impl Measurement for RttMonitor {
    fn name(&self) -> &'static str {
        "rtt"
    }

    fn describe(&self) -> Vec<String> {
        self.object.part.describe()
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.object.part.programs.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        self.object.part.programs.ring().into_iter().collect()
    }

    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.drain(take)?;
        if self.sweep.is_due() {
            self.sweep(Portion::ALL, false, take)?;
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
        }
        self.sweep(portion, true, take)?;
        let slots = self.object.part.flows.numbers(portion);
        let aggregator = self.aggregator.as_mut();
        let records = aggregator
            .map(|aggregator| aggregator.end_portion(slots, portion.is_last(), time, length));
        Ok(records.map(|records| Box::new(records) as Box<dyn Interval>))
    }

    fn follow(&mut self) -> Result<Vec<String>, Error> {
        if self.object.part.follow()? {
            self.object.learn_addresses()?;
        }
        Ok(self.object.part.take_told())
    }

    /// Hands on what is in the ring; then, if flow events are wanted, the closing of all flows that
    /// are open.
    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.object.part.detach();
        self.drain(take)?;
        if !self.has_events {
            return Ok(());
        }
        let closing = Transition::close(native::RTT_REASON_END, monotonic_ns());
        let offset = wall_clock_offset();
        let part = &self.object.part;
        part.for_each_flow(Portion::ALL, |key, _, value| {
            let flow = read_prefix::<rtt_flow>(value).map(|(flow, _)| flow);
            let is_open = |flow: &rtt_flow| u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED == 0;
            if let Some(flow) = flow.filter(is_open) {
                take(&closing.report(key, &flow, &*part.names(), offset));
            }
        })
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut counts = self.object.counts()?;
        counts.refused = self.object.part.refused();
        Ok(counts.into())
    }
}
