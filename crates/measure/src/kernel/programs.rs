//! A BPF object with a ring of events: prepared, loaded, and read.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use libbpf_rs::{
    AsRawLibbpf, Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut, OpenObject,
    PrintLevel, ProgramMut, RingBuffer, RingBufferBuilder,
};

use libbpf_sys as sys;

use crate::Error;

/// Events that are taken out of a ring at a time: so many stay in the processor's cache until they are handed on.
const BATCH: usize = 64;

/// What libbpf had to say since the last look; the verifier's verdict is among it.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// Loaded programs. What is attached of them is to be dropped before them.
pub(crate) struct Programs {
    // Dropped in this order: nothing is read any more, then the maps go.
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<u8>>>,
    object: Object,
}

impl Programs {
    /// Opens `object`, has it prepared, loads it, and opens the ring called `ring`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when privileges do not allow it, [`Error::Kernel`] when the kernel refuses.
    pub(crate) fn load(
        object: &[u8],
        ring: &str,
        prepare: impl FnOnce(&mut OpenObject) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        quiet_libbpf();
        let mut object = ObjectBuilder::default()
            .open_memory(object)
            .map_err(|error| {
                let cause = format!("{error}\n{}", take_messages().trim_end());
                Error::kernel("open the BPF object", std::io::Error::other(cause))
            })?;
        prepare(&mut object)?;
        let object = object.load().map_err(|error| refused(&error))?;
        let inbox = Rc::new(RefCell::new(Vec::new()));
        Ok(Self {
            ring: open_ring(&find_map(&object, ring)?, ring, &inbox)?,
            inbox,
            object,
        })
    }

    /// A program, to be attached.
    ///
    /// # Errors
    /// When the object has none of that name.
    pub(crate) fn program(&self, name: &str) -> Result<ProgramMut<'_>, Error> {
        self.object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| missing(name))
    }

    /// A handle of its own, so that maps can be used while the object is.
    ///
    /// # Errors
    /// When the object has none of that name, or the process no descriptor left.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        MapHandle::try_from(&find_map(&self.object, name)?)
            .map_err(|error| Error::kernel(format!("use the map {name}"), error))
    }

    /// Waits at most `timeout` for events, and takes them out of the ring.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<(), Error> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                Err(unreadable(error))
            }
            _ => Ok(()),
        }
    }

    /// Takes what is in the ring out of it, to be handed on later.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub(crate) fn collect(&self) -> Result<(), Error> {
        self.ring.consume().map_err(unreadable)
    }

    /// Hands on all events that have come and were not handed on, some at a time, one behind the other.
    ///
    /// # Errors
    /// [`Error::Kernel`] when the ring cannot be read.
    pub(crate) fn read(&self, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            let count = self.ring.consume_raw_n(BATCH);
            if count < 0 {
                let error = std::io::Error::from_raw_os_error(-count);
                return Err(Error::kernel("read the events from the kernel", error));
            }
            let mut inbox = self.inbox.borrow_mut();
            take(&inbox);
            inbox.clear();
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Adds the counters that each CPU has at the only place of a table, in their order.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is no such table or it cannot be read.
    pub(crate) fn add_counters<'a>(
        &self,
        table: &str,
        counters: impl IntoIterator<Item = &'a mut u64>,
    ) -> Result<(), Error> {
        let cpus = self.of_each_cpu(table, 0)?;
        for (index, counter) in counters.into_iter().enumerate() {
            let words = cpus
                .iter()
                .filter_map(|cpu| cpu.as_chunks::<8>().0.get(index));
            *counter += words.map(|word| u64::from_ne_bytes(*word)).sum::<u64>();
        }
        Ok(())
    }

    /// What each CPU has at this place of a table.
    ///
    /// # Errors
    /// [`Error::Kernel`] when there is no such table or it cannot be read.
    fn of_each_cpu(&self, table: &str, index: u32) -> Result<Vec<Vec<u8>>, Error> {
        let values = find_map(&self.object, table)?
            .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::kernel("read the counters", error))?;
        Ok(values.unwrap_or_default())
    }

    /// How often the kernel left a program out because an interrupt came while it ran on the same CPU: what it would have told of is not known.
    #[expect(
        unsafe_code,
        reason = "libbpf-rs looks through all programs of the host for it"
    )]
    pub(crate) fn skipped(&self) -> u64 {
        let programs = self.object.progs();
        let skipped = programs.map(|program| {
            let mut info = sys::bpf_prog_info::default();
            let mut length = size_of_val(&info) as u32;
            // SAFETY: the program is loaded, or has no descriptor; the kernel writes at most so much.
            unsafe {
                let descriptor = sys::bpf_program__fd(program.as_libbpf_object().as_ptr());
                let place = (&raw mut info).cast();
                sys::bpf_obj_get_info_by_fd(descriptor, place, &raw mut length);
            }
            info.recursion_misses
        });
        skipped.sum()
    }

    /// A counter of a table of counters, summed over all CPUs.
    ///
    /// # Errors
    /// As [`Programs::add_counters`].
    pub(crate) fn counter(&self, table: &str, index: u32) -> Result<u64, Error> {
        let values = self.of_each_cpu(table, index)?;
        let counts = values.iter().filter_map(|value| value.first_chunk());
        Ok(counts.map(|count| u64::from_ne_bytes(*count)).sum())
    }
}

/// Sets constants before the load, each a section of its own; a section that the object lacks is none of its programs' business.
///
/// # Errors
/// When a section has no room for the constant.
pub(crate) fn set_constants(
    object: &mut OpenObject,
    constants: &[(&str, &[u8])],
) -> Result<(), Error> {
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, bytes)) = constants.iter().find(|(section, _)| *section == name) {
            fill(&mut map, bytes).ok_or_else(|| missing(&name))?;
        }
    }
    Ok(())
}

fn fill(map: &mut OpenMapMut<'_>, bytes: &[u8]) -> Option<()> {
    let value = map.initial_value_mut()?;
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(())
}

fn find_map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>, Error> {
    object
        .maps()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| missing(name))
}

fn open_ring(
    map: &Map<'_>,
    name: &str,
    inbox: &Rc<RefCell<Vec<u8>>>,
) -> Result<RingBuffer<'static>, Error> {
    let failed = |error| Error::kernel(format!("open the ring {name}"), error);
    let inbox = Rc::clone(inbox);
    let mut builder = RingBufferBuilder::new();
    builder
        .add(map, move |event| {
            inbox.borrow_mut().extend_from_slice(event);
            0
        })
        .map_err(failed)?;
    builder.build().map_err(failed)
}

fn unreadable(error: libbpf_rs::Error) -> Error {
    Error::kernel("read the events from the kernel", error)
}

fn missing(name: &str) -> Error {
    let source = std::io::Error::other("the object that was built into this program lacks it");
    Error::kernel(format!("find {name}"), source)
}

/// Keeps what libbpf has to say, to be told if it matters.
pub(super) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push_str(&message);
        }
    })));
}

/// What libbpf had to say since the last call.
pub(super) fn take_messages() -> String {
    let messages = MESSAGES.lock();
    messages.map_or_else(
        |_| String::new(),
        |mut messages| std::mem::take(&mut *messages),
    )
}

/// The kernel refused the programs: say what can be done.
fn refused(error: &libbpf_rs::Error) -> Error {
    let messages = take_messages();
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied && !is_verdict(&messages) {
        return Error::Unsupported {
            needs: "loading BPF programs needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON".to_owned(),
            found: "the kernel refused".to_owned(),
            remedy: "run as root, or give the program these capabilities with setcap".to_owned(),
        };
    }
    let last: Vec<_> = messages.lines().rev().take(12).collect();
    let told = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    Error::kernel(
        "load the BPF programs",
        std::io::Error::other(format!("{error}\n{told}")),
    )
}

fn is_verdict(messages: &str) -> bool {
    messages.contains("processed ") && messages.contains(" insns")
}
