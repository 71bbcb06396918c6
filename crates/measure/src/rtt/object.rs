//! The BPF object: opened, configured, loaded, and its maps by name.

use libbpf_rs::{MapCore, MapFlags, OpenObject};

use super::Settings;
use super::counts::RttCounts;
use crate::Error;
use crate::bytes::bytes_of;
use crate::flow::flow_address_of;
use crate::kernel::{
    FlowTable, Programs, choose_programs, local_addresses, set_constants, size_flow_table,
};
use crate::native::flow_address;
use crate::rtt::native::{self, rtt_bucket, rtt_flow, rtt_pending};
use crate::table::secret;

/// Request buckets, of four requests each: 256 KiB.
const BUCKETS: u32 = 4096;

/// The compiled programs.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rtt.bpf.o"));

/// The loaded programs and what they count.
pub(super) struct Object {
    pub(super) programs: Programs,
    pub(super) flows: FlowTable,
    /// Flows that user space has deleted.
    pub(super) deleted: u64,
}

impl Object {
    /// Loads the programs that `is_needed` says yes to.
    pub(super) fn load(
        settings: &Settings,
        is_needed: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let programs = Programs::load(OBJECT, "rtt_events", |object| {
            configure(object, settings, is_needed)
        })?;
        Ok(Self {
            flows: programs.flows("rtt_flows")?,
            programs,
            deleted: 0,
        })
    }

    /// What the kernel and user space have counted.
    pub(super) fn counts(&self) -> Result<RttCounts, Error> {
        let mut counts = RttCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.programs.add_counters("rtt_cpus", own)?;
        counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize] += self.deleted;
        let opened = counts.counters[native::RTT_COUNT_FLOWS_OPENED as usize];
        let deleted = counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize];
        counts.evicted = self.flows.evicted(opened, deleted);
        Ok(counts)
    }

    /// Tells the kernel this machine's addresses, as they are now.
    pub(super) fn learn_addresses(&self) -> Result<(), Error> {
        let map = self.programs.map("rtt_local_addresses")?;
        let present: Vec<flow_address> = local_addresses().map(flow_address_of).collect();
        let known: Vec<Vec<u8>> = map.keys().collect();
        for address in known {
            if !present.iter().any(|present| bytes_of(present) == address) {
                // Failing means that it is gone already.
                let _ = map.delete(&address);
            }
        }
        for address in &present {
            map.update(bytes_of(address), &[1], MapFlags::ANY)
                .map_err(|error| {
                    Error::kernel("tell the kernel this machine's addresses", error)
                })?;
        }
        Ok(())
    }
}

/// Sets what must be known before the load: constants, sizes of maps, where programs will be
/// attached.
fn configure(
    object: &mut OpenObject,
    settings: &Settings,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let configuration = settings.to_native(secret(), BUCKETS);
    let selection = settings.selection.to_native()?;
    let flow_size = size_of::<rtt_flow>() + settings.pending_entries() * size_of::<rtt_pending>();
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let failed = |error| Error::kernel(format!("set the map {name} up"), error);
        match name.as_str() {
            "rtt_empty_flow" => map.set_value_size(flow_size as u32).map_err(failed)?,
            "rtt_requests" => {
                debug_assert_eq!(map.value_size() as usize, size_of::<rtt_bucket>());
                map.set_max_entries(BUCKETS).map_err(failed)?;
            }
            _ => {}
        }
    }
    size_flow_table(object, settings.flows, "rtt_flows", flow_size)?;
    set_constants(
        object,
        &[
            (".rodata.rtt_config", bytes_of(&configuration)),
            (".rodata.selection", bytes_of(&selection)),
        ],
    )?;
    choose_programs(object, is_needed);
    Ok(())
}

/// Loads the programs without attaching them, to see whether this kernel takes them.
///
/// # Errors
/// As [`super::RttMonitor::start`].
pub fn probe(settings: &Settings) -> Result<(), Error> {
    Object::load(settings, |_| true).map(drop)
}
