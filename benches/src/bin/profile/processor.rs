//! Processor time, by who took it.
//!
//! The clocks of processes and threads, in nanoseconds: the kernel charges work in interrupts,
//! which the packets of loopback and the BPF programs are, to whoever runs, so they hold it. The
//! time of the whole machine would hold other processes too.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::Pid;

/// Threads of the kernel that do what packets and programs leave behind.
const KERNEL_THREADS: [&str; 2] = ["ksoftirqd/", "rcu"];

/// The clocks at one moment.
pub(super) struct Clocks {
    workload: Duration,
    fathom: Duration,
    kernel: BTreeMap<i32, Duration>,
}

/// Time between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    /// The processes that make the traffic.
    pub(super) workload: Duration,
    /// The process of fathom.
    pub(super) fathom: Duration,
    /// Threads of the kernel.
    pub(super) kernel: Duration,
}

impl Clocks {
    /// Reads them; `workload` are the processes that make the traffic, and `fathom` is its process,
    /// if it runs.
    pub(super) fn read(workload: &[u32], fathom: Option<u32>) -> nix::Result<Self> {
        let fathom = fathom.map(|id| process(id.cast_signed())).transpose()?;
        let workload = workload.iter().map(|id| process(id.cast_signed()));
        Ok(Self {
            workload: workload.sum::<nix::Result<_>>()?,
            fathom: fathom.unwrap_or_default(),
            kernel: kernel_threads()
                .into_iter()
                .filter_map(|id| Some((id, process(id).ok()?)))
                .collect(),
        })
    }

    /// Time since `before`.
    pub(super) fn since(&self, before: &Self) -> Used {
        let kernel = self.kernel.iter().filter_map(|(id, now)| {
            let before = before.kernel.get(id)?;
            Some(now.saturating_sub(*before))
        });
        Used {
            workload: self.workload.saturating_sub(before.workload),
            fathom: self.fathom.saturating_sub(before.fathom),
            kernel: kernel.sum(),
        }
    }
}

impl Used {
    /// All together.
    pub(super) fn total(&self) -> Duration {
        self.workload + self.fathom + self.kernel
    }
}

fn process(id: i32) -> nix::Result<Duration> {
    time(ClockId::pid_cpu_clock_id(Pid::from_raw(id))?)
}

fn time(clock: ClockId) -> nix::Result<Duration> {
    let now = clock.now()?;
    Ok(Duration::from_nanos(now.num_nanoseconds().unsigned_abs()))
}

fn kernel_threads() -> Vec<i32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id: &i32| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            KERNEL_THREADS.iter().any(|wanted| name.starts_with(wanted))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_charged() {
        let now = || Clocks::read(&[std::process::id()], None).unwrap();
        let before = now();
        while now().since(&before).workload < Duration::from_millis(1) {}
        let used = now().since(&before);
        assert!(used.total() >= used.workload);
        assert!(used.fathom.is_zero());
    }
}
