//! The probes loaded, where the kernel takes them.

use std::error::Error as _;
use std::ffi::OsStr;
use std::path::Path;

use super::dns::{Dns, Scope};
use super::indicator::Indicator;
use super::names::Names;
use super::options::Options;
use super::probes::{Kernel, Needs, ProbeSet, Probes};
use crate::Error;
use crate::bytes::bytes_of;
use crate::kernel::{Programs, decompress, group_root, set_constants};
use crate::profile::native::profile_config;

/// The compiled programs: 0.5 MB, of use while they are loaded.
fn object() -> Vec<u8> {
    decompress(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/profile.bpf.o.zst"
    )))
}

/// `BPF_SOCK_OPS_RTT_CB_FLAG` and `BPF_SOCK_OPS_PARSE_ALL_HDR_OPT_CB_FLAG` (linux/bpf.h).
const ROUND_TRIP_CALLBACK: u32 = 1 << 3;
const HEADER_CALLBACK: u32 = 1 << 4;

/// The program that frees what the kernel keeps of a connection.
pub(super) const FORGET: &str = "forget";

/// What each set of probes can do here, the better one first.
///
/// # Errors
/// [`Error::Unsupported`] when the kernel does not describe itself, or takes neither.
pub fn available() -> Result<Vec<Probes>, Error> {
    let kernel = Kernel::examine(group_root().is_some())?;
    let mut sets = kernel.sets();
    for set in &mut sets {
        set.refusal = load(set, &Options::everything())
            .err()
            .map(|error| match error.source() {
                // Privileges would refuse both sets alike.
                _ if set.set == ProbeSet::Fentry && is_permission(&error) => {
                    "the kernel refuses probes of functions: it is locked down, or built without them".to_owned()
                }
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            });
    }
    let root = group_root();
    let everything = Options::everything();
    Dns::examine(
        &scope(&everything, root.as_deref(), &Names::default())?,
        &mut sets,
    );
    let refused = sets.iter().filter(|set| set.refusal.is_some()).count();
    if refused == sets.len()
        && let Err(error) = load(&kernel.set(ProbeSet::Tracepoint), &Options::everything())
    {
        return Err(error);
    }
    sets.sort_by_key(|set| (set.refusal.is_some(), set.missing.len()));
    Ok(sets)
}

fn is_permission(error: &Error) -> bool {
    matches!(error, Error::Unsupported { .. })
}

/// Loads the programs of a set, if they can run. Those that need a function the kernel does not
/// have are left out already.
pub(super) fn load(probes: &Probes, options: &Options) -> Result<Programs, Error> {
    let mut callbacks = 0;
    if probes.can(Indicator::RoundTrips) {
        callbacks |= ROUND_TRIP_CALLBACK;
    }
    if probes.can(Indicator::Disorder) && probes.set == ProbeSet::Tracepoint {
        callbacks |= HEADER_CALLBACK;
    }
    let group = options.group()?;
    let configuration = profile_config {
        cgroup: group.number,
        cgroup_level: group.level,
        callbacks,
    };
    let selection = options.selection.to_native()?;
    let constants = [
        (".rodata.profile_config", bytes_of(&configuration)),
        (".rodata.selection", bytes_of(&selection)),
    ];
    let programs = Programs::load(&object(), "profile_moments", |object| {
        set_constants(object, &constants)?;
        for mut program in object.progs_mut() {
            let own = probes.programs.iter().map(|own| own.name);
            let is_needed = own
                .chain([FORGET])
                .any(|own| program.name() == OsStr::new(own));
            program.set_autoload(is_needed);
        }
        Ok(())
    })?;
    // A kernel that takes probes of functions cannot have them run for that.
    let mut functions = probes.programs.iter();
    if let Some(probe) = functions.find(|probe| matches!(probe.needs, Needs::Function(_))) {
        let attached = programs.program(probe.name)?.attach().map(drop);
        let what = "attach probes of functions (on arm64 since Linux 6.4)";
        attached.map_err(|error| Error::kernel(what, error))?;
    }
    Ok(programs)
}

/// What to measure of names.
pub(super) fn scope<'a>(
    options: &'a Options,
    root: Option<&'a Path>,
    names: &Names,
) -> Result<Scope<'a>, Error> {
    Ok(Scope {
        selection: &options.selection,
        group: options.group()?,
        root,
        timeout: options.dns_timeout,
        has_names: options.has_names,
        names: names.clone(),
    })
}
