//! Which programs hang on an interface, or belong to a process, asked from the kernel and not from
//! the tool.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use fathom_lab::Namespace;
use nix::errno::Errno;
use nix::libc;

/// `BPF_PROG_QUERY` of linux/bpf.h.
const PROGRAM_QUERY: libc::c_long = 16;
/// `BPF_TCX_INGRESS` and `BPF_TCX_EGRESS` of linux/bpf.h.
const TCX_HOOKS: [u32; 2] = [46, 47];

/// The member `query` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct Query {
    interface: u32,
    hook: u32,
    flags: u32,
    attach_flags: u32,
    program_ids: u64,
    program_count: u32,
    padding: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// The numbers of the programs that a process holds, directly or by links.
pub fn programs_of(process: u32) -> Result<BTreeSet<u32>> {
    let files = std::fs::read_dir(format!("/proc/{process}/fdinfo"))?.flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let numbers = |text: String| {
        let lines = text.lines();
        let numbers = lines.filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
        numbers.collect::<Vec<u32>>()
    };
    Ok(texts.flat_map(numbers).collect())
}

/// Counts the traffic programs on `interface`: those of tcx links, and filters of a clsact qdisc on
/// kernels before 6.6, which have no tcx.
pub fn attached_programs(namespace: &Namespace, interface: &str) -> Result<usize> {
    match count_tcx(namespace, interface)? {
        Some(count) => Ok(count),
        None => Ok(clsact_filters(namespace, interface)),
    }
}

/// Whether this kernel has tcx, asked at `interface`.
pub fn has_tcx(namespace: &Namespace, interface: &str) -> Result<bool> {
    Ok(count_tcx(namespace, interface)?.is_some())
}

/// Programs of tcx links; `None` without tcx.
fn count_tcx(namespace: &Namespace, interface: &str) -> Result<Option<usize>> {
    let count = namespace.enter(|| {
        let index = nix::net::if_::if_nametoindex(interface)?;
        TCX_HOOKS
            .into_iter()
            .map(|hook| tcx_programs(index, hook))
            .sum::<Result<usize, Errno>>()
    })?;
    match count {
        Ok(count) => Ok(Some(count)),
        Err(Errno::EINVAL) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("ask for the programs on {interface}")),
    }
}

#[expect(unsafe_code, reason = "the bpf system call has no safe wrapper")]
fn tcx_programs(interface: u32, hook: u32) -> Result<usize, Errno> {
    let mut query = Query {
        interface,
        hook,
        ..Query::default()
    };
    // SAFETY: the kernel reads and writes as many bytes as it is told, of a structure that outlives
    // the call.
    let status = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROGRAM_QUERY,
            &raw mut query,
            size_of::<Query>(),
        )
    };
    match Errno::result(status) {
        Ok(_) => Ok(query.program_count as usize),
        // Nothing was ever attached there.
        Err(Errno::ENOENT) => Ok(0),
        Err(error) => Err(error),
    }
}

fn clsact_filters(namespace: &Namespace, interface: &str) -> usize {
    let mut count = 0;
    for side in ["ingress", "egress"] {
        // Fails where there is no clsact qdisc.
        let filters = namespace.run(&format!("tc filter show dev {interface} {side}"));
        count += filters.map_or(0, |text| text.matches(" bpf ").count());
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_alone_has_no_programs() {
        if let Some(why) = fathom_lab::obstacle() {
            println!("skipped: {why}");
            return;
        }
        let namespace = Namespace::new("alone").unwrap();
        assert_eq!(attached_programs(&namespace, "lo").unwrap(), 0);
        assert!(attached_programs(&namespace, "missing0").is_err());
    }
}
