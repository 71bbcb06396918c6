//! The programs that are attached where packets pass, and what they are measured against, loaded as
//! the library loads them.

use anyhow::Context;
use fathom_benches::programs::{Programs, Run};
use fathom_measure::kernel::{OfPackets, prepare};
use libbpf_rs::ObjectBuilder;

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

/// Loads them as the library does for these measurements.
pub(crate) fn load(measurements: &[&dyn OfPackets]) -> anyhow::Result<Programs> {
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .context("open the BPF object")?;
    prepare(&mut object, measurements)?;
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
