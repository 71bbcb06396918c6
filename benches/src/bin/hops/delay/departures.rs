//! When application's packets and probes left, as a program of the kernel stamped them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use fathom_benches::programs::{Programs, set_constant};
use libbpf_rs::{Link, MapCore, MapFlags, ObjectBuilder};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/departures.bpf.o"));
/// `struct departure` of `departures.bpf.c`: time, number, whether it is a probe.
const ENTRY_BYTES: usize = 16;

/// The program at work; gone when dropped.
pub(super) struct Departures {
    _link: Link,
    programs: Programs,
}

/// How far apart probes and their packets left.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Of each packet that had a probe, ns; negative: the probe left first.
    pub(super) gaps_ns: Vec<i64>,
    /// Packets that should have had a probe, and had none.
    pub(super) missing: usize,
}

impl Departures {
    /// Watches all UDP packets to an address.
    pub(super) fn watch(destination: Ipv4Addr) -> anyhow::Result<Self> {
        let mut object = ObjectBuilder::default()
            .open_memory(OBJECT)
            .context("open the program that stamps departures")?;
        set_constant(&mut object, ".rodata.destination", &destination.octets())?;
        let programs = Programs::load(object)?;
        let program = programs.program("departure")?;
        let link = program.attach().context("stamp departures")?;
        Ok(Self {
            _link: link,
            programs,
        })
    }

    /// How many there were.
    pub(super) fn count(&self) -> anyhow::Result<usize> {
        let bytes = self
            .programs
            .map(".data.departed")?
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .context("count the departures")?;
        let word = bytes.as_deref().and_then(|bytes| bytes.first_chunk());
        Ok(u32::from_ne_bytes(*word.context("there is no count")?) as usize)
    }

    /// All of them, in pairs.
    pub(super) fn gaps(&self) -> anyhow::Result<Gaps> {
        let entries = self.programs.map("departures")?;
        let count = self.count()?;
        ensure!(
            count < entries.max_entries() as usize,
            "more packets left than there is room for"
        );
        let (mut packets, mut probes) = (BTreeMap::new(), BTreeMap::new());
        for place in 0..count as u32 {
            let bytes = entries.lookup(&place.to_ne_bytes(), MapFlags::ANY)?;
            let bytes = bytes.context("a departure is missing")?;
            let bytes: [u8; ENTRY_BYTES] = bytes.as_slice().try_into()?;
            let (words, _) = bytes.as_chunks::<4>();
            let [low, high, number, is_probe] = [0, 1, 2, 3].map(|i| u32::from_ne_bytes(words[i]));
            let time_ns = u64::from(high) << 32 | u64::from(low);
            let kind = if is_probe == 0 {
                &mut packets
            } else {
                &mut probes
            };
            ensure!(
                kind.insert(number, time_ns).is_none(),
                "number {number} left twice"
            );
        }
        Ok(Gaps::of(&packets, &probes))
    }
}

impl Gaps {
    fn of(packets: &BTreeMap<u32, u64>, probes: &BTreeMap<u32, u64>) -> Self {
        let gap = |(number, packet_ns): (&u32, &u64)| {
            let probe_ns = probes.get(number)?;
            Some(probe_ns.cast_signed() - packet_ns.cast_signed())
        };
        let gaps_ns: Vec<i64> = packets.iter().filter_map(gap).collect();
        Self {
            missing: packets.len() - gaps_ns.len(),
            gaps_ns,
        }
    }

    /// Adds those of another turn.
    pub(super) fn append(&mut self, mut other: Self) {
        self.gaps_ns.append(&mut other.gaps_ns);
        self.missing += other.missing;
    }
}
