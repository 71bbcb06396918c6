//! Time that the hypervisor took from this machine.

use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::Match;

/// Between the beats of a processor's pulse.
const BEAT: Duration = Duration::from_micros(250);
/// A beat that is so late was kept: by less than what makes a sample wrong, which is 1 ms, as a pause may begin right after a beat.
const LATE_NS: u64 = 500_000;

/// When a processor did not beat, in ns since 1970; of all processors that this process may use, since the first look.
static GAPS: LazyLock<Mutex<Vec<Range<u64>>>> = LazyLock::new(|| {
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    for processor in (0..CpuSet::count()).filter(|one| all.is_set(*one) == Ok(true)) {
        thread::spawn(move || beat(processor));
    }
    Mutex::default()
});

/// Notes when the processor does nothing, before all that may wait, so that only what the machine itself waited for keeps it.
fn beat(processor: usize) {
    let mut only = CpuSet::new();
    let is_there = only.set(processor);
    if let Err(error) = is_there.and_then(|()| sched_setaffinity(Pid::from_raw(0), &only)) {
        println!("processor {processor} is not watched: {error}");
        return;
    }
    let priority = libc::sched_param { sched_priority: 1 };
    #[expect(unsafe_code, reason = "there is no safe wrapper")]
    // SAFETY: the pointer is valid.
    unsafe {
        // Refused, it waits for others too, and excuses too much.
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
    }
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

/// Begins to watch; [`check_close`] does too, but sees nothing of what was before.
pub fn watch_stolen_time() {
    LazyLock::force(&GAPS);
}

/// Checks that no sample is far off. Between the hook and the place that the truth was taken at a packet can wait for a processor that was taken
/// away, and then both are right: what is off by as much as lies between such a time and one of its packets, or more, is excused.
///
/// # Panics
/// When others are off by more than 1 ms and 2 %.
pub fn check_close<'a>(matches: impl IntoIterator<Item = &'a Match>) {
    let gaps = GAPS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let matches: Vec<&Match> = matches.into_iter().collect();
    let far = matches.iter().copied().filter(|one| !one.is_close());
    let (excused, wrong): (Vec<&Match>, Vec<&Match>) = far.partition(|one| is_excused(one, &gaps));
    println!(
        "{} of {} samples are off by more than 1 ms and 2 % without an excuse, {} with one; processors were away {} times for {} ms",
        wrong.len(),
        matches.len(),
        excused.len(),
        gaps.len(),
        gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>() / 1_000_000
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether a processor was away at one of these times, in ns since 1970, or not farther from it than `error_ns`: reason enough for such an error.
pub fn was_away(times_ns: [u64; 2], error_ns: u64) -> bool {
    let gaps = GAPS.lock().unwrap_or_else(PoisonError::into_inner);
    is_near(times_ns, error_ns, &gaps)
}

/// Was a processor away while the hook and the truth saw one of the two packets?
fn is_excused(one: &Match, gaps: &[Range<u64>]) -> bool {
    let error_ns = one.error_ns().unsigned_abs();
    is_near([one.pair.packet_ns, one.pair.answer_ns], error_ns, gaps)
}

fn is_near(times_ns: [u64; 2], error_ns: u64, gaps: &[Range<u64>]) -> bool {
    times_ns.iter().any(|time_ns| {
        gaps.iter()
            .any(|gap| gap.start <= time_ns + error_ns && time_ns - error_ns <= gap.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flow, Method, Pair};

    #[test]
    fn only_gaps_at_a_packet_excuse() {
        let flow = Flow {
            protocol: 6,
            source: [10, 0, 0, 1].into(),
            source_port: 1,
            destination: [10, 0, 0, 2].into(),
            destination_port: 2,
        };
        let pair = Pair {
            flow,
            method: Method::Timestamp,
            packet_ns: 100_000_000,
            answer_ns: 140_000_000,
            is_overtaken: false,
        };
        let late = Match {
            pair,
            rtt_ns: 43_000_000,
        };
        let is_excused_by = |range: Range<u64>| is_excused(&late, &[range]);
        assert!(is_excused_by(138_000_000..139_000_000));
        assert!(is_excused_by(96_000_000..97_500_000));
        assert!(!is_excused_by(110_000_000..130_000_000));
        assert!(!is_excused_by(144_000_000..190_000_000));
    }
}
