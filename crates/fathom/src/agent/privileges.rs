//! What the agent may do once it measures.

use std::collections::HashSet;

use anyhow::{Context, bail};
use caps::{CapSet, Capability};

/// What later steps need: interfaces that come, programs and their maps, other processes' libraries
/// and names, and files that are somebody else's.
const NEEDED: [Capability; 6] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_CHECKPOINT_RESTORE,
    Capability::CAP_DAC_OVERRIDE,
];

/// Gives up all other capabilities of this thread, and of those that it starts, for good.
/// `needs_admin`: later steps need `CAP_SYS_ADMIN`, too.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn drop_others(needs_admin: bool) -> anyhow::Result<()> {
    let failed = || "cannot give up capabilities";
    let held = caps::read(None, CapSet::Permitted).with_context(failed)?;
    let mut needed = HashSet::from(NEEDED);
    if needs_admin {
        needed.insert(Capability::CAP_SYS_ADMIN);
    }
    let kept: HashSet<_> = held.intersection(&needed).copied().collect();
    if held.contains(&Capability::CAP_SETPCAP) {
        for other in caps::all().difference(&kept) {
            // The kernel may not know the newest.
            if caps::has_cap(None, CapSet::Bounding, *other).unwrap_or(false) {
                caps::drop(None, CapSet::Bounding, *other).with_context(failed)?;
            }
        }
    }
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).with_context(failed)?;
    }
    caps::set(None, CapSet::Effective, &kept).with_context(failed)?;
    caps::set(None, CapSet::Permitted, &kept).with_context(failed)
}

/// Whether this process may still take the steps of `measurement` that need `CAP_SYS_ADMIN`.
///
/// # Errors
/// When it may not, or the kernel does not tell.
pub(super) fn require_admin(measurement: &str) -> anyhow::Result<()> {
    let is_held = caps::has_cap(None, CapSet::Permitted, Capability::CAP_SYS_ADMIN);
    if is_held.context("cannot read capabilities")? {
        return Ok(());
    }
    bail!(
        "{measurement} needs CAP_SYS_ADMIN, which this agent does not have: an agent that begins \
         without {measurement} gives it up. Restart the agent"
    )
}
