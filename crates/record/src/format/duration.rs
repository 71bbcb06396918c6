//! Durations for people.

use std::fmt;

use super::line::{Line, four_digits};

/// Shows a duration with the unit that suits it, three digits below a millisecond and four from
/// there on: `950 ns`, `12.3 us`, `20.11 ms`, `1.234 s`. From 1000 s on there are whole seconds.
///
/// ```
/// use fathom_record::format::display_duration;
///
/// assert_eq!(display_duration(20_113_000).to_string(), "20.11 ms");
/// assert_eq!(format!("{:>9}", display_duration(950)), "   950 ns");
/// ```
pub fn display_duration(ns: u64) -> impl fmt::Display {
    Shown(ns)
}

struct Shown(u64);

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line::default();
        put_duration(&mut line, self.0);
        formatter.pad(&String::from_utf8_lossy(line.bytes()))
    }
}

/// How durations below a limit are shown, in eight bytes at most: `20.11 ms`.
struct Scale {
    /// The first duration that rounds to more digits than this scale has.
    limit_ns: u64,
    /// What the last digit shown stands for.
    digit_ns: u64,
    /// The leading zeros of four digits, and those before the point, in bits.
    zeros_bits: u32,
    whole_bits: u32,
    /// Point and unit where they stand, zeros elsewhere.
    point_and_unit: u64,
    length: usize,
}

const fn scale(limit_ns: u64, digit_ns: u64, digits: usize, decimals: usize, unit: &str) -> Scale {
    let mut shown = [0; 8];
    let whole = digits - decimals;
    let mut length = digits;
    if decimals > 0 {
        shown[whole] = b'.';
        length += 1;
    }
    let mut index = 0;
    while index < unit.len() {
        shown[length] = unit.as_bytes()[index];
        length += 1;
        index += 1;
    }
    Scale {
        limit_ns,
        digit_ns,
        zeros_bits: 8 * (4 - digits as u32),
        whole_bits: 8 * whole as u32,
        point_and_unit: u64::from_le_bytes(shown),
        length,
    }
}

const SCALES: [Scale; 9] = [
    scale(9_995, 10, 3, 2, " us"),
    scale(99_950, 100, 3, 1, " us"),
    scale(999_500, 1_000, 3, 0, " us"),
    scale(9_999_500, 1_000, 4, 3, " ms"),
    scale(99_995_000, 10_000, 4, 2, " ms"),
    scale(999_950_000, 100_000, 4, 1, " ms"),
    scale(9_999_500_000, 1_000_000, 4, 3, " s"),
    scale(99_995_000_000, 10_000_000, 4, 2, " s"),
    scale(999_950_000_000, 100_000_000, 4, 1, " s"),
];
const MICROSECOND_NS: u64 = 1_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Appends what [`display_duration`] shows.
pub(super) fn put_duration(line: &mut Line, ns: u64) {
    if ns < MICROSECOND_NS {
        line.unsigned(ns);
        line.slice(b" ns");
        return;
    }
    let Some(scale) = SCALES.iter().find(|scale| ns < scale.limit_ns) else {
        line.unsigned(ns.saturating_add(SECOND_NS / 2) / SECOND_NS);
        line.slice(b" s");
        return;
    };
    let number = (ns + scale.digit_ns / 2) / scale.digit_ns;
    // The first digit stands in the lowest byte: what follows the point moves up by one.
    let digits = u64::from(four_digits(number as u32)) >> scale.zeros_bits;
    let whole = digits & ((1 << scale.whole_bits) - 1);
    let decimals = (digits - whole) << 8;
    *line.block(scale.length) = (whole | decimals | scale.point_and_unit).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_follow_the_unit() {
        let cases = [
            (0, "0 ns"),
            (950, "950 ns"),
            (999, "999 ns"),
            (1_000, "1.00 us"),
            (9_994, "9.99 us"),
            (9_995, "10.0 us"),
            (12_300, "12.3 us"),
            (999_499, "999 us"),
            (999_500, "1.000 ms"),
            (9_999_499, "9.999 ms"),
            (9_999_500, "10.00 ms"),
            (20_113_000, "20.11 ms"),
            (999_949_999, "999.9 ms"),
            (999_950_000, "1.000 s"),
            (1_234_000_000, "1.234 s"),
            (100_000_000_000, "100.0 s"),
            (999_950_000_000, "1000 s"),
            (u64::MAX, "18446744073 s"),
        ];
        for (ns, shown) in cases {
            assert_eq!(display_duration(ns).to_string(), shown, "{ns}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_near(ns in any::<u64>().prop_map(|bits| bits >> (bits % 64))) {
            let shown = display_duration(ns).to_string();
            let (number, unit) = shown.split_once(' ').unwrap();
            let unit_ns = match unit { "ns" => 1.0, "us" => 1e3, "ms" => 1e6, _ => 1e9 };
            let error = (number.parse::<f64>().unwrap() * unit_ns - ns as f64).abs();
            prop_assert!(error <= ns as f64 * 0.00501, "{} for {}", shown, ns);
        }
    }
}
