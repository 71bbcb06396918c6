//! The probes loaded and attached, and what they say read.

use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use fathom_record::{Record, Time};
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder,
};

use super::connections::{Abilities, Connections};
use super::dns::{Dns, Scope};
use super::probes::{Indicator, Kernel, ProbeSet, Probes};
use super::record::ProfileCount;
use crate::live::{bytes_of, fill, monotonic_ns, quiet_libbpf, refused, wall_clock_offset};
use crate::native::{self, profile_config};
use crate::{Error, Selection};

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.bpf.o"));

/// `BPF_SOCK_OPS_RTT_CB_FLAG` and `BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG` (linux/bpf.h).
const ROUND_TRIP_CALLBACK: u32 = 1 << 3;
const HEADER_CALLBACK: u32 = 1 << 4;

/// What to profile.
#[derive(Debug, Clone)]
pub struct Options {
    /// The set of probes; `None`: the one that can do more on this kernel.
    pub set: Option<ProbeSet>,
    /// Which connections.
    pub selection: Selection,
    /// Only sockets in this control group or below, a folder of the version 2 hierarchy.
    pub group: Option<PathBuf>,
    /// After so long without a profile a connection gets one; zero: never.
    pub active_timeout: Duration,
    /// Look through the sockets of all network namespaces that some process is in, not only through those of its own.
    pub has_all_namespaces: bool,
    /// DNS exchanges too, and how long applications wait for names; the latter have neither network nor port, and a selection by these
    /// leaves them out.
    pub has_dns: bool,
    /// Tell which names applications wait for.
    pub has_names: bool,
    /// A DNS query that was not answered for so long since it was last sent will not be; resolver libraries wait 5 s.
    pub dns_timeout: Duration,
}

/// A running measurement. Everything it attached goes when it is dropped, or when the process ends in whatever way.
pub struct Profiler {
    // Dropped in this order: first nothing runs any more, then nothing is read, then the maps go.
    links: Vec<Link>,
    look: Option<Link>,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<u8>>>,
    object: Object,
    connections: Connections,
    dns: Option<Dns>,
    probes: Probes,
    active_timeout: Duration,
    has_all_namespaces: bool,
    last_look_ns: u64,
}

/// What each set of probes can do here, the better one first.
///
/// # Errors
/// [`Error::Unsupported`] when the kernel does not describe itself, or takes neither.
pub fn available() -> Result<Vec<Probes>, Error> {
    let kernel = Kernel::examine(group_root().is_some())?;
    let mut sets = kernel.sets();
    for set in &mut sets {
        set.refusal = load(set, &Options::everything())
            .err()
            .map(|error| match error.source() {
                // Privileges would refuse both sets alike.
                _ if set.set == ProbeSet::Fentry && is_permission(&error) => {
                    "the kernel refuses probes of functions: it is locked down, or built without them".to_owned()
                }
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            });
    }
    let root = group_root();
    let everything = Options::everything();
    Dns::examine(&scope(&everything, root.as_deref())?, &mut sets);
    let refused = sets.iter().filter(|set| set.refusal.is_some()).count();
    if refused == sets.len()
        && let Err(error) = load(&kernel.set(ProbeSet::Tracepoint), &Options::everything())
    {
        return Err(error);
    }
    sets.sort_by_key(|set| (set.refusal.is_some(), set.missing.len()));
    Ok(sets)
}

fn is_permission(error: &Error) -> bool {
    matches!(error, Error::Unsupported { .. })
}

impl Options {
    /// The whole host.
    pub fn everything() -> Self {
        Self {
            set: None,
            selection: Selection::default(),
            group: None,
            active_timeout: Duration::from_secs(300),
            has_all_namespaces: false,
            has_dns: true,
            has_names: true,
            dns_timeout: Duration::from_secs(10),
        }
    }

    /// The number and the depth of the control group; 0 for all.
    fn group_number(&self) -> Result<(u64, u32), Error> {
        self.group.as_deref().map_or(Ok((0, 0)), group)
    }
}

impl Profiler {
    /// Loads and attaches.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges or the kernel do not allow it, [`Error::Kernel`] when the kernel refuses a step.
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
                Ok(object) => return Self::attach(object, probes, root.as_deref(), options),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| {
            Error::kernel("choose probes", std::io::Error::other("there are none"))
        }))
    }

    fn attach(
        object: Object,
        mut probes: Probes,
        root: Option<&Path>,
        options: &Options,
    ) -> Result<Self, Error> {
        let dns = if options.has_dns {
            Some(Dns::start(&scope(options, root)?, &mut probes))
        } else {
            None
        };
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let mut profiler = Self {
            links: Vec::new(),
            look: None,
            ring: open_ring(&object, &inbox)?,
            inbox,
            connections: Connections::new(
                Abilities {
                    missing: probes
                        .missing
                        .iter()
                        .map(|(indicator, _)| *indicator)
                        .collect(),
                    jiffy_ns: jiffy_ns(),
                    groups: root.map(Path::to_owned),
                },
                options.active_timeout,
            ),
            object,
            dns,
            probes,
            active_timeout: options.active_timeout,
            has_all_namespaces: options.has_all_namespaces,
            last_look_ns: 0,
        };
        for name in profiler.probes.programs.clone() {
            profiler.attach_program(name, root)?;
        }
        profiler.look_through()?;
        Ok(profiler)
    }

    fn attach_program(&mut self, name: &'static str, root: Option<&Path>) -> Result<(), Error> {
        let failed = |error| Error::kernel(format!("attach {name}"), error);
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name));
        let Some(program) = program else {
            return Ok(());
        };
        let is_on_group = matches!(name, "socket_operation")
            || name.starts_with("tracepoint_accept")
            || name.starts_with("tracepoint_attempt");
        if is_on_group {
            let root = root.unwrap_or(Path::new("/sys/fs/cgroup"));
            let folder = File::open(root)
                .map_err(|error| Error::kernel(format!("open {}", root.display()), error))?;
            self.links
                .push(program.attach_cgroup(folder.as_raw_fd()).map_err(failed)?);
        } else if name == "look_through" {
            self.look = Some(program.attach().map_err(failed)?);
        } else {
            self.links.push(program.attach().map_err(failed)?);
        }
        Ok(())
    }

    /// The probes in use, and what profiles lack without the others.
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Waits at most `timeout` and hands on the profiles that have come.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn poll(
        &mut self,
        timeout: Duration,
        report: &mut dyn FnMut(&dyn Record),
    ) -> Result<(), Error> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(Error::kernel("read the moments from the kernel", error));
            }
            _ => {}
        }
        self.drain(report)?;
        let now_ns = monotonic_ns();
        self.connections.look_back(now_ns, report);
        if let Some(dns) = &mut self.dns {
            dns.poll(report)?;
        }
        let pause = self.active_timeout.min(Duration::from_secs(10)).as_nanos() as u64;
        if pause != 0 && now_ns.saturating_sub(self.last_look_ns) >= pause {
            self.look_through()?;
            self.drain(report)?;
        }
        Ok(())
    }

    /// What is still in the ring, and a last profile of every connection that can be looked at.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub fn finish(&mut self, report: &mut dyn FnMut(&dyn Record)) -> Result<(), Error> {
        self.links.clear();
        self.look_through()?;
        self.drain(report)?;
        self.connections.finish(report);
        self.dns.as_mut().map_or(Ok(()), |dns| dns.finish(report))
    }

    /// What went wrong since the start, by name.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the counters cannot be read.
    pub fn counts(&self, time: Time) -> Result<Vec<ProfileCount>, Error> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new("profile_counters"));
        let mut counts = Vec::new();
        for (index, name) in (0_u32..).zip(native::profile_counter_names()) {
            let values = map
                .as_ref()
                .map(|map| map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY))
                .transpose()
                .map_err(|error| Error::kernel("read the counters", error))?
                .flatten()
                .unwrap_or_default();
            let count = values
                .iter()
                .filter_map(|value| Some(u64::from_ne_bytes(*value.first_chunk()?)))
                .sum();
            counts.push(ProfileCount { time, name, count });
        }
        counts.push(ProfileCount {
            time,
            name: "connections forgotten: table full",
            count: self.connections.forgotten,
        });
        if let Some(dns) = &self.dns {
            counts.extend(dns.counts(time)?);
        }
        counts.retain(|count| count.count != 0);
        Ok(counts)
    }

    /// How many connections are followed now.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn drain(&mut self, report: &mut dyn FnMut(&dyn Record)) -> Result<(), Error> {
        self.ring
            .consume()
            .map_err(|error| Error::kernel("read the moments from the kernel", error))?;
        let mut inbox = self.inbox.borrow_mut();
        self.connections.read(&inbox, wall_clock_offset(), report);
        inbox.clear();
        Ok(())
    }

    /// Has the kernel tell of all sockets, in the ring.
    fn look_through(&mut self) -> Result<(), Error> {
        self.last_look_ns = monotonic_ns();
        let Some(link) = &self.look else {
            return Ok(());
        };
        let look = || -> Result<(), Error> {
            let mut iterator = Iter::new(link)
                .map_err(|error| Error::kernel("look through the sockets", error))?;
            let mut nothing = [0; 64];
            while iterator
                .read(&mut nothing)
                .map_err(|error| Error::kernel("look through the sockets", error))?
                != 0
            {}
            Ok(())
        };
        look()?;
        if self.has_all_namespaces {
            for namespace in other_namespaces() {
                within(&namespace, &look)?;
            }
        }
        Ok(())
    }
}

/// Opens and loads the programs of a set. Programs that need a function the kernel does not have are left out already.
fn load(probes: &Probes, options: &Options) -> Result<Object, Error> {
    quiet_libbpf();
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| Error::kernel("open the BPF object", error))?;
    let mut callbacks = 0;
    if probes.can(Indicator::RoundTrips) {
        callbacks |= ROUND_TRIP_CALLBACK;
    }
    if probes.can(Indicator::Disorder) && probes.set == ProbeSet::Tracepoint {
        callbacks |= HEADER_CALLBACK;
    }
    let (cgroup, cgroup_level) = options.group_number()?;
    let configuration = profile_config {
        cgroup,
        cgroup_level,
        callbacks,
        ..profile_config::default()
    };
    let selection = options.selection.to_native()?;
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some(".rodata.profile_config") => drop(fill(&mut map, bytes_of(&configuration))),
            Some(".rodata.selection") => drop(fill(&mut map, bytes_of(&selection))),
            _ => {}
        }
    }
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(probes.programs.iter().any(|own| *own == name));
    }
    object.load().map_err(|error| refused(&error))
}

/// What to measure of names.
fn scope<'a>(options: &'a Options, root: Option<&'a Path>) -> Result<Scope<'a>, Error> {
    Ok(Scope {
        selection: &options.selection,
        group: options.group_number()?,
        root,
        timeout: options.dns_timeout,
        has_names: options.has_names,
    })
}

/// The number and the depth of a control group.
fn group(folder: &Path) -> Result<(u64, u32), Error> {
    let wrong = |found: String| Error::Unsupported {
        needs: format!(
            "{} must be a folder of the version 2 hierarchy of control groups",
            folder.display()
        ),
        found,
        remedy: match group_root() {
            Some(root) => format!("it is mounted at {}", root.display()),
            None => "none is mounted here".to_owned(),
        },
    };
    let metadata = folder
        .metadata()
        .map_err(|error| wrong(error.to_string()))?;
    let root = group_root().ok_or_else(|| wrong("there is none".to_owned()))?;
    let folder = folder
        .canonicalize()
        .map_err(|error| wrong(error.to_string()))?;
    let below = folder
        .strip_prefix(&root)
        .map_err(|_| wrong("it is not".to_owned()))?;
    Ok((metadata.ino(), below.components().count() as u32))
}

/// Where the version 2 hierarchy of control groups is mounted.
fn group_root() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let is_version_2 = kind.split(' ').next() == Some("cgroup2");
        is_version_2
            .then(|| mount.split(' ').nth(4).map(PathBuf::from))
            .flatten()
    })
}

fn open_ring(object: &Object, inbox: &Rc<RefCell<Vec<u8>>>) -> Result<RingBuffer<'static>, Error> {
    let failed = |error| Error::kernel("open the ring of moments", error);
    let map = object
        .maps()
        .find(|map| map.name() == OsStr::new("profile_moments"));
    let map = map.ok_or_else(|| {
        Error::kernel(
            "open the ring of moments",
            std::io::Error::other("there is none"),
        )
    })?;
    let map = libbpf_rs::MapHandle::try_from(&map).map_err(failed)?;
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |moment| {
            inbox.borrow_mut().extend_from_slice(moment);
            0
        })
        .map_err(failed)?;
    builder.build().map_err(failed)
}

/// The stack counts some times in jiffies; the coarse clock goes forward by one at a time.
fn jiffy_ns() -> u64 {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[expect(unsafe_code, reason = "std does not tell the resolution of clocks")]
    // SAFETY: the pointer is valid; this clock always exists.
    unsafe {
        libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution);
    }
    resolution.tv_nsec.cast_unsigned()
}

/// Network namespaces that processes are in, but for our own.
fn other_namespaces() -> Vec<File> {
    let own = std::fs::metadata("/proc/self/ns/net")
        .map(|metadata| metadata.ino())
        .unwrap_or_default();
    let mut known = vec![own];
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = process.path().join("ns/net");
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if known.contains(&metadata.ino()) {
            continue;
        }
        known.push(metadata.ino());
        found.extend(File::open(path));
    }
    found
}

/// Runs `work` in a namespace, and comes back.
fn within(namespace: &File, work: &dyn Fn() -> Result<(), Error>) -> Result<(), Error> {
    let failed = |error| {
        Error::kernel(
            "look through the sockets of another network namespace",
            error,
        )
    };
    let home = File::open("/proc/thread-self/ns/net").map_err(failed)?;
    enter(namespace).map_err(failed)?;
    let result = work();
    enter(&home).map_err(failed)?;
    result
}

#[expect(unsafe_code, reason = "std has no setns")]
fn enter(namespace: &File) -> std::io::Result<()> {
    // SAFETY: integers only.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
