//! By which clock segments are old.

use std::time::{Duration, Instant};

use fathom_record::{Nanoseconds, Time};

/// A clock that is ahead by less was corrected, or the writer had nothing to do for a while.
const SLACK: Duration = Duration::from_secs(600);
/// One that is ahead by more is believed when it has gone on like that for so long.
const DOUBTED: Duration = Duration::from_secs(3600);

/// The wall clock, but for a jump forward: what is removed because a clock was wrong does not come
/// back when the clock does. A clock that jumps back only makes segments younger.
#[derive(Debug)]
pub(super) struct AgeClock {
    /// What is believed.
    believed: Option<Moment>,
    /// Since when the wall clock says something else.
    doubted: Option<Moment>,
}

/// What a clock said, and when.
#[derive(Debug, Clone, Copy)]
struct Moment {
    time: Time,
    at: Instant,
}

impl Moment {
    /// What the clock says then, if nobody sets it.
    fn later(self, at: Instant) -> Time {
        let passed = at.saturating_duration_since(self.at);
        Time(self.time.0.saturating_add(Nanoseconds::from(passed).0))
    }

    fn is_near(self, now: Moment) -> bool {
        let ahead = self.later(now.at).0.abs_diff(now.time.0);
        ahead <= Nanoseconds::from(SLACK).0
    }
}

impl AgeClock {
    /// Begins when the last records were kept, if there are any.
    pub(super) fn new(last_kept: Option<Time>, at: Instant) -> Self {
        Self {
            believed: last_kept.map(|time| Moment { time, at }),
            doubted: None,
        }
    }

    /// The time by which segments are as old as they are, where the wall clock says `time`.
    pub(super) fn read(&mut self, time: Time, at: Instant) -> Time {
        let now = Moment { time, at };
        let Some(believed) = self.believed else {
            self.believed = Some(now);
            return time;
        };
        let is_believed = time < believed.later(at) || believed.is_near(now);
        let since = self.doubted.filter(|doubted| doubted.is_near(now));
        let is_settled = since.is_some_and(|since| at - since.at >= DOUBTED);
        if is_believed || is_settled {
            self.believed = Some(now);
            self.doubted = None;
            return time;
        }
        self.doubted = since.or(Some(now));
        believed.later(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const NOON: Time = Time(20_000 * DAY + DAY / 2);

    /// Reads once a minute for some hours a clock that is ahead by so much.
    struct Reader {
        clock: AgeClock,
        begin: Instant,
        passed: u64,
    }

    impl Reader {
        fn new(last_kept: Option<Time>) -> Self {
            let begin = Instant::now();
            Self {
                clock: AgeClock::new(last_kept, begin),
                begin,
                passed: 0,
            }
        }

        /// By how much the last reading was ahead.
        fn read(&mut self, minutes: u64, ahead: i64) -> i64 {
            let mut read = 0;
            for _ in 0..minutes {
                self.passed += MINUTE;
                let at = self.begin + Duration::from_nanos(self.passed);
                let right = NOON.0 + self.passed;
                let wall = Time(right.saturating_add_signed(ahead));
                read = self.clock.read(wall, at).0.cast_signed() - right.cast_signed();
            }
            read
        }
    }

    #[test]
    fn a_jump_forward_is_believed_after_an_hour() {
        let mut reader = Reader::new(None);
        assert_eq!(reader.read(5, 0), 0);
        for ahead in [DAY, HOUR, 400 * DAY] {
            let ahead = ahead.cast_signed();
            assert_eq!(reader.read(59, ahead), 0, "{ahead}");
            // It was wrong, and is right again.
            assert_eq!(reader.read(1, 0), 0, "{ahead}");
        }
        assert_eq!(reader.read(60, DAY.cast_signed()), 0);
        assert_eq!(reader.read(1, DAY.cast_signed()), DAY.cast_signed());
    }

    #[test]
    fn each_jump_forward_begins_a_new_hour() {
        let mut reader = Reader::new(None);
        reader.read(1, 0);
        reader.read(59, HOUR.cast_signed());
        assert_eq!(reader.read(59, DAY.cast_signed()), 0);
    }

    #[test]
    fn a_jump_back_is_believed_at_once() {
        let mut reader = Reader::new(None);
        reader.read(1, 0);
        let back = -HOUR.cast_signed();
        assert_eq!(reader.read(1, back), back);
        assert_eq!(reader.read(600, back), back);
    }

    #[test]
    fn slow_corrections_are_believed() {
        let mut reader = Reader::new(None);
        for seconds in 0..1000 {
            let ahead = seconds * 1_000_000_000;
            assert_eq!(reader.read(1, ahead), ahead);
        }
    }

    /// The host was off, or its clock is wrong since it was on: nobody can say.
    #[test]
    fn a_writer_that_begins_long_after_the_last_record_waits_an_hour() {
        let mut reader = Reader::new(Some(Time(NOON.0 - 40 * DAY)));
        assert!(reader.read(60, 0) < -(39 * DAY).cast_signed());
        assert_eq!(reader.read(1, 0), 0);
        let mut reader = Reader::new(Some(Time(NOON.0 - MINUTE)));
        assert_eq!(reader.read(1, 0), 0);
        // Its records are of a clock that was ahead.
        let mut reader = Reader::new(Some(Time(NOON.0 + 40 * DAY)));
        assert_eq!(reader.read(1, 0), 0);
    }
}
