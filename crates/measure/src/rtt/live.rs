//! Measuring on live interfaces: the BPF program loaded and attached, its samples read.

use std::time::Duration;

use libbpf_rs::MapCore;

use super::event::{Transition, decode};
use super::object::Object;
use super::{Aggregator, Counts, Report, Settings};
use crate::Error;
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{Options, Places, monotonic_ns, passing, wall_clock_offset};
use crate::rtt::native::{self, rtt_event, rtt_flow, rtt_flow_event};

/// Flows without packets for so long are over and leave the table.
const IDLE: Duration = Duration::from_secs(300);
/// A closed connection may still see a late packet; after this long it will not.
const CLOSED: Duration = Duration::from_secs(10);

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends in whatever way.
pub struct Live {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    places: Places,
    object: Object,
    has_events: bool,
}

impl Live {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Unsupported`] when privileges, the kernel or a device do not allow it, [`Error::Kernel`] when the
    /// kernel refuses a step.
    pub fn start(options: &Options<Settings>) -> Result<Self, Error> {
        let mut places = Places::find(&options.interfaces, true, passing(options.has_xdp))?;
        let object = Object::load(&options.settings, |program| places.need(program))?;
        object.learn_addresses()?;
        places.attach(&object.programs)?;
        Ok(Self {
            places,
            object,
            has_events: options.settings.has_events,
        })
    }

    /// One line an interface: how the programs are attached, for people.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.places.describe()
    }

    /// Waits at most `timeout` and hands on what has come.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn poll(
        &mut self,
        timeout: Duration,
        report: &mut impl FnMut(Report),
    ) -> Result<(), Error> {
        self.object.programs.ring.wait(timeout)?;
        self.drain(report)
    }

    /// Takes what is in the ring out of it, to be handed on later: for those who have long work to do meanwhile.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn collect(&mut self) -> Result<(), Error> {
        self.object.programs.ring.collect()
    }

    /// Hands on what is there, without waiting.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn drain(&mut self, report: &mut impl FnMut(Report)) -> Result<(), Error> {
        let offset = wall_clock_offset();
        let names = &self.places.names;
        self.object.programs.ring.read(|mut rest| {
            while let Some((event, behind)) = read_prefix::<rtt_event>(rest) {
                if u32::from(event.type_) == native::RTT_EVENT_SAMPLE {
                    report(decode(&event, None, names, offset));
                    rest = behind;
                } else if let Some((event, behind)) = read_prefix::<rtt_flow_event>(rest) {
                    report(decode(&event.event, Some(&event.traffic), names, offset));
                    rest = behind;
                } else {
                    break;
                }
            }
        })
    }

    /// Looks through the flows: hands their traffic to the aggregator, and ends those that are over. To be called every few seconds.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the table cannot be read.
    pub fn sweep(
        &mut self,
        mut aggregator: Option<&mut Aggregator>,
        report: &mut impl FnMut(Report),
    ) -> Result<(), Error> {
        let now = monotonic_ns();
        let offset = wall_clock_offset();
        let mut over = Vec::new();
        self.object
            .programs
            .for_each_flow("rtt_flows", |key, value| {
                let Some((flow, _)) = read_prefix::<rtt_flow>(value) else {
                    return;
                };
                if let Some(aggregator) = aggregator.as_deref_mut() {
                    aggregator.on_flow(key, &flow, &self.places.names);
                }
                let idle = Duration::from_nanos(now.saturating_sub(flow.last_seen));
                let is_closed = u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED != 0;
                if idle > IDLE || (is_closed && idle > CLOSED) {
                    over.push((*key, flow, is_closed));
                }
            })?;
        let flows = self.object.flows()?;
        for (key, flow, is_closed) in over {
            if flows.delete(bytes_of(&key)).is_err() {
                continue; // the kernel was faster
            }
            self.object.deleted += 1;
            if self.has_events && !is_closed {
                let closing = Transition::close(native::RTT_REASON_TIMEOUT, now);
                report(closing.report(&key, &flow, &self.places.names, offset));
            }
        }
        self.object.learn_addresses()
    }

    /// The end of the measurement: what is still in the ring, then, if flow events are wanted, the closing of all flows that are open.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring or the table cannot be read.
    pub fn finish(&mut self, report: &mut impl FnMut(Report)) -> Result<(), Error> {
        self.places.clear();
        self.drain(report)?;
        if !self.has_events {
            return Ok(());
        }
        let closing = Transition::close(native::RTT_REASON_END, monotonic_ns());
        let offset = wall_clock_offset();
        self.object
            .programs
            .for_each_flow("rtt_flows", |key, value| {
                let flow = read_prefix::<rtt_flow>(value).map(|(flow, _)| flow);
                let is_open =
                    |flow: &rtt_flow| u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED == 0;
                if let Some(flow) = flow.filter(is_open) {
                    report(closing.report(key, &flow, &self.places.names, offset));
                }
            })
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn counts(&self) -> Result<Counts, Error> {
        let mut counts = self.object.counts()?;
        counts.refused = self.places.refused();
        Ok(counts)
    }

    /// Lets go of interfaces that have gone, and takes those that have come. Does not wait. Returns what people are to be told.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not tell of its interfaces any more.
    pub fn follow(&mut self) -> Result<Vec<String>, Error> {
        if self.places.follow(&self.object.programs)?.is_some() {
            self.object.learn_addresses()?;
        }
        Ok(self.places.take_told())
    }
}
