//! The BPF object: opened, configured, loaded, and its maps by name.

use libbpf_rs::{MapHandle, OpenObject};

use crate::bytes::bytes_of;
use crate::kernel::{Programs, for_each_flow, set_attach_type, set_constants};
use crate::native::{self, rtt_bucket, rtt_flow, rtt_pending};
use crate::rtt::Settings;
use crate::table::secret;
use crate::{Counts, Error};

/// Request buckets, of four requests each: 256 KiB.
const BUCKETS: u32 = 4096;

/// Places of the table that each CPU may hold free for itself. An LRU map of exactly as many places as there are flows would evict a few
/// hundred again and again; so it gets these besides.
const SPARE_FLOWS: u32 = 256;

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packet_path.bpf.o"));

/// The loaded programs and what they count.
pub(super) struct PacketPath {
    pub(super) programs: Programs,
    /// Flows that user space has deleted.
    pub(super) deleted: u64,
}

impl PacketPath {
    /// Loads the programs that `is_needed` says yes to: each costs the verifier a good part of a second.
    pub(super) fn load(
        settings: &Settings,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let programs = Programs::load(OBJECT, "rtt_events", |object| {
            configure(object, settings, is_needed)
        })?;
        Ok(Self {
            programs,
            deleted: 0,
        })
    }

    /// What the kernel and user space have counted. The kernel does not tell which flows it evicted: they are those that were opened, not
    /// deleted, and are not there.
    pub(super) fn counts(&self) -> Result<Counts, Error> {
        let mut counts = self.counters()?;
        let opened = counts.counters[native::RTT_COUNT_FLOWS_OPENED as usize];
        let deleted = counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize];
        // Read after the counters: flows that are opened in between make the number too small, never too large.
        let mut present = 0;
        for_each_flow(&self.flows()?, |_, _| present += 1)?;
        counts.evicted = opened.saturating_sub(deleted + present);
        Ok(counts)
    }

    /// The table of flows.
    pub(super) fn flows(&self) -> Result<MapHandle, Error> {
        self.programs.map("rtt_flows")
    }

    fn counters(&self) -> Result<Counts, Error> {
        let mut counts = Counts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.programs.add_counters("rtt_cpus", own)?;
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
    let configuration = settings.to_native(secret(), BUCKETS);
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
            _ => {}
        }
    }
    set_constants(
        object,
        &[
            (".rodata.rtt_config", bytes_of(&configuration)),
            (".rodata.selection", bytes_of(&selection)),
        ],
    )?;
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(is_needed(&name));
        set_attach_type(&mut program);
    }
    Ok(())
}

/// Loads the programs without attaching them, to see whether this kernel takes them.
///
/// # Errors
/// As [`super::Live::start`].
pub fn probe(settings: &Settings) -> Result<(), Error> {
    PacketPath::load(settings, |_| true).map(drop)
}
