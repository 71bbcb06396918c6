//! Points in time as digits.

use super::OffsetAt;
use super::line::Line;

/// The calendar and the clock, with the second last shown kept ready: records come in bursts of the
/// same one.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    second: u64,
    /// `2026-11-20T12:00:00.`
    shown: [u8; 20],
    offset_at: OffsetAt,
    /// The offset of this second from UTC, in seconds.
    offset: i32,
    /// `+02:00`
    shown_offset: [u8; 6],
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            second: 0,
            shown: *b"1970-01-01T00:00:00.",
            offset_at: |_| 0,
            offset: 0,
            shown_offset: *b"+00:00",
        }
    }
}

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

impl Clock {
    /// The clock of a time zone; without one, of UTC.
    pub(super) fn of_zone(offset_at: OffsetAt) -> Self {
        // The first second has an offset, too.
        let mut clock = Self {
            offset_at,
            ..Self::default()
        };
        clock.change(0);
        clock
    }

    /// Appends date and time as RFC 3339 with nanoseconds: `2026-11-20T12:00:00.123456789Z`.
    pub(super) fn put_date_and_time(&mut self, line: &mut Line, ns: u64) {
        self.show(ns / NANOSECONDS_PER_SECOND);
        *line.block(20) = self.shown;
        let within = ns % NANOSECONDS_PER_SECOND;
        line.byte(b'0' + (within / 100_000_000) as u8);
        line.padded(within % 100_000_000, 8);
        line.byte(b'Z');
    }

    /// Appends the time of day with microseconds, cut off, and its offset from UTC:
    /// `14:00:00.123456+02:00`.
    pub(super) fn put_time_of_day(&mut self, line: &mut Line, ns: u64) {
        self.show(ns / NANOSECONDS_PER_SECOND);
        let block: &mut [u8; 9] = line.block(9);
        block.copy_from_slice(&self.shown[11..]);
        line.padded(ns % NANOSECONDS_PER_SECOND / 1_000, 6);
        *line.block(6) = self.shown_offset;
    }

    #[inline]
    fn show(&mut self, second: u64) {
        if self.second != second {
            self.change(second);
        }
    }

    fn change(&mut self, second: u64) {
        self.second = second;
        let offset = (self.offset_at)(second);
        if self.offset != offset {
            self.offset = offset;
            self.change_offset();
        }
        let second = second.saturating_add_signed(offset.into());
        let (day, of_day) = (second / SECONDS_PER_DAY, second % SECONDS_PER_DAY);
        let (year, month, day) = date(day);
        let date = [(0, year / 100), (2, year % 100), (5, month), (8, day)];
        let time = [
            (11, of_day / 3_600),
            (14, of_day / 60 % 60),
            (17, of_day % 60),
        ];
        for (at, number) in date.into_iter().chain(time) {
            self.shown[at] = b'0' + (number / 10) as u8;
            self.shown[at + 1] = b'0' + (number % 10) as u8;
        }
    }

    fn change_offset(&mut self) {
        let minutes = self.offset.unsigned_abs() / 60;
        self.shown_offset[0] = if self.offset < 0 { b'-' } else { b'+' };
        for (at, number) in [(1, minutes / 60), (4, minutes % 60)] {
            self.shown_offset[at] = b'0' + (number / 10 % 10) as u8;
            self.shown_offset[at + 1] = b'0' + (number % 10) as u8;
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01, by Howard Hinnant's `civil_from_days` for
/// days that are not negative.
const fn date(day: u64) -> (u64, u64, u64) {
    // Years that begin with March have their leap day last, in eras of 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(put: impl FnOnce(&mut Line)) -> String {
        let mut line = Line::default();
        put(&mut line);
        String::from_utf8_lossy(line.bytes()).into_owned()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399_999_999_999, "2000-02-28T23:59:59.999999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (1_795_176_000_123_456_789, "2026-11-20T12:00:00.123456789Z"),
            (4_107_542_400_000_000_001, "2100-03-01T00:00:00.000000001Z"),
            (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
        ];
        let mut clock = Clock::default();
        for (ns, shown) in cases {
            assert_eq!(line_of(|line| clock.put_date_and_time(line, ns)), shown);
            assert_eq!(
                line_of(|line| clock.put_time_of_day(line, ns)),
                shown[11..26].to_owned() + "+00:00"
            );
        }
    }

    #[test]
    fn a_place_has_its_own_time() {
        const DAY: u64 = 86_400;
        // An hour more from the second day on; a quarter of an hour west of UTC before.
        let mut clock = Clock::of_zone(|second| if second < DAY { -900 } else { 20_700 });
        let cases = [
            (DAY - 1, "23:44:59.000001-00:15"),
            (DAY, "05:45:00.000001+05:45"),
            (DAY - 1, "23:44:59.000001-00:15"),
        ];
        for (second, shown) in cases {
            let ns = second * NANOSECONDS_PER_SECOND + 1_999;
            assert_eq!(line_of(|line| clock.put_time_of_day(line, ns)), shown);
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut previous = date(0);
        for day in 1..213_504 {
            let (year, month, of_month) = date(day);
            let follows = (year, month, of_month) == (previous.0, previous.1, previous.2 + 1)
                || (year, month, of_month) == (previous.0, previous.1 + 1, 1) && previous.2 >= 28
                || (month, of_month) == (1, 1) && previous == (year - 1, 12, 31);
            assert!(follows, "{previous:?} before {:?}", (year, month, of_month));
            previous = (year, month, of_month);
        }
    }
}
