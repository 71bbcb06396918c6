//! The BPF object: opened, configured, loaded, and its maps by name.

use std::ffi::OsStr;
use std::sync::Mutex;

use libbpf_rs::{
    MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramAttachType,
};

use super::flows::for_each_flow;
use crate::native::{self, rtt_bucket, rtt_flow, rtt_pending};
use crate::rtt::Settings;
use crate::{Counts, Error};

/// Request buckets, of four requests each: 256 KiB.
const BUCKETS: u32 = 4096;

/// Places of the table that each CPU may hold free for itself. An LRU map of exactly as many places as there are flows would evict a few
/// hundred again and again; so it gets these besides.
const SPARE_FLOWS: u32 = 256;

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packet_path.bpf.o"));

/// What libbpf had to say since the last look; the verifier's verdict is among it.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// The loaded programs and their maps.
pub(super) struct Programs {
    object: Object,
    /// Flows that user space has deleted.
    pub(super) deleted: u64,
}

impl Programs {
    /// Loads the programs that `is_needed` says yes to: each costs the verifier a good part of a second.
    pub(super) fn load(
        settings: &Settings,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        quiet_libbpf();
        let mut object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(|error| Error::kernel("open the BPF object", error))?;
        configure(&mut object, settings, is_needed)?;
        let object = object.load().map_err(|error| refused(&error))?;
        Ok(Self { object, deleted: 0 })
    }

    pub(super) fn program(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, Error> {
        self.object
            .progs_mut()
            .find(|program| program.name() == OsStr::new(name))
            .ok_or_else(|| missing(name))
    }

    /// A handle of its own, so that maps can be used while the object is.
    pub(super) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new(name))
            .ok_or_else(|| missing(name))?;
        MapHandle::try_from(&map)
            .map_err(|error| Error::kernel(format!("use the map {name}"), error))
    }

    /// What the kernel and user space have counted. The kernel does not tell which flows it evicted: they are those that were opened, not
    /// deleted, and are not there.
    pub(super) fn counts(&self) -> Result<Counts, Error> {
        let mut counts = self.counters()?;
        let opened = counts.counters[native::RTT_COUNT_FLOWS_OPENED as usize];
        let deleted = counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize];
        // Read after the counters: flows that are opened in between make the number too small, never too large.
        let mut present = 0;
        for_each_flow(&self.flows()?, |_, _| present += 1)
            .map_err(|error| Error::kernel("read the table of flows", error))?;
        counts.evicted = opened.saturating_sub(deleted + present);
        Ok(counts)
    }

    /// The table of flows.
    pub(super) fn flows(&self) -> Result<MapHandle, Error> {
        self.map("rtt_flows")
    }

    fn counters(&self) -> Result<Counts, Error> {
        let values = self
            .map("rtt_cpus")?
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::kernel("read the counters", error))?
            .unwrap_or_default();
        let mut counts = Counts::default();
        for cpu in &values {
            let (words, _) = cpu.as_chunks::<8>();
            let own = counts.verdicts.iter_mut().chain(counts.counters.iter_mut());
            for (own, word) in own.zip(words) {
                *own += u64::from_ne_bytes(*word);
            }
        }
        counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize] += self.deleted;
        Ok(counts)
    }
}

/// Sets what must be known before the load: constants, sizes of maps, where programs will be attached.
fn configure(
    object: &mut OpenObject,
    settings: &Settings,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let configuration = settings.to_native(seed(), BUCKETS);
    let selection = settings.selection.to_native()?;
    let slots = settings.slots as usize * 2 * size_of::<rtt_pending>();
    let flow_size = (size_of::<rtt_flow>() + slots) as u32;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("set the map {name} up"), error);
        match name.as_str() {
            "rtt_flows" => {
                map.set_value_size(flow_size).map_err(failed)?;
                let spare = SPARE_FLOWS * libbpf_rs::num_possible_cpus().map_err(failed)? as u32;
                map.set_max_entries(settings.flows.saturating_add(spare))
                    .map_err(failed)?;
            }
            "rtt_empty_flow" => map.set_value_size(flow_size).map_err(failed)?,
            "rtt_requests" => {
                debug_assert_eq!(map.value_size() as usize, size_of::<rtt_bucket>());
                map.set_max_entries(BUCKETS).map_err(failed)?;
            }
            ".rodata.rtt_config" => {
                fill(&mut map, bytes_of(&configuration)).ok_or_else(|| missing(&name))?;
            }
            ".rodata.selection" => {
                fill(&mut map, bytes_of(&selection)).ok_or_else(|| missing(&name))?;
            }
            _ => {}
        }
    }
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(is_needed(&name));
        if name.ends_with("_ingress") && name != "xdp_ingress" {
            program.set_attach_type(ProgramAttachType::TcxIngress);
        } else if name.ends_with("_egress") {
            program.set_attach_type(ProgramAttachType::TcxEgress);
        }
    }
    Ok(())
}

/// Keeps what libbpf has to say, to be told if it matters.
pub(crate) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut messages) = MESSAGES.lock() {
            messages.push_str(&message);
        }
    })));
}

/// Sets constants before the load.
pub(crate) fn fill(map: &mut libbpf_rs::OpenMapMut<'_>, bytes: &[u8]) -> Option<()> {
    let value = map.initial_value_mut()?;
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(())
}

/// Secret, so that nobody can aim packets at one bucket of a hash table.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

fn missing(name: &str) -> Error {
    let source = std::io::Error::other("the object that was built into this program lacks it");
    Error::kernel(format!("find {name}"), source)
}

/// The kernel refused the programs: say what can be done.
pub(crate) fn refused(error: &libbpf_rs::Error) -> Error {
    let messages = MESSAGES
        .lock()
        .map(|mut messages| std::mem::take(&mut *messages))
        .unwrap_or_default();
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

/// Loads the programs without attaching them, to see whether this kernel takes them.
///
/// # Errors
/// As [`super::Live::start`].
pub fn probe(settings: &Settings) -> Result<(), Error> {
    Programs::load(settings, |_| true).map(drop)
}

/// The bytes of a struct that is shared with the kernel, and has no padding that is not its own field.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the generated structs hold only integers, and their padding is explicit.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct that the kernel wrote, and the bytes behind it.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub(crate) fn read_prefix<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (own, behind) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: the generated structs hold only integers: any bytes are valid, at any alignment.
    Some((
        unsafe { std::ptr::read_unaligned(own.as_ptr().cast()) },
        behind,
    ))
}
