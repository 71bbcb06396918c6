//! Points in time as IPFIX writes them (RFC 7011, sections 6.1.7 to 6.1.10).

const NS_PER_SECOND: u64 = 1_000_000_000;
/// From 1900, where the time of NTP begins, to 1970.
const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;

/// `dateTimeNanoseconds`: seconds since 1900 modulo 2^32, and a fraction of 2^-32 s, rounded up so
/// that reading gives the same nanosecond.
pub(crate) const fn date_time_nanoseconds(unix_ns: u64) -> u64 {
    let seconds = (unix_ns / NS_PER_SECOND + NTP_TO_UNIX_SECONDS) & 0xffff_ffff;
    let fraction = ((unix_ns % NS_PER_SECOND) << 32).div_ceil(NS_PER_SECOND);
    seconds << 32 | fraction
}

/// `dateTimeMicroseconds`: the same with the last 11 bits zero, which leaves 477 ns; rounded up so
/// that reading gives the same microsecond.
pub(crate) const fn date_time_microseconds(unix_ns: u64) -> u64 {
    const LAST_BITS: u64 = (1 << 11) - 1;
    // A microsecond is 4295 steps: rounding up by fewer than 2048 stays within it.
    (date_time_nanoseconds(unix_ns / 1_000 * 1_000) + LAST_BITS) & !LAST_BITS
}

/// Nanoseconds since the Unix epoch out of an NTP timestamp. The era is the one that reaches from
/// 1968 to 2104 (RFC 4330, section 3).
pub(super) const fn unix_ns(ntp: u64) -> Option<u64> {
    let (mut seconds, fraction) = (ntp >> 32, ntp & 0xffff_ffff);
    if seconds < 1 << 31 {
        seconds += 1 << 32;
    }
    match seconds.checked_sub(NTP_TO_UNIX_SECONDS) {
        Some(unix) => Some(unix * NS_PER_SECOND + ((fraction * NS_PER_SECOND) >> 32)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 7 February 2104, when the second era ends for us.
    const END_NS: u64 = 4_233_462_144 * NS_PER_SECOND;

    proptest! {
        #[test]
        fn times_come_back(time_ns in 0..END_NS) {
            prop_assert_eq!(unix_ns(date_time_nanoseconds(time_ns)), Some(time_ns));
            let microseconds = unix_ns(date_time_microseconds(time_ns)).unwrap() / 1_000;
            prop_assert_eq!(microseconds, time_ns / 1_000);
        }
    }

    #[test]
    fn the_era_turns_in_2036() {
        let before_ns = 2_085_978_495 * NS_PER_SECOND + 999_999_999;
        assert_eq!(date_time_nanoseconds(before_ns) >> 32, 0xffff_ffff);
        assert_eq!(date_time_nanoseconds(before_ns + 1), 0);
        assert_eq!(unix_ns(0), Some(before_ns + 1));
        // Between 1968 and 1970.
        assert_eq!(unix_ns(1 << 63), None);
        assert_eq!(date_time_nanoseconds(0) >> 32, NTP_TO_UNIX_SECONDS);
    }
}
