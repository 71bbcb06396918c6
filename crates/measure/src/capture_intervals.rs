//! Intervals of a capture. They end at multiples of their length, so that all measurements of a
//! capture, and of captures of one time, have the same.

use std::time::Duration;

use fathom_record::{Nanoseconds, Time};

/// An interval that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureInterval {
    /// When it ends: a multiple of the length since 1970.
    pub end: Time,
    /// How much of it the capture has: of the first and the last there may be less.
    pub length: Nanoseconds,
}

/// Tells by the times of packets which interval is over.
#[derive(Debug)]
pub struct CaptureIntervals {
    length_ns: u64,
    /// `None` before the first packet.
    present: Option<Present>,
}

#[derive(Debug, Clone, Copy)]
struct Present {
    end_ns: u64,
    /// Since when there are packets.
    begin_ns: u64,
}

impl CaptureIntervals {
    /// Of this length, which is at least a nanosecond.
    pub fn new(length: Duration) -> Self {
        Self {
            length_ns: Nanoseconds::from(length).0.max(1),
            present: None,
        }
    }

    /// The capture begins at this time, unless it has begun.
    pub fn begin(&mut self, time: Time) {
        if self.present.is_none() {
            self.advance(time);
        }
    }

    /// When the present interval is over; 1970 before the first.
    pub fn end(&self) -> Time {
        Time(self.present.map_or(0, |present| present.end_ns))
    }

    /// A packet of this time has come. Returns the interval that it ends; those behind that one, if
    /// any, were empty. Times may go back a little: they are in the interval that has begun.
    pub fn advance(&mut self, now: Time) -> Option<CaptureInterval> {
        let end_ns = (now.0 - now.0 % self.length_ns).saturating_add(self.length_ns);
        let Some(present) = &mut self.present else {
            let begin_ns = now.0;
            self.present = Some(Present { end_ns, begin_ns });
            return None;
        };
        if now.0 < present.end_ns {
            return None;
        }
        let over = CaptureInterval {
            end: Time(present.end_ns),
            length: Nanoseconds(present.end_ns - present.begin_ns),
        };
        *present = Present {
            end_ns,
            begin_ns: end_ns.saturating_sub(self.length_ns),
        };
        Some(over)
    }

    /// The interval that is under way at the end of all; `None` if nothing came.
    pub fn finish(&mut self, now: Time) -> Option<CaptureInterval> {
        let present = self.present.take()?;
        Some(CaptureInterval {
            end: Time(present.end_ns),
            length: Nanoseconds(now.0.saturating_sub(present.begin_ns)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(end: u64, length: u64) -> CaptureInterval {
        CaptureInterval {
            end: Time(end),
            length: Nanoseconds(length),
        }
    }

    #[test]
    fn intervals_end_at_multiples_of_their_length() {
        let mut intervals = CaptureIntervals::new(Duration::from_nanos(10));
        assert_eq!(intervals.advance(Time(107)), None);
        assert_eq!(intervals.advance(Time(109)), None);
        assert_eq!(intervals.advance(Time(110)), Some(interval(110, 3)));
        assert_eq!(intervals.advance(Time(108)), None);
        assert_eq!(intervals.advance(Time(145)), Some(interval(120, 10)));
        assert_eq!(intervals.advance(Time(149)), None);
        assert_eq!(intervals.finish(Time(149)), Some(interval(150, 9)));
        assert_eq!(intervals.finish(Time(149)), None);
    }

    #[test]
    fn times_that_are_no_times_end_nothing_twice() {
        let mut intervals = CaptureIntervals::new(Duration::ZERO);
        assert_eq!(intervals.advance(Time(u64::MAX)), None);
        assert_eq!(intervals.finish(Time(0)), Some(interval(u64::MAX, 0)));
    }
}
