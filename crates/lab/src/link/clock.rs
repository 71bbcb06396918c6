//! The clocks of a link: decisions are made on the monotonic one, the truth is told on the one of
//! capture files.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// What to add to monotonic nanoseconds to get `CLOCK_REALTIME`; a link takes it once, as only
/// somebody who sets the clock changes it.
pub(crate) fn realtime_offset_ns() -> u64 {
    let attempt = || {
        let before_ns = monotonic_ns();
        let realtime_ns = read(ClockId::CLOCK_REALTIME);
        let after_ns = monotonic_ns();
        let middle_ns = u64::midpoint(before_ns, after_ns);
        (after_ns - before_ns, realtime_ns.wrapping_sub(middle_ns))
    };
    // The quickest of several attempts was not interrupted between the clocks.
    let best = (0..32).map(|_| attempt()).min();
    best.map_or(0, |(_, offset_ns)| offset_ns)
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux; the call fails for unknown ones only.
    clock_gettime(clock).map_or(0, |time| {
        time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()
    })
}
