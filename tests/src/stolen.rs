//! Time that the hypervisor took from this machine.

use std::sync::LazyLock;

use crate::Match;

static AT_FIRST: LazyLock<u64> = LazyLock::new(stolen_ticks);

/// Ticks of all processors together in which something wanted to run and could not, as another machine had the processor.
fn stolen_ticks() -> u64 {
    let statistics = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = statistics.split_whitespace().nth(8);
    ticks
        .and_then(|ticks| ticks.parse().ok())
        .unwrap_or_default()
}

/// Begins to watch; [`check_close`] does too, but sees nothing of what was before.
pub fn watch_stolen_time() {
    LazyLock::force(&AT_FIRST);
}

/// Checks that single samples are not far off. Between the hook and the place that the truth was taken at a packet can wait for a processor that was
/// taken away, and then both are right: some may be off where that happened, and two in any case, as shorter times than a tick are not told.
///
/// # Panics
/// When more are.
pub fn check_close<'a>(matches: impl IntoIterator<Item = &'a Match>) {
    let matches: Vec<&Match> = matches.into_iter().collect();
    let stolen = stolen_ticks().saturating_sub(*AT_FIRST);
    let allowed = if stolen == 0 {
        2
    } else {
        2 + matches.len() / 10
    };
    let mut far: Vec<&Match> = matches
        .iter()
        .copied()
        .filter(|one| !one.is_close())
        .collect();
    far.sort_by_key(|one| std::cmp::Reverse(one.error_ns().unsigned_abs()));
    if let Some(worst) = far.first() {
        println!(
            "{} of {} samples are off by more than 1 ms and 2 %, the worst by {} us; {stolen} ticks were stolen",
            far.len(),
            matches.len(),
            worst.error_ns() / 1_000
        );
    }
    assert!(far.len() <= allowed, "{far:#?}");
}
