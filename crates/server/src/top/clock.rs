//! Times and ages for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::lists::Range;

/// A time in RFC 3339 as nanoseconds since the Unix epoch.
pub(super) fn parsed(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok()
}

/// As in `14:03:20`, local time.
pub(super) fn time_of_day(ns: i64, zone: &TimeZone) -> String {
    shown(ns, zone, "%H:%M:%S")
}

/// A range: the day, if it is not today's, begin and end.
pub(super) fn range(range: Range, now_ns: i64, zone: &TimeZone) -> String {
    let day = |ns| shown(ns, zone, "%Y-%m-%d");
    let (from, to) = (day(range.from_ns), day(range.to_ns));
    let begin = if to == day(now_ns) && from == to {
        String::new()
    } else {
        format!("{from} ")
    };
    let between = if from == to {
        String::new()
    } else {
        format!("{to} ")
    };
    format!(
        "{begin}{} \u{2013} {between}{}",
        time_of_day(range.from_ns, zone),
        time_of_day(range.to_ns, zone)
    )
}

fn shown(ns: i64, zone: &TimeZone, format: &str) -> String {
    let time = Timestamp::from_nanosecond(ns.into());
    time.map_or_else(
        |_| "?".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime(format).to_string(),
    )
}

/// How long ago something was, in its greatest unit: `3 min`.
pub(super) fn age(ns: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400, "days"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = ns.max(0) / 1_000_000_000;
    let unit = UNITS.iter().find(|(length, _)| seconds >= 2 * length);
    let (length, name) = unit.unwrap_or(&(1, "s"));
    format!("{} {name}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_range_of_another_day_tells_the_day() {
        let morning = parsed("2026-11-25T08:00:00Z").unwrap();
        let of = |from: i64, to: i64| {
            let (from_ns, to_ns) = (morning + from * SECOND, morning + to * SECOND);
            range(Range { from_ns, to_ns }, morning, &TimeZone::UTC)
        };
        assert_eq!(of(-60, 0), "07:59:00 – 08:00:00");
        assert_eq!(of(-86_400, -86_340), "2026-11-24 08:00:00 – 08:01:00");
        assert_eq!(of(-86_400, 0), "2026-11-24 08:00:00 – 2026-11-25 08:00:00");
    }

    #[test]
    fn ages_have_one_unit() {
        let ages = [0, 119, 120, 7_199, 7_200, 200_000].map(|seconds| age(seconds * SECOND));
        assert_eq!(ages, ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}
