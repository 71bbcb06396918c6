//! The probes attached, and what they say read.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libbpf_rs::{Link, ProgramInput};

use super::connections::Connections;
use super::dns::Dns;
use super::indicator::Capabilities;
use super::load::{FORGET, load, scope};
use super::names::Names;
use super::options::Options;
use super::probes::{Kernel, Needs, ProbeProgram, Probes};
use super::reorder::ReorderBuffer;
use super::scans::Scans;
use super::slots::Slots;
use crate::kernel::{Programs, Ring, group_root, monotonic_ns, tick_ns, wall_clock_offset};
use crate::measurement::{LONGEST_WAIT, Measurement, Take};
use crate::profile::native::{self, profile_snapshot};
use crate::{Counts, Error};

/// What has happened so long ago is in the rings by now.
const ARRIVED_NS: u64 = 10_000_000;
/// With names: an error of a socket, too, is known for what it is.
const ARRIVED_NAMES_NS: u64 = 200_000_000;

/// Between looks at what waits for more to come.
const LOOK_BACK_NS: u64 = 500_000_000;

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends
/// in whatever way.
pub struct Profiler {
    // Dropped in this order: first nothing runs any more, then what ran goes.
    links: Vec<Link>,
    scans: Scans,
    slots: Slots,
    programs: Programs,
    connections: Connections,
    dns: Option<Dns>,
    reorder: ReorderBuffer,
    probes: Probes,
    active_timeout: Duration,
    last_look_back_ns: u64,
    handed_on_ns: u64,
    /// As they were after the last scan.
    moments_lost: u64,
}

impl Profiler {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges or the kernel do not allow it, [`Error::Kernel`] when
    /// the kernel refuses a step.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let root = group_root();
        let kernel = Kernel::examine(root.is_some())?;
        let sets = match options.set {
            Some(set) => vec![kernel.set(set)],
            None => kernel.sets(),
        };
        let mut first_error = None;
        for probes in sets {
            match load(&probes, options) {
                Ok(programs) => return Self::attach(programs, probes, root.as_deref(), options),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| {
            Error::kernel("choose probes", std::io::Error::other("there are none"))
        }))
    }

    fn attach(
        programs: Programs,
        mut probes: Probes,
        root: Option<&Path>,
        options: &Options,
    ) -> Result<Self, Error> {
        let names = Names::new(root.map(Path::to_owned));
        let dns = if options.has_dns {
            Some(Dns::start(&scope(options, root, &names)?, &mut probes)?)
        } else {
            None
        };
        let mut profiler = Self {
            links: Vec::new(),
            scans: Scans::new(options.has_all_namespaces),
            slots: Slots::open(&programs)?,
            connections: Connections::new(
                Capabilities {
                    missing: probes
                        .missing
                        .iter()
                        .map(|(indicator, _)| *indicator)
                        .collect(),
                    jiffy_ns: tick_ns(),
                },
                names,
                options,
            ),
            programs,
            dns,
            reorder: ReorderBuffer::default(),
            probes,
            active_timeout: options.active_timeout,
            last_look_back_ns: monotonic_ns(),
            handed_on_ns: 0,
            moments_lost: 0,
        };
        for program in profiler.probes.programs.clone() {
            profiler.attach_program(program, root)?;
        }
        profiler.scans.scan()?;
        Ok(profiler)
    }

    fn attach_program(&mut self, program: ProbeProgram, root: Option<&Path>) -> Result<(), Error> {
        let failed = |error| Error::kernel(format!("attach {}", program.name), error);
        let loaded = self.programs.program(program.name)?;
        match program.needs {
            Needs::ControlGroups => {
                let root = root.unwrap_or(Path::new("/sys/fs/cgroup"));
                let folder = File::open(root)
                    .map_err(|error| Error::kernel(format!("open {}", root.display()), error))?;
                let link = loaded.attach_cgroup(folder.as_raw_fd()).map_err(failed)?;
                self.links.push(link);
            }
            Needs::Iterator(_) => self.scans.iterator = Some(loaded.attach().map_err(failed)?),
            Needs::Tracepoint(..) | Needs::Function(_) | Needs::Field(..) | Needs::Nothing(_) => {
                self.links.push(loaded.attach().map_err(failed)?);
            }
        }
        Ok(())
    }

    /// The probes in use, and what profiles lack without the others.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Hands on what nothing can come before any more. All that had happened by `now_ns` has been
    /// read.
    fn hand_on(&mut self, now_ns: u64, take: &mut Take<'_>) {
        if self.reorder.is_empty() && !self.connections.has_waiting() {
            return;
        }
        let settling_ns = match self.dns {
            Some(_) => ARRIVED_NAMES_NS,
            None => ARRIVED_NS,
        };
        // Each look copies all slots, and others on the hook are asked more often.
        let pause_ns = settling_ns.max(LONGEST_WAIT.as_nanos() as u64 / 2);
        if now_ns.saturating_sub(self.handed_on_ns) < pause_ns {
            return;
        }
        self.handed_on_ns = now_ns;
        let reorder = &mut self.reorder;
        let slots = self.slots.read();
        self.connections
            .look_at_waiting(now_ns, slots, &mut |told| reorder.put(told));
        let arrived_ns = now_ns.saturating_sub(settling_ns);
        let waiting_ns = self.connections.oldest_waiting_ns(slots);
        let until_ns = waiting_ns.map_or(arrived_ns, |waiting_ns| waiting_ns.min(arrived_ns));
        reorder.leave(until_ns, wall_clock_offset(), take);
    }

    fn drain(&mut self) -> Result<(), Error> {
        let Self {
            connections,
            reorder,
            ..
        } = self;
        self.programs.read_events(|moments| {
            connections.read(moments, wall_clock_offset(), &mut |told| reorder.put(told));
        })
    }

    /// Tells of connections that ended without a moment of it, after a scan. Only where moments
    /// were missed.
    fn end_gone(&mut self) -> Result<(), Error> {
        let counter = native::PROFILE_COUNT_MOMENTS_LOST;
        let lost = self.programs.counter("profile_counters", counter)?;
        if std::mem::replace(&mut self.moments_lost, lost) != lost {
            self.scans.doubt();
        }
        if lost + self.programs.skipped() == 0 {
            return Ok(());
        }
        let Self {
            connections,
            reorder,
            scans,
            programs,
            ..
        } = self;
        let is_gone = |latest: &profile_snapshot| scans.is_gone(latest);
        for id in connections.end_gone(is_gone, &mut |told| reorder.put(told)) {
            let input = ProgramInput {
                context_in: Some(&mut id.to_ne_bytes()),
                ..ProgramInput::default()
            };
            let forgotten = programs.program(FORGET)?.test_run(input);
            forgotten.map_err(|error| Error::kernel("forget a connection", error))?;
        }
        Ok(())
    }
}

impl Measurement for Profiler {
    fn name(&self) -> &'static str {
        "profile"
    }

    /// The set of probes.
    fn describe(&self) -> Vec<String> {
        vec![format!("probes: {}", self.probes.set)]
    }

    fn events(&self) -> Option<BorrowedFd<'_>> {
        self.programs.events()
    }

    fn rings(&self) -> Vec<Arc<Ring>> {
        let dns = self.dns.iter().flat_map(Dns::rings);
        self.programs.ring().into_iter().chain(dns).collect()
    }

    /// Hands on the profiles that have come, in the order of their times; as a rule within a
    /// moment, and within two seconds while a connection waits for its application.
    fn poll(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        let now_ns = monotonic_ns();
        self.drain()?;
        let reorder = &mut self.reorder;
        let mut put = |told| reorder.put(told);
        if now_ns.saturating_sub(self.last_look_back_ns) >= LOOK_BACK_NS {
            self.last_look_back_ns = now_ns;
            self.connections
                .look_back(now_ns, self.slots.read(), &mut put);
        }
        if let Some(dns) = &mut self.dns {
            dns.poll(&mut put)?;
        }
        let pause = self.active_timeout.min(Duration::from_secs(10)).as_nanos() as u64;
        if pause != 0 && now_ns.saturating_sub(self.scans.last_ns()) >= pause {
            self.scans.scan()?;
            self.drain()?;
            self.end_gone()?;
        }
        self.hand_on(now_ns, take);
        Ok(())
    }

    /// Hands on what is in the ring, and a last profile of every connection that can be looked at.
    fn finish(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        self.links.clear();
        self.scans.scan()?;
        self.drain()?;
        let reorder = &mut self.reorder;
        let mut put = |told| reorder.put(told);
        self.connections.finish(self.slots.read(), &mut put);
        if let Some(dns) = &mut self.dns {
            dns.finish(&mut put)?;
        }
        self.reorder.leave_all(take);
        Ok(())
    }

    fn counts(&self) -> Result<Counts, Error> {
        let mut named = Vec::new();
        for (index, name) in (0_u32..).zip(native::counter_names()) {
            named.push((*name, self.programs.counter("profile_counters", index)?));
        }
        named.extend([
            (
                "moments missed: the probe was at work on that CPU",
                self.programs.skipped(),
            ),
            (
                "connections forgotten: table full",
                self.connections.forgotten(),
            ),
            (
                "profiles that left later than others after them",
                self.reorder.late,
            ),
        ]);
        if let Some(dns) = &self.dns {
            named.extend(dns.counts()?);
        }
        named.retain(|(_, count)| *count != 0);
        Ok(Counts {
            measured: vec![("profiles", self.reorder.told)],
            named,
        })
    }
}
