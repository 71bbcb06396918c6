//! Time that the hypervisor took from this machine, and tests that notice it.

use std::cell::Cell;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::link::{PRIORITY, precede_ordinary_threads};
use crate::namespace::is_skipped;
use crate::worker::stay_on;

/// Between the beats of a processor's pulse.
const BEAT: Duration = Duration::from_micros(250);
/// A beat that is so late was kept: by less than what makes a sample wrong, which is 1 ms, as a
/// pause may begin right after a beat.
const LATE_NS: u64 = 500_000;
/// What a case that looks at real time may blame a failure on: a processor that was away for so
/// long.
const TO_BLAME_NS: u64 = 2_000_000;
/// How often a case is measured, at most.
const ATTEMPTS: u32 = 3;

thread_local! {
    /// Which attempt of a case this thread is at, from 0 on.
    static ATTEMPT: Cell<usize> = const { Cell::new(0) };
    /// When what it looks at began, in ns since 1970.
    static BEGIN_NS: Cell<u64> = const { Cell::new(0) };
}

/// What several cases look at, and the first of them makes. A case that is measured again has it
/// made again, once for all of them.
#[derive(Debug)]
pub struct Shared<T: 'static>(Mutex<Vec<(u64, &'static T)>>);

impl<T> Shared<T> {
    /// Nothing yet.
    #[expect(clippy::new_without_default, reason = "it is made in a static")]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// What `make` makes, for the attempt that the case is at.
    pub fn get(&self, make: impl FnOnce() -> T) -> &'static T {
        let attempt = ATTEMPT.get();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= attempt {
            let begin_ns = now_ns();
            all.push((begin_ns, Box::leak(Box::new(make()))));
        }
        let (begin_ns, latest) = all[attempt.min(all.len() - 1)];
        BEGIN_NS.set(BEGIN_NS.get().min(begin_ns));
        latest
    }
}

/// When a processor did not beat, in ns since 1970; of all processors that this process may use,
/// since the first look.
static GAPS: LazyLock<Mutex<Vec<Range<u64>>>> = LazyLock::new(|| {
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    for processor in (0..CpuSet::count()).filter(|one| all.is_set(*one) == Ok(true)) {
        thread::spawn(move || beat(processor));
    }
    Mutex::default()
});

/// Notes when the processor does nothing, before all that may wait, so that only what the machine
/// itself waited for keeps it.
fn beat(processor: usize) {
    if let Err(error) = stay_on(processor) {
        println!("processor {processor} is not watched: {error}");
        return;
    }
    // Before links. Refused, it waits for others too, and excuses too much.
    let _ = precede_ordinary_threads(PRIORITY + 1);
    let mut last_ns = now_ns();
    loop {
        thread::sleep(BEAT);
        let now_ns = now_ns();
        if now_ns.saturating_sub(last_ns) > BEAT.as_nanos() as u64 + LATE_NS {
            let mut gaps = GAPS.lock().unwrap_or_else(PoisonError::into_inner);
            gaps.push(last_ns..now_ns);
        }
        last_ns = now_ns;
    }
}

fn now_ns() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_nanos() as u64
}

/// When a processor was away, in ns since 1970, since the first call of this or of
/// [`in_real_time`].
pub fn stolen_time() -> Vec<Range<u64>> {
    GAPS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs a case that looks at real time. One that panics while a processor was away for 2 ms or
/// longer is measured again, at most twice, and it is said; any other panic goes on. [`in_lab`]
/// does it for tests.
///
/// # Panics
/// Where the case does.
pub fn in_real_time<T>(case: impl Fn() -> T) -> T {
    LazyLock::force(&GAPS);
    let mut attempt = 1;
    loop {
        ATTEMPT.set(attempt as usize - 1);
        BEGIN_NS.set(now_ns());
        let outcome = panic::catch_unwind(AssertUnwindSafe(&case));
        let panic = match outcome {
            Ok(result) => return result,
            Err(panic) => panic,
        };
        let begin_ns = BEGIN_NS.get();
        let away = stolen_time()
            .into_iter()
            .filter(|gap| gap.end > begin_ns && gap.end - gap.start >= TO_BLAME_NS);
        let (count, sum_ns) = away.fold((0, 0), |(count, sum), gap| {
            (count + 1, sum + gap.end - gap.start)
        });
        if count == 0 || attempt == ATTEMPTS {
            panic::resume_unwind(panic);
        }
        attempt += 1;
        println!(
            "measured again: processors were away {count} times for {} ms",
            sum_ns / 1_000_000
        );
    }
}

/// Runs a test in the lab, by [`in_real_time`]; where there can be no lab, it says why and passes.
/// The attribute [`test`](crate::test) puts it around the body of a test.
pub fn in_lab(case: impl Fn()) {
    if !is_skipped() {
        in_real_time(case);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn attempts(gap_ns: u64) -> u32 {
        let count = Cell::new(0);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            in_real_time(|| {
                count.set(count.get() + 1);
                let end_ns = now_ns() + 1_000_000_000;
                let gap = end_ns - gap_ns..end_ns;
                GAPS.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(gap);
                panic!("as the test wants it");
            });
        }));
        assert!(outcome.is_err());
        GAPS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|gap| gap.end < now_ns());
        count.get()
    }

    #[test]
    fn what_cases_share_is_made_again_with_them_and_once() {
        static SHARED: Shared<u32> = Shared::new();
        let count = Cell::new(0);
        let make = || {
            count.set(count.get() + 1);
            count.get()
        };
        for attempt in [0, 1, 1, 0, 2] {
            ATTEMPT.set(attempt);
            BEGIN_NS.set(now_ns());
            let begin_ns = BEGIN_NS.get();
            assert_eq!(*SHARED.get(make), attempt as u32 + 1);
            assert!(BEGIN_NS.get() <= begin_ns);
        }
        ATTEMPT.set(0);
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn a_case_that_fails_is_measured_again_only_where_time_was_stolen() {
        assert_eq!(attempts(TO_BLAME_NS), ATTEMPTS);
        let calm = in_real_time(|| 7);
        assert_eq!(calm, 7);
    }
}
