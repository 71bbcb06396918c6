//! What the machine is: kernel, type information, privileges, clock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use super::Checks;

/// The type information that the programs are fitted to the kernel by.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The lowest version that the programs are tested on.
const OLDEST: (u32, u32) = (6, 1);
/// A clock that takes longer is felt at every packet, in nanoseconds.
const SLOW_CLOCK_NS: u32 = 150;

/// Bits of a capability set, from linux/capability.h.
const CAPABILITIES: [(u32, &str); 3] =
    [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// Stands for `CAP_BPF` and `CAP_PERFMON`, too.
const SYS_ADMIN: u32 = 21;
const NET_ADMIN: u32 = 12;

pub(super) fn examine(checks: &mut Checks) {
    kernel(checks);
    types(checks);
    privileges(checks);
    clock(checks);
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

fn kernel(checks: &mut Checks) {
    let release = read("/proc/sys/kernel/osrelease");
    if release.is_empty() {
        checks.note("machine", "kernel", "/proc does not tell", "mount /proc");
        return;
    }
    if version_of(&release).is_some_and(|version| version < OLDEST) {
        let remedy = format!(
            "{}.{} is the oldest that is tested: use a newer one if live measuring is refused",
            OLDEST.0, OLDEST.1
        );
        checks.note("machine", "kernel", release, remedy);
    } else {
        checks.ok("machine", "kernel", release);
    }
}

/// Major and minor.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn types(checks: &mut Checks) {
    if Path::new(TYPES).exists() {
        checks.ok("machine", "type information", TYPES);
    } else {
        checks.no(
            "machine",
            "type information",
            format!("there is no {TYPES}"),
            "use a kernel built with CONFIG_DEBUG_INFO_BTF, as those of the distributions are; live measuring needs it",
        );
    }
}

fn privileges(checks: &mut Checks) {
    let status = read("/proc/self/status");
    let Some(effective) = effective_capabilities(&status) else {
        let found = "/proc/self/status does not tell them";
        checks.note("machine", "privileges", found, "mount /proc");
        return;
    };
    let missing = missing_of(effective);
    let names = CAPABILITIES.map(|(_, name)| name).join(", ");
    if !missing.is_empty() {
        let program = std::env::current_exe()
            .map_or_else(|_| "fathom".to_owned(), |path| path.display().to_string());
        checks.no(
            "machine",
            "privileges",
            format!("{} missing", missing.join(", ")),
            format!(
                "run as root, or: setcap cap_bpf,cap_net_admin,cap_perfmon+ep {program}; capture files need none"
            ),
        );
    } else if in_user_namespace() {
        checks.no(
            "machine",
            "privileges",
            format!("{names}, but only in a user namespace, where the kernel does not count them"),
            "run it outside, as root of the machine: a container must not be rootless",
        );
    } else {
        checks.ok("machine", "privileges", names);
    }
}

/// The first one, which all others descend from, has this number on every machine
/// (`PROC_USER_INIT_INO` of `linux/proc_ns.h`).
fn in_user_namespace() -> bool {
    const FIRST: u64 = 0xefff_fffd;
    fs::metadata("/proc/self/ns/user").is_ok_and(|namespace| namespace.ino() != FIRST)
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing_of(effective: u64) -> Vec<&'static str> {
    let has = |bit: u32| effective >> bit & 1 == 1;
    CAPABILITIES
        .into_iter()
        .filter(|&(bit, _)| !has(bit) && (bit == NET_ADMIN || !has(SYS_ADMIN)))
        .map(|(_, name)| name)
        .collect()
}

fn clock(checks: &mut Checks) {
    const READINGS: u32 = 20_000;
    let begin = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    let reading_ns = begin.elapsed().as_nanos() / u128::from(READINGS);
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = if source.is_empty() {
        "of unknown source".to_owned()
    } else {
        source
    };
    let found = format!("{source}, {reading_ns} ns a reading");
    if reading_ns > u128::from(SLOW_CLOCK_NS) {
        checks.note(
            "machine",
            "clock",
            found,
            "live measuring reads it for every packet that counts: see whether the machine offers a faster source, as tsc",
        );
    } else {
        checks.ok("machine", "clock", found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(version_of("6.18.5-amd64"), Some((6, 18)));
        assert!(version_of("6.12.0").unwrap() > OLDEST);
        assert!(version_of("5.15.0").unwrap() < OLDEST);
        assert_eq!(version_of("unknown"), None);
    }

    #[test]
    fn capabilities_are_read_by_name() {
        let status = "Name:\tx\nCapEff:\t000000c000001000\n";
        assert_eq!(effective_capabilities(status), Some(0xc0_0000_1000));
        assert!(missing_of(0xc0_0000_1000).is_empty());
        assert_eq!(missing_of(0), ["CAP_NET_ADMIN", "CAP_PERFMON", "CAP_BPF"]);
        assert_eq!(missing_of(1 << SYS_ADMIN), ["CAP_NET_ADMIN"]);
        assert_eq!(effective_capabilities(""), None);
    }
}
