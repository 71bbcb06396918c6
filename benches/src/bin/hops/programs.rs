//! The programs of `fathom hops`, loaded as the library loads them.

use std::ffi::OsStr;

use anyhow::Context;
use fathom_benches::native::{hops_config, selection};
use fathom_benches::programs::{Programs, set_constant};
use fathom_measure::bytes::bytes_of;
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hops.bpf.o"));

/// Loads those of these names.
pub(crate) fn load(
    names: &[&str],
    config: &hops_config,
    selection: &selection,
) -> anyhow::Result<Programs> {
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .context("open the BPF object")?;
    for mut program in object.progs_mut() {
        let is_needed = names.iter().any(|name| program.name() == OsStr::new(name));
        program.set_autoload(is_needed);
    }
    set_constant(&mut object, ".rodata.hops_config", bytes_of(config))?;
    set_constant(&mut object, ".rodata.selection", bytes_of(selection))?;
    Programs::load(object)
}

/// What was counted, of all CPUs.
pub(crate) fn count(programs: &Programs, counter: u32) -> anyhow::Result<u64> {
    let cpus = programs
        .map("hops_cpus")?
        .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
        .context("read the counters")?
        .context("there are no counters")?;
    let of_each = cpus.iter().map(|cpu| {
        let (words, _) = cpu.as_chunks::<8>();
        u64::from_ne_bytes(words[counter as usize])
    });
    Ok(of_each.sum())
}
