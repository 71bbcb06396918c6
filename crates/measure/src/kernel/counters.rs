//! What each CPU counts for itself.

use libbpf_rs::{MapCore, MapFlags};

use crate::Error;

/// Adds the counters that each CPU has at the first place of a table, in their order.
///
/// # Errors
/// [`Error::Kernel`] when the table cannot be read.
pub fn add_counters<'a>(
    table: &impl MapCore,
    counters: impl IntoIterator<Item = &'a mut u64>,
) -> Result<(), Error> {
    let cpus = of_each_cpu(table, 0)?;
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
/// [`Error::Kernel`] when it cannot be read.
pub fn of_each_cpu(table: &impl MapCore, index: u32) -> Result<Vec<Vec<u8>>, Error> {
    let values = table.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(|error| Error::kernel("read the counters", error))?;
    Ok(values.unwrap_or_default())
}
