//! Units of time: from a pcapng interface's ticks to nanoseconds since the epoch.

/// How an interface counts time: `if_tsresol` and `if_tsoffset` of the pcapng format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    unit: Unit,
    offset_seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A tick is so many nanoseconds.
    Nanoseconds(u64),
    /// So many ticks make a nanosecond.
    TicksPerNanosecond(u64),
    /// A tick is 2^-n seconds.
    BinaryFraction(u8),
}

impl Default for Resolution {
    /// Microseconds since the epoch: what an interface without the options has.
    fn default() -> Self {
        Self {
            unit: Unit::Nanoseconds(1_000),
            offset_seconds: 0,
        }
    }
}

impl Resolution {
    /// `tsresol` is a negative power of ten, or of two with the highest bit set.
    pub(crate) fn set_unit(&mut self, tsresol: u8) {
        let exponent = u32::from(tsresol & 0x7f);
        self.unit = if tsresol & 0x80 != 0 {
            Unit::BinaryFraction(tsresol & 0x7f)
        } else if exponent <= 9 {
            Unit::Nanoseconds(10_u64.pow(9 - exponent))
        } else {
            // Beyond 10^-28 s a 64-bit count does not reach a nanosecond: the largest divisor will
            // do.
            Unit::TicksPerNanosecond(10_u64.checked_pow(exponent - 9).unwrap_or(u64::MAX))
        };
    }

    pub(crate) fn set_offset(&mut self, seconds: i64) {
        self.offset_seconds = seconds;
    }

    /// Nanoseconds since the epoch; a time outside of 1970 to 2554 is moved to the nearer end.
    #[inline]
    pub(crate) fn time_ns(&self, ticks: u64) -> u64 {
        let time_ns = match self.unit {
            Unit::Nanoseconds(nanoseconds) => ticks.saturating_mul(nanoseconds),
            Unit::TicksPerNanosecond(divisor) => ticks / divisor,
            Unit::BinaryFraction(exponent) => {
                let scaled = (u128::from(ticks) * 1_000_000_000) >> exponent;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        };
        if self.offset_seconds == 0 {
            return time_ns;
        }
        let shifted = i128::from(time_ns) + i128::from(self.offset_seconds) * 1_000_000_000;
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Resolution;
    use proptest::prelude::*;

    fn resolution(tsresol: u8, offset_seconds: i64) -> Resolution {
        let mut resolution = Resolution::default();
        resolution.set_unit(tsresol);
        resolution.set_offset(offset_seconds);
        resolution
    }

    #[test]
    fn known_units() {
        assert_eq!(Resolution::default().time_ns(1_500_000), 1_500_000_000);
        assert_eq!(resolution(0, 0).time_ns(7), 7_000_000_000);
        assert_eq!(resolution(3, 0).time_ns(7), 7_000_000);
        assert_eq!(resolution(9, 0).time_ns(7), 7);
        assert_eq!(resolution(12, 0).time_ns(7_999), 7);
        assert_eq!(resolution(0x8a, 0).time_ns(1_536), 1_500_000_000);
        assert_eq!(resolution(0x80, 0).time_ns(3), 3_000_000_000);
        assert_eq!(resolution(6, 10).time_ns(1), 10_000_001_000);
        assert_eq!(resolution(6, -10).time_ns(11_000_000), 1_000_000_000);
    }

    #[test]
    fn clamps_what_does_not_fit() {
        assert_eq!(resolution(0, 0).time_ns(u64::MAX), u64::MAX);
        assert_eq!(resolution(0x80, 0).time_ns(u64::MAX), u64::MAX);
        assert_eq!(resolution(127, 0).time_ns(u64::MAX - 1), 0);
        assert_eq!(resolution(0xff, 0).time_ns(u64::MAX), 0);
        assert_eq!(resolution(6, i64::MIN).time_ns(5), 0);
        assert_eq!(resolution(6, i64::MAX).time_ns(5), u64::MAX);
    }

    proptest! {
        #[test]
        fn never_panics_and_is_monotonic(
            tsresol: u8, offset_seconds: i64, first: u64, second: u64,
        ) {
            let resolution = resolution(tsresol, offset_seconds);
            let (low, high) = (first.min(second), first.max(second));
            prop_assert!(resolution.time_ns(low) <= resolution.time_ns(high));
        }
    }
}
