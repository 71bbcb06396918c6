//! What BPF programs take, as the kernel counts it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

use anyhow::{Context, bail, ensure};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{ObjectBuilder, ProgramInput, libbpf_sys};

/// The programs of the `kernel` benchmark, of which one does nothing.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel.bpf.o"));
const EMPTY: &str = "empty";
const EMPTY_RUNS: u32 = 200_000;

/// The kernel counts runs of programs and their time as long as this lives.
pub(super) struct Statistics {
    _switch: OwnedFd,
}

/// A program, or several that the kernel gives the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its first fifteen characters.
    pub(super) name: String,
    pub(super) run_time_ns: u64,
    pub(super) runs: u64,
}

impl Statistics {
    /// Switches them on.
    #[expect(unsafe_code, reason = "libbpf-rs does not offer it")]
    pub(super) fn enable() -> anyhow::Result<Self> {
        // SAFETY: the call has no pointers; what it returns is checked, and nobody else's
        // descriptor.
        let switch = unsafe {
            let descriptor = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
            ensure!(
                descriptor >= 0,
                "the kernel does not count the run time of programs: {}",
                std::io::Error::from_raw_os_error(-descriptor)
            );
            OwnedFd::from_raw_fd(descriptor)
        };
        Ok(Self { _switch: switch })
    }

    /// What the programs that a process holds took so far.
    #[expect(
        clippy::unused_self,
        reason = "without the statistics there is nothing to read"
    )]
    pub(super) fn of(&self, process: u32) -> anyhow::Result<Vec<Program>> {
        let folder = format!("/proc/{process}/fdinfo");
        let entries = fs::read_dir(&folder).with_context(|| format!("read {folder}"))?;
        let own: Vec<u32> = entries
            .flatten()
            .filter_map(|entry| program_id(&fs::read_to_string(entry.path()).ok()?))
            .collect();
        let mut programs: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for program in ProgInfoIter::default().filter(|program| own.contains(&program.id)) {
            let name = program.name.to_string_lossy().into_owned();
            let (run_time_ns, runs) = programs.entry(name).or_default();
            *run_time_ns += program.run_time_ns;
            *runs += program.run_cnt;
        }
        ensure!(!programs.is_empty(), "process {process} holds no programs");
        Ok(programs
            .into_iter()
            .map(|(name, (run_time_ns, runs))| Program {
                name,
                run_time_ns,
                runs,
            })
            .collect())
    }
}

/// How many profilers are attached on this machine, by the first of their programs, of either set
/// of probes. Those of others see all traffic too.
pub(super) fn profilers() -> usize {
    const FIRST: [&str; 2] = ["tracepoint_stat", "fentry_state"];
    let is_first = |name: &OsStr| FIRST.iter().any(|first| name == *first);
    ProgInfoIter::default()
        .filter(|program| is_first(OsStr::new(&*program.name.to_string_lossy())))
        .count()
}

/// What the statistics count for a program that does nothing: reading the clock, in nanoseconds a
/// run.
pub(super) fn empty_run_ns() -> anyhow::Result<f64> {
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .context("open the empty program")?;
    for mut map in object.maps_mut() {
        // Those of its variables and constants.
        let is_needed = map.name().to_string_lossy().starts_with('.');
        map.set_autocreate(is_needed)?;
    }
    for mut program in object.progs_mut() {
        let is_needed = program.name() == OsStr::new(EMPTY);
        program.set_autoload(is_needed);
    }
    let object = object.load().context("load the empty program")?;
    let statistics = Statistics::enable()?;
    let program = object
        .progs_mut()
        .find(|program| program.name() == OsStr::new(EMPTY));
    let program = program.context("there is no empty program")?;
    program
        .test_run(ProgramInput {
            data_in: Some(&[0; 64]),
            repeat: EMPTY_RUNS,
            ..ProgramInput::default()
        })
        .context("run the empty program")?;
    let own = statistics.of(std::process::id())?;
    let [empty] = own.as_slice() else {
        bail!("this process holds more programs than the empty one");
    };
    Ok(empty.run_time_ns as f64 / empty.runs as f64)
}

fn program_id(text: &str) -> Option<u32> {
    let id = text
        .lines()
        .find_map(|line| line.strip_prefix("prog_id:"))?;
    id.trim().parse().ok()
}

impl Program {
    /// What those of one process took between two moments, the dearest first.
    pub(super) fn differences(before: &[Self], after: &[Self]) -> Vec<Self> {
        let mut differences: Vec<Self> = after
            .iter()
            .zip(before)
            .map(|(after, before)| Self {
                name: after.name.clone(),
                run_time_ns: after.run_time_ns - before.run_time_ns,
                runs: after.runs - before.runs,
            })
            .collect();
        differences.sort_by_key(|program| std::cmp::Reverse(program.run_time_ns));
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_the_kernel_says_of_descriptors() {
        let text = "pos:\t0\nlink_type:\ttracing\nprog_id:\t12\n";
        assert_eq!(program_id(text), Some(12));
        assert_eq!(program_id("pos:\t0\n"), None);
    }

    #[test]
    fn differences_are_sorted() {
        let program = |name: &str, run_time_ns, runs| Program {
            name: name.to_owned(),
            run_time_ns,
            runs,
        };
        let before = [program("a", 10, 1), program("b", 10, 1)];
        let after = [program("a", 15, 2), program("b", 30, 4)];
        assert_eq!(
            Program::differences(&before, &after),
            [program("b", 20, 3), program("a", 5, 1)]
        );
    }
}
