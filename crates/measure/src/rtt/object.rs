//! What of the programs is of round-trip times: configured before the load, and its maps by name.

use libbpf_rs::{MapCore, MapFlags, OpenObject};

use super::counts::RttCounts;
use super::{Samples, Settings};
use crate::bytes::bytes_of;
use crate::flow::flow_address_of;
use crate::kernel::{Hooks, OfPackets, Part, local_addresses, set_constants};
use crate::native::flow_address;
use crate::rtt::native::{self, rtt_batches, rtt_bucket, rtt_flow, rtt_pending};
use crate::table::secret;
use crate::{Error, Scope};

/// Request buckets, of four requests each: 256 KiB.
const BUCKETS: u32 = 4096;

/// Its part of the loaded programs, and what they count.
pub(super) struct Object {
    pub(super) part: Part,
    /// Flows that user space has deleted.
    pub(super) deleted: u64,
}

impl Object {
    pub(super) fn open(hooks: &Hooks) -> Result<Self, Error> {
        Ok(Self {
            part: hooks.part("rtt", Some("rtt_events"))?,
            deleted: 0,
        })
    }

    /// What the kernel has counted.
    fn kernel_counts(&self) -> Result<RttCounts, Error> {
        let mut counts = RttCounts::default();
        let own = counts.verdicts.iter_mut().chain(&mut counts.counters);
        self.part.counters.add_to(own)?;
        Ok(counts)
    }

    /// Samples that have come by now.
    pub(super) fn samples(&self) -> Result<u64, Error> {
        Ok(self.kernel_counts()?.counters[native::RTT_COUNT_SAMPLES as usize])
    }

    /// What the kernel and user space have counted.
    pub(super) fn counts(&self) -> Result<RttCounts, Error> {
        let mut counts = self.kernel_counts()?;
        counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize] += self.deleted;
        let opened = counts.counters[native::RTT_COUNT_FLOWS_OPENED as usize];
        let deleted = counts.counters[native::RTT_COUNT_FLOWS_DELETED as usize];
        counts.evicted = self.part.flows.evicted(opened, deleted);
        Ok(counts)
    }

    /// Tells the kernel this machine's addresses, as they are now.
    pub(super) fn learn_addresses(&self) -> Result<(), Error> {
        let map = self.part.programs.map("rtt_local_addresses")?;
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

impl OfPackets for Settings {
    fn name(&self) -> &'static str {
        "rtt"
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn state_bytes(&self) -> usize {
        let batches = if self.samples == Samples::InBatches {
            size_of::<rtt_batches>()
        } else {
            0
        };
        let pending = self.pending_entries() * size_of::<rtt_pending>();
        // The state of each flow begins a cache line.
        (size_of::<rtt_flow>() + pending + batches).next_multiple_of(64)
    }

    fn prepare(&self, object: &mut OpenObject) -> Result<(), Error> {
        for mut map in object.maps_mut() {
            if map.name() == "rtt_requests" {
                debug_assert_eq!(map.value_size() as usize, size_of::<rtt_bucket>());
                map.set_max_entries(BUCKETS)
                    .map_err(|error| Error::kernel("set the table of requests up", error))?;
            }
        }
        let configuration = self.to_native(secret(), BUCKETS);
        set_constants(object, &[(".rodata.rtt_config", bytes_of(&configuration))])
    }
}
