//! The programs of `fathom rtt`, and what they are measured against, loaded as the library loads
//! them.

use std::ffi::OsStr;

use anyhow::Context;
use fathom_benches::native::{rtt_config, rtt_flow, rtt_pending};
use fathom_benches::programs::{Programs, Run, set_constant};
use fathom_measure::bytes::bytes_of;
use fathom_measure::kernel::size_flow_table;
use fathom_measure::rtt::{Method, Settings};
use libbpf_rs::{ObjectBuilder, OpenObject};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.bpf.o"));

/// What the reference returns when the flow was in the table: `TC_ACT_OK` of `linux/pkt_cls.h`.
const FOUND: u32 = 0;

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Only moves the packet on.
    Empty,
    /// Reads the clock.
    Clock,
    /// Parses, and looks one entry of the kernel's LRU hash up.
    Reference,
    /// Makes the flows known to the reference that production knows.
    Learn,
    /// What is attached to `ingress` of an Ethernet device.
    Production,
}

impl Contender {
    fn program(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Clock => "clock",
            Self::Reference => "reference",
            Self::Learn => "learn",
            Self::Production => "production",
        }
    }
}

/// Loads them as the library does for these settings.
pub(crate) fn load(settings: &Settings) -> anyhow::Result<Programs> {
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .context("open the BPF object")?;
    configure(&mut object, settings)?;
    Programs::load(object)
}

/// Runs a contender over `packets` copies of a frame that each move on.
pub(crate) fn run(
    programs: &Programs,
    contender: Contender,
    frame: &[u8],
    packets: u32,
) -> anyhow::Result<Run> {
    programs.run(contender.program(), frame, packets)
}

/// Whether the reference found the flow of the last packet.
pub(crate) fn has_flow(reference: Run) -> bool {
    reference.returned == FOUND
}

fn configure(object: &mut OpenObject, settings: &Settings) -> anyhow::Result<()> {
    let places_bytes = settings.pending_entries() * size_of::<rtt_pending>();
    let flow_bytes = size_of::<rtt_flow>() + places_bytes;
    let buckets = object
        .maps()
        .find(|map| map.name() == OsStr::new("rtt_requests"))
        .context("the object has no requests")?
        .max_entries();
    let config = rtt_config {
        sample_interval: settings.sample_interval.as_nanos() as u64,
        expiry: Settings::EXPIRY.as_nanos() as u64,
        seed: 0x0123_4567_89ab_cdef,
        per_rtt: settings.per_rtt,
        methods: (1 << Method::ALL.len()) - 1,
        slots: settings.slots,
        bucket_mask: buckets - 1,
        has_near_side: settings.has_near_side.into(),
        has_tunnels: settings.has_tunnels.into(),
        has_events: settings.has_events.into(),
        has_bytes: settings.has_bytes.into(),
        ..rtt_config::default()
    };
    for mut map in object.maps_mut() {
        if map.name() == "rtt_empty_flow" {
            map.set_value_size(flow_bytes as u32)?;
        }
    }
    size_flow_table(object, settings.flows, "rtt_flows", flow_bytes)?;
    set_constant(object, ".rodata.rtt_config", bytes_of(&config))
}
