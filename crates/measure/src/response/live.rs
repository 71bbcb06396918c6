//! Measuring on live interfaces: the BPF program loaded and attached, its epochs read.

use std::collections::HashMap;
use std::time::Duration;

use libbpf_rs::{MapCore, OpenObject};

use super::engine::{HANDSHAKES, IDLE_NS, record, waiting};
use super::waits::Waits;
use super::{Estimator, ResponseCounts, ResponseEpoch, ResponseWait, Settings};
use crate::Error;
use crate::bytes::{bytes_of, read_prefix};
use crate::kernel::{
    Options, Places, Programs, choose_programs, monotonic_ns, passing, set_constants, size_flows,
    wall_clock_offset,
};
use crate::native::flow_key;
use crate::response::native::{
    self, Requests, response_batches, response_bins, response_config, response_epoch,
    response_flow, response_modes,
};
use crate::table::secret;

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/response.bpf.o"));

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends in whatever way.
pub struct Live {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    places: Places,
    programs: Programs,
    config: response_config,
    estimator: Estimator,
    /// Epochs that were ended by a sweep, by when they began: the kernel tells of them again at the next packet.
    swept: HashMap<flow_key, u64>,
    /// Epochs that only a sweep has told of.
    swept_count: u64,
    waits: Waits,
    /// Flows that user space has deleted.
    deleted: u64,
}

impl Live {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::NoInterface`], [`Error::TooMany`], [`Error::Unsupported`] when privileges, the kernel or a device do not allow it,
    /// [`Error::Kernel`] when the kernel refuses a step.
    pub fn start(options: &Options<Settings>) -> Result<Self, Error> {
        let mut places = Places::find(&options.interfaces, true, passing(options.has_xdp))?;
        let (programs, config) = load(&options.settings, |program| places.need(program))?;
        places.attach(&programs)?;
        Ok(Self {
            places,
            programs,
            config,
            estimator: options.settings.estimator,
            swept: HashMap::new(),
            swept_count: 0,
            waits: Waits::default(),
            deleted: 0,
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
        report: &mut impl FnMut(ResponseEpoch),
    ) -> Result<(), Error> {
        self.programs.ring.wait(timeout)?;
        self.drain(report)
    }

    fn drain(&mut self, report: &mut impl FnMut(ResponseEpoch)) -> Result<(), Error> {
        let offset = wall_clock_offset();
        let Self {
            places: Places { names, .. },
            programs,
            swept,
            swept_count,
            estimator,
            ..
        } = self;
        programs.ring.read(|mut rest| {
            while let Some((epoch, behind)) = read_prefix::<response_epoch>(rest) {
                rest = behind;
                if swept.remove(&epoch.key) == Some(epoch.begin) {
                    *swept_count -= 1; // the kernel has counted it now
                } else {
                    report(record(&epoch, None, *estimator, names, offset));
                }
            }
        })
    }

    /// Looks through the flows: ends the epochs of those that are silent, and forgets those that are over. To be called once an epoch.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring or the table cannot be read.
    pub fn sweep(&mut self, report: &mut impl FnMut(ResponseEpoch)) -> Result<(), Error> {
        self.end_epochs(false, report)
    }

    /// Looks through the flows between their epochs, and tells of those whose last request has been unanswered for `limit`, again whenever that has
    /// doubled.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the table cannot be read.
    pub fn look_for_waits(
        &mut self,
        limit: Duration,
        report: &mut impl FnMut(ResponseWait),
    ) -> Result<(), Error> {
        let (now, offset) = (monotonic_ns(), wall_clock_offset());
        let mut look = self.waits.look(limit, now, offset);
        self.programs.for_each_flow("response_flows", |key, value| {
            if let Some((flow, _)) = read_prefix::<response_flow>(value) {
                look.at(key, &flow, &self.places.names, report);
            }
        })
    }

    /// The end of the measurement: what is still in the ring, then the epochs that are under way.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring or the table cannot be read.
    pub fn finish(&mut self, report: &mut impl FnMut(ResponseEpoch)) -> Result<(), Error> {
        self.places.clear();
        self.end_epochs(true, report)
    }

    fn end_epochs(
        &mut self,
        at_once: bool,
        report: &mut impl FnMut(ResponseEpoch),
    ) -> Result<(), Error> {
        self.drain(report)?;
        let (now, offset) = (monotonic_ns(), wall_clock_offset());
        let mut over = Vec::new();
        // Only what is in the table is remembered: the kernel evicts flows without a word.
        let before = std::mem::take(&mut self.swept);
        self.programs
            .for_each_flow("response_flows", |key, value| {
                let Some(mut requests) = requests_of(value, self.estimator) else {
                    return;
                };
                // The kernel may have written to it since.
                let silence = now.saturating_sub(requests.flow.last);
                if silence > IDLE_NS {
                    over.push(*key);
                }
                let last = requests.flow;
                let told = before.get(key).copied();
                if let Some(begin) = told {
                    self.swept.insert(*key, begin);
                }
                let ended = requests.end_epoch(key, now.max(last.last), at_once, &self.config);
                let Some(ended) = ended.filter(|ended| told != Some(ended.begin)) else {
                    return;
                };
                self.swept.insert(*key, ended.begin);
                self.swept_count += 1;
                let mut epoch = record(&ended, None, self.estimator, &self.places.names, offset);
                epoch.waiting_ns = waiting(key, &last, now);
                report(epoch);
            })?;
        let flows = self.programs.map("response_flows")?;
        for key in over {
            self.swept.remove(&key);
            // Failing means that it is gone already.
            self.deleted += u64::from(flows.delete(bytes_of(&key)).is_ok());
        }
        Ok(())
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn counts(&self) -> Result<ResponseCounts, Error> {
        let mut counts = ResponseCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.programs.add_counters("response_cpus", own)?;
        counts.counters[native::RESPONSE_COUNT_EPOCHS as usize] += self.swept_count;
        counts.counters[native::RESPONSE_COUNT_FLOWS_DELETED as usize] += self.deleted;
        let opened = counts.counters[native::RESPONSE_COUNT_FLOWS_OPENED as usize];
        counts.evicted = self
            .programs
            .evicted("response_flows", opened, self.deleted)?;
        counts.refused = self.places.refused();
        Ok(counts)
    }

    /// Lets go of interfaces that have gone, and takes those that have come. Does not wait. Returns what people are to be told.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the kernel does not tell of its interfaces any more.
    pub fn follow(&mut self) -> Result<Vec<String>, Error> {
        self.places.follow(&self.programs)?;
        Ok(self.places.take_told())
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

/// Loads the programs that `is_needed` says yes to.
fn load(
    settings: &Settings,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(Programs, response_config), Error> {
    let config = settings.to_native(secret(), HANDSHAKES)?;
    let programs = Programs::load(OBJECT, "response_events", |object| {
        prepare(object, settings, &config, is_needed)
    })?;
    Ok((programs, config))
}

/// Sets what must be known before the load: constants, sizes of maps, where programs will be attached.
fn prepare(
    object: &mut OpenObject,
    settings: &Settings,
    config: &response_config,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let selection = settings.selection.to_native()?;
    let value_size = size_of::<response_flow>() + gaps_size(settings.estimator);
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("set the map {name} up"), error);
        match name.as_str() {
            "response_flows" => size_flows(&mut map, settings.flows, value_size)?,
            "response_handshakes" => map.set_max_entries(HANDSHAKES).map_err(failed)?,
            _ => {}
        }
    }
    set_constants(
        object,
        &[
            (".rodata.response_config", bytes_of(config)),
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
