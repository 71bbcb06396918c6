//! The figures, for people, and the rows of the summary table.

use fathom_lab::summary::Row;

use super::complete::Completeness;
use super::memory::Moments;
use super::overhead::{Cost, Overhead};
use super::profiling::lost;

/// The most that the targets allow. Of short connections 3 % was aimed at; the least that could be
/// in fathom's place takes 5.3 % (docs/performance.md), so this says what must not get worse.
pub(super) const MOST_SHORT_SHARE: f64 = 0.25;
/// The same of those whose profiles go into a store: 8 % was aimed at, the least takes 17 %.
pub(super) const MOST_STORED_SHARE: f64 = 0.35;
const MOST_BULK_SHARE: f64 = 0.01;
const MOST_STATE_BYTES: i64 = 600_000;
/// Connections a second that must be opened for the target to be tried at all.
const LEAST_RATE: f64 = 10_000.0;

/// The table of slots in the kernel.
const SLOTS: &str = "profile_slots";

const MICROSECOND: f64 = 1e3;
const KILOBYTE: f64 = 1e3;
const MEGABYTE: f64 = 1e6;

/// Prints what short connections take; `about` says which, and what takes it. The least that could
/// has no target.
pub(super) fn short(overhead: &Overhead, about: &str, most_share: Option<f64>) -> Row {
    println!("short connections, {about}; us of processor time a connection");
    print(overhead, MICROSECOND, "connections");
    Row {
        what: format!("`profile`, processor time of a short connection: {about}"),
        target: most_share.map_or_else(
            || "none: it is the limit".to_owned(),
            |most| format!("at most {:.0} % more", 100.0 * most),
        ),
        measured: format!(
            "{}; accounted for {:.1} %: {:.2} us in programs, {:.2} us in the process, of {:.1} us without",
            shares(overhead),
            100.0 * overhead.accounted_share(),
            overhead.programs_ns() / MICROSECOND,
            overhead.with(Cost::fathom_ns) / MICROSECOND,
            overhead.without(Cost::total_ns) / MICROSECOND
        ),
        is_reached: most_share.map(|most| overhead.is_within(most)),
    }
}

/// Prints what bulk flows take.
pub(super) fn bulk(overhead: &Overhead, flows: u32) -> Row {
    println!("{flows} bulk flows over loopback; us of processor time a megabyte");
    // A nanosecond a byte is as many milliseconds a megabyte.
    print(overhead, MICROSECOND / MEGABYTE, "bytes");
    let accounted = overhead.accounted_share();
    Row {
        what: format!("`profile`, processor time of a byte, {flows} bulk flows"),
        target: format!("at most {:.0} % more", 100.0 * MOST_BULK_SHARE),
        measured: format!(
            "{}; accounted for {:.2} %, programs and process",
            shares(overhead),
            100.0 * accounted
        ),
        is_reached: Some(overhead.is_within(MOST_BULK_SHARE)),
    }
}

fn shares(overhead: &Overhead) -> String {
    let (lower, upper) = overhead.interval();
    format!(
        "{:+.1} % (95 % interval {:+.1} to {:+.1}, {} pairs)",
        100.0 * overhead.share(),
        100.0 * lower,
        100.0 * upper,
        overhead.pairs.len()
    )
}

/// `unit_ns`: by what nanoseconds a unit are divided.
fn print(overhead: &Overhead, unit_ns: f64, units: &str) {
    println!("  {:>10} {:>10} {:>8}", "without", "with", "more");
    for pair in &overhead.pairs {
        let (without, with) = (pair.without.total_ns(), pair.with.total_ns());
        println!(
            "  {:>10.2} {:>10.2} {:>+7.2}%{}",
            without / unit_ns,
            with / unit_ns,
            100.0 * (with / without - 1.0),
            if pair.is_disturbed() {
                ", disturbed by another profiler"
            } else {
                ""
            }
        );
    }
    println!("  median: {}", shares(overhead));
    println!(
        "  {units} a second: {:.0} without, {:.0} with",
        overhead.without(Cost::rate),
        overhead.with(Cost::rate)
    );
    println!(
        "  the process of fathom {:.2}, its programs {:.2}: {:+.2} %; threads of the kernel {:.2} without, {:.2} with",
        overhead.with(Cost::fathom_ns) / unit_ns,
        overhead.programs_ns() / unit_ns,
        100.0 * overhead.accounted_share(),
        overhead.without(Cost::kernel_ns) / unit_ns,
        overhead.with(Cost::kernel_ns) / unit_ns,
    );
    print_programs(overhead, unit_ns, units);
    let lost = lost(&overhead.counts);
    if lost != 0 {
        println!("  fathom lost {lost} moments or connections");
    }
}

fn print_programs(overhead: &Overhead, unit_ns: f64, units: &str) {
    println!(
        "  {:<18} {:>10} {:>12} {:>16} {:>14}",
        "program",
        "ns a run",
        "runs",
        format!("of 1000 {units}"),
        "in all"
    );
    let counted = overhead.counted_units as f64;
    for program in overhead.programs.iter().filter(|program| program.runs > 0) {
        println!(
            "  {:<18} {:>10.0} {:>12} {:>16.6} {:>14.3}",
            program.name,
            overhead.run_ns(program),
            program.runs,
            program.runs as f64 / counted * 1e3,
            overhead.program_ns(program) / unit_ns,
        );
    }
    println!(
        "  without the {:.0} ns that the kernel takes to count a run",
        overhead.empty_run_ns
    );
}

/// Prints what fathom keeps.
pub(super) fn memory(moments: &Moments, ends: u32) -> Row {
    println!("{ends} ends of established connections; KB more than without any");
    println!(
        "  {:<18} {:>10} {:>12} {:>12}",
        "", "before", "established", "half stalled"
    );
    // Those are there from the start, and count.
    let slots = moments.before.kernel.iter();
    let slots = slots.filter(|object| object.name == SLOTS);
    let slots: i64 = slots.map(|object| object.bytes.cast_signed()).sum();
    let mut grown = (slots, slots);
    for (object, (name, established, stalled)) in moments.before.kernel.iter().zip(moments.growth())
    {
        println!(
            "  {name:<18} {:>10.1} {:>+12.1} {:>+12.1}",
            object.bytes as f64 / KILOBYTE,
            established as f64 / KILOBYTE,
            stalled as f64 / KILOBYTE
        );
        grown = (grown.0 + established, grown.1 + stalled);
    }
    let before = moments.before.resident_bytes;
    let resident = |bytes: u64| (bytes as f64 - before as f64) / KILOBYTE;
    println!(
        "  {:<18} {:>10.1} {:>+12.1} {:>+12.1}",
        "process, resident",
        before as f64 / KILOBYTE,
        resident(moments.established.resident_bytes),
        resident(moments.stalled.resident_bytes)
    );
    Row {
        what: format!("`profile`, state in the kernel of {ends} established connections"),
        target: format!("at most {} KB", MOST_STATE_BYTES / 1_000),
        measured: format!(
            "{:.0} KB, of which {:.0} KB for slots, {:.0} KB when half of them stalled; {:.0} KB and {:.0} KB more in the process",
            grown.0 as f64 / KILOBYTE,
            slots as f64 / KILOBYTE,
            grown.1 as f64 / KILOBYTE,
            resident(moments.established.resident_bytes),
            resident(moments.stalled.resident_bytes)
        ),
        is_reached: Some(grown.0.max(grown.1) <= MOST_STATE_BYTES),
    }
}

/// Prints how many connections have their last profile.
pub(super) fn complete(run: &Completeness) -> Row {
    let (missing, lost, closings) = (run.missing(), run.lost(), &run.closings);
    println!(
        "{} connections in {:.1} s: {:.0} a second, twice as many ends",
        run.connections,
        run.elapsed.as_secs_f64(),
        run.rate()
    );
    println!(
        "  last profiles of {} ends, {missing} missing; {} again, {} with their beginning lost; {} other profiles",
        closings.ends(),
        closings.repeated,
        closings.without_beginning,
        closings.others
    );
    for (ending, count) in &closings.wrong {
        println!("  {count} that end as they did not: {ending}");
    }
    for (name, count) in &run.counts {
        println!("  {name}: {count}");
    }
    Row {
        what: format!(
            "`profile`, short connections for {:.0} s as fast as they open",
            run.elapsed.as_secs_f64()
        ),
        target: format!(
            "at least {LEAST_RATE:.0} a second; each end has its last profile or is counted as lost"
        ),
        measured: format!(
            "{:.0} a second; {missing} of {} ends missing, {lost} moments counted as lost",
            run.rate(),
            2 * run.connections
        ),
        is_reached: Some(
            run.rate() >= LEAST_RATE
                && missing <= lost
                && closings.repeated == 0
                && closings.wrong.is_empty(),
        ),
    }
}
