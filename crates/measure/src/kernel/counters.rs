//! What each CPU counts for itself.

use std::ffi::OsStr;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{MemberAttr, Struct};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::load::{map, missing};
use crate::Error;

/// What a measurement counts in programs that it shares: a member, of its name, of what each CPU
/// has for itself (`bpf/dispatch.bpf.c`).
#[derive(Debug)]
pub struct OwnCounters {
    cpus: MapHandle,
    /// Of its first byte.
    offset: usize,
}

impl OwnCounters {
    /// Those of a measurement in loaded programs, which were compiled to `object`.
    ///
    /// # Errors
    /// [`Error::Kernel`] when it has no part in them.
    pub fn open(object: &[u8], programs: &Object, measurement: &str) -> Result<Self, Error> {
        let types = Btf::from_raw("types", object).ok().flatten();
        let cpu = types
            .as_ref()
            .and_then(|types| types.type_by_name("packet_cpu"));
        let place = cpu.as_ref().and_then(|cpu: &Struct<'_>| {
            let is_own = |name| name == OsStr::new(measurement);
            cpu.iter().find(|member| member.name.is_some_and(is_own))
        });
        let Some(MemberAttr::Normal { offset }) = place.map(|member| member.attr) else {
            return Err(missing(measurement));
        };
        Ok(Self {
            cpus: map(programs, "packet_cpus")?,
            offset: offset as usize / 8,
        })
    }

    /// Adds them to these, in their order.
    ///
    /// # Errors
    /// [`Error::Kernel`] when they cannot be read.
    pub fn add_to<'a>(&self, counters: impl IntoIterator<Item = &'a mut u64>) -> Result<(), Error> {
        add_from(&self.cpus, self.offset, counters)
    }
}

/// Adds the counters that each CPU has at the first place of a table, in their order.
///
/// # Errors
/// [`Error::Kernel`] when the table cannot be read.
pub fn add_counters<'a>(
    table: &impl MapCore,
    counters: impl IntoIterator<Item = &'a mut u64>,
) -> Result<(), Error> {
    add_from(table, 0, counters)
}

fn add_from<'a>(
    table: &impl MapCore,
    offset: usize,
    counters: impl IntoIterator<Item = &'a mut u64>,
) -> Result<(), Error> {
    let cpus = of_each_cpu(table, 0)?;
    for (index, counter) in counters.into_iter().enumerate() {
        let words = cpus
            .iter()
            .filter_map(|cpu| cpu.get(offset..)?.as_chunks::<8>().0.get(index));
        *counter += words.map(|word| u64::from_ne_bytes(*word)).sum::<u64>();
    }
    Ok(())
}

/// What each CPU has at this place of a table.
///
/// # Errors
/// [`Error::Kernel`] when it cannot be read.
pub fn of_each_cpu(table: &impl MapCore, index: u32) -> Result<Vec<Vec<u8>>, Error> {
    let values = table.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(|error| Error::kernel("read the counters", error))?;
    Ok(values.unwrap_or_default())
}
