//! Measuring on live interfaces: the BPF program loaded and attached, its samples read.

mod attach;
mod flows;
mod interfaces;
mod janitor;
mod object;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::native::{self, flow_address, rtt_event, rtt_flow_event};
use crate::rtt::{Aggregator, Interfaces, Report, Settings, Transition, decode};
use crate::{Counts, Error};
use attach::Attached;
use flows::for_each_flow;
use interfaces::{Interface, local_addresses};
pub use interfaces::{examine, interface_names};
use janitor::Janitor;
use object::Programs;
pub use object::probe;
pub(crate) use object::{bytes_of, fill, quiet_libbpf, read_prefix, refused};

/// Flows without packets for so long are over and leave the table.
const IDLE: Duration = Duration::from_secs(300);
/// A closed connection may still see a late packet; after this long it will not.
const CLOSED: Duration = Duration::from_secs(10);

/// Where and how to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// Use XDP for packets that arrive: earlier, before receive offload, and cheaper where the driver has it.
    pub has_xdp: bool,
    /// What to measure.
    pub settings: Settings,
}

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends in whatever way.
pub struct Live {
    // Dropped in this order: first nothing runs any more, then nothing is read, then the maps go.
    attached: Vec<Attached>,
    janitor: Option<Janitor>,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<u8>>>,
    programs: Programs,
    names: Names,
    has_events: bool,
}

#[derive(Default)]
struct Names(HashMap<u32, &'static str>);

impl Interfaces for Names {
    fn name(&self, interface: u32) -> &'static str {
        self.0.get(&interface).copied().unwrap_or_default()
    }
}

impl Live {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::Unsupported`] when privileges, the kernel or a device do not allow it, [`Error::Kernel`] when the
    /// kernel refuses a step.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let interfaces = options
            .interfaces
            .iter()
            .map(|name| Interface::find(name))
            .collect::<Result<Vec<_>, _>>()?;
        let programs = Programs::load(&options.settings, |program| {
            interfaces
                .iter()
                .any(|interface| attach::programs(interface, options.has_xdp).contains(&program))
        })?;
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let ring = open_ring(&programs, &inbox)?;
        let mut live = Self {
            attached: Vec::new(),
            janitor: None,
            ring,
            inbox,
            programs,
            names: Names::default(),
            has_events: options.settings.has_events,
        };
        live.learn_addresses()?;
        for interface in &interfaces {
            let attached = Attached::new(
                &live.programs,
                interface,
                options.has_xdp,
                &mut live.janitor,
            )?;
            live.attached.push(attached);
            live.names.0.insert(interface.index, interface.name);
        }
        Ok(live)
    }

    /// One line an interface: how the programs are attached, for people.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.attached.iter().map(Attached::describe)
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
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(Error::kernel("read the samples from the kernel", error));
            }
            _ => {}
        }
        self.drain(report)
    }

    /// Takes what is in the ring out of it, to be handed on later: for those who have long work to do meanwhile.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn collect(&mut self) -> Result<(), Error> {
        self.ring
            .consume()
            .map_err(|error| Error::kernel("read the samples from the kernel", error))
    }

    /// Hands on what is there, without waiting.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn drain(&mut self, report: &mut impl FnMut(Report)) -> Result<(), Error> {
        self.collect()?;
        let offset = wall_clock_offset();
        let mut inbox = self.inbox.borrow_mut();
        let mut rest = inbox.as_slice();
        while let Some((event, behind)) = object::read_prefix::<rtt_event>(rest) {
            if u32::from(event.type_) == native::RTT_EVENT_SAMPLE {
                report(decode(&event, None, &self.names, offset));
                rest = behind;
            } else if let Some((event, behind)) = object::read_prefix::<rtt_flow_event>(rest) {
                report(decode(
                    &event.event,
                    Some(&event.traffic),
                    &self.names,
                    offset,
                ));
                rest = behind;
            } else {
                break;
            }
        }
        inbox.clear();
        Ok(())
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
        let flows = self.programs.flows()?;
        for_each_flow(&flows, |key, flow| {
            if let Some(aggregator) = aggregator.as_deref_mut() {
                aggregator.on_flow(key, flow, &self.names);
            }
            let idle = Duration::from_nanos(now.saturating_sub(flow.last_seen));
            let is_closed = u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED != 0;
            if idle > IDLE || (is_closed && idle > CLOSED) {
                over.push((*key, *flow, is_closed));
            }
        })
        .map_err(|error| Error::kernel("read the table of flows", error))?;
        for (key, flow, is_closed) in over {
            if flows.delete(object::bytes_of(&key)).is_err() {
                continue; // the kernel was faster
            }
            self.programs.deleted += 1;
            if self.has_events && !is_closed {
                let closing = Transition::close(native::RTT_REASON_TIMEOUT, now);
                report(closing.report(&key, &flow, &self.names, offset));
            }
        }
        self.learn_addresses()
    }

    /// The end of the measurement: what is still in the ring, then, if flow events are wanted, the closing of all flows that are open.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring or the table cannot be read.
    pub fn finish(&mut self, report: &mut impl FnMut(Report)) -> Result<(), Error> {
        self.attached.clear();
        self.drain(report)?;
        if !self.has_events {
            return Ok(());
        }
        let closing = Transition::close(native::RTT_REASON_END, monotonic_ns());
        let offset = wall_clock_offset();
        for_each_flow(&self.programs.flows()?, |key, flow| {
            if u32::from(flow.flags) & native::RTT_FLOW_IS_CLOSED == 0 {
                report(closing.report(key, flow, &self.names, offset));
            }
        })
        .map_err(|error| Error::kernel("read the table of flows", error))
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn counts(&self) -> Result<Counts, Error> {
        self.programs.counts()
    }

    /// Interfaces that have disappeared since the last call; they are not waited for.
    pub fn departed(&mut self) -> Vec<&'static str> {
        let (gone, here): (Vec<_>, Vec<_>) = std::mem::take(&mut self.attached)
            .into_iter()
            .partition(|attached| !attached.interface.exists());
        self.attached = here;
        gone.iter()
            .map(|attached| attached.interface.name)
            .collect()
    }

    /// Is there any interface left?
    pub fn has_interfaces(&self) -> bool {
        !self.attached.is_empty()
    }

    /// Tells the kernel this machine's addresses, as they are now.
    fn learn_addresses(&mut self) -> Result<(), Error> {
        let map = self.programs.map("rtt_local_addresses")?;
        let present: Vec<flow_address> = local_addresses().map(native::flow_address_of).collect();
        let known: Vec<Vec<u8>> = map.keys().collect();
        for address in known {
            if !present
                .iter()
                .any(|present| object::bytes_of(present) == address)
            {
                // Failing means that it is gone already.
                let _ = map.delete(&address);
            }
        }
        for address in &present {
            map.update(object::bytes_of(address), &[1], MapFlags::ANY)
                .map_err(|error| {
                    Error::kernel("tell the kernel this machine's addresses", error)
                })?;
        }
        Ok(())
    }
}

fn open_ring(
    programs: &Programs,
    inbox: &Rc<RefCell<Vec<u8>>>,
) -> Result<RingBuffer<'static>, Error> {
    let failed = |error| Error::kernel("open the ring of samples", error);
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    let map = programs.map("rtt_events")?;
    builder
        .add(&map, move |event| {
            inbox.borrow_mut().extend_from_slice(event);
            0
        })
        .map_err(failed)?;
    builder.build().map_err(failed)
}

/// The clock that the kernel stamps events with.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std has no clock that counts from boot")]
    // SAFETY: the pointer is valid; this clock always exists.
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
    }
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// What makes the kernel's times count from 1970; read anew each time, since the wall clock is adjusted.
pub(crate) fn wall_clock_offset() -> u64 {
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (wall.as_nanos() as u64).wrapping_sub(monotonic_ns())
}
