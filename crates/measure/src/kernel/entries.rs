//! Tables of flows of the kernel's: how large they are, and reading them, many at a time.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle, OpenMapMut};

use crate::Error;
use crate::bytes::read_prefix;
use crate::native::flow_key;

/// Flows read at once; a bucket of the kernel's hash table never has nearly so many.
const BATCH: usize = 1024;

/// Places of a table that each CPU may hold free for itself. An LRU map of exactly as many places
/// as there are flows would evict a few hundred again and again; so it gets these besides.
const SPARE_FLOWS: u32 = 256;

/// Sets how large a table of flows is to be: so many flows, and so many bytes of each.
///
/// # Errors
/// [`Error::Kernel`] when it cannot be set.
pub(crate) fn size_flows(
    table: &mut OpenMapMut<'_>,
    flows: u32,
    value_size: usize,
) -> Result<(), Error> {
    let failed = |error| Error::kernel("set the table of flows up", error);
    let spare = SPARE_FLOWS * libbpf_rs::num_possible_cpus().map_err(failed)? as u32;
    table.set_value_size(value_size as u32).map_err(failed)?;
    let places = flows.saturating_add(spare);
    table.set_max_entries(places).map_err(failed)
}

/// Calls `visit` for every flow and the bytes that are kept of it, in no order that means anything.
/// Flows that come or go meanwhile may or may not be among them. After each batch comes `between`:
/// for those who must not be away for long.
///
/// (libbpf-rs has an iterator for this, but that of 0.27 takes a batch that is not full for the
/// last one, while a hash map ends a batch where the next bucket does not fit.)
///
/// # Errors
/// [`Error::Kernel`] when the table cannot be read.
pub(crate) fn for_each_flow(
    table: &MapHandle,
    mut visit: impl FnMut(&flow_key, &[u8]),
    mut between: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let value_size = table.value_size() as usize;
    let mut keys = vec![0_u8; BATCH * size_of::<flow_key>()];
    let mut values = vec![0_u8; BATCH * value_size];
    let mut position: Option<u32> = None;
    loop {
        let mut next = 0_u32;
        let batch = read_batch(table, position, &mut next, &mut keys, &mut values);
        let (count, is_last) =
            batch.map_err(|error| Error::kernel("read the table of flows", error))?;
        let keys = keys.chunks_exact(size_of::<flow_key>());
        let values = values.chunks_exact(value_size);
        for (key, value) in keys.zip(values).take(count) {
            if let Some((key, _)) = read_prefix(key) {
                visit(&key, value);
            }
        }
        between()?;
        if is_last {
            return Ok(());
        }
        position = Some(next);
    }
}

/// How many flows came, and whether they were the last.
fn read_batch(
    table: &MapHandle,
    mut position: Option<u32>,
    next: &mut u32,
    keys: &mut [u8],
    values: &mut [u8],
) -> Result<(usize, bool), std::io::Error> {
    let mut count = BATCH as u32;
    let from = position
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    #[expect(unsafe_code, reason = "calls libbpf")]
    // SAFETY: the buffers have room for as many flows as `count` says, and a position in a hash map
    // is 32 bits wide.
    let code = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            table.as_fd().as_raw_fd(),
            from.cast(),
            std::ptr::from_mut(next).cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut count,
            std::ptr::null(),
        )
    };
    match -code {
        0 => Ok((count as usize, false)),
        libc::ENOENT => Ok((count as usize, true)),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}
