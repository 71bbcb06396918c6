//! A delay that changes with time.

use std::time::Duration;

/// Delay as a function of the time since it was put in force: linear between points, constant after
/// the last.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use fathom_lab::Schedule;
/// let bufferbloat = Schedule::ramp(Duration::from_millis(1), Duration::from_secs(3), Duration::from_secs(10));
/// assert_eq!(bufferbloat.delay_at(Duration::from_secs(20)), Duration::from_secs(3));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// (time since start, delay), in order of time.
    points: Vec<(Duration, Duration)>,
}

impl Schedule {
    /// The same `delay` always.
    pub fn constant(delay: Duration) -> Self {
        Self::through(vec![(Duration::ZERO, delay)])
    }

    /// From one delay to another, linearly within `period`, then constant.
    pub fn ramp(from: Duration, to: Duration, period: Duration) -> Self {
        Self::through(vec![(Duration::ZERO, from), (period, to)])
    }

    /// Through the given points (time since start, delay), sorted by time here; before the first
    /// its delay holds.
    pub fn through(mut points: Vec<(Duration, Duration)>) -> Self {
        points.sort_by_key(|(time, _)| *time);
        Self { points }
    }

    /// The delay `elapsed` after the start; zero without any point.
    pub fn delay_at(&self, elapsed: Duration) -> Duration {
        let next = self.points.partition_point(|(time, _)| *time <= elapsed);
        let after = self.points.get(next);
        let before = next.checked_sub(1).and_then(|index| self.points.get(index));
        match (before, after) {
            (Some((start, from)), Some((end, to))) => {
                let since = |time: Duration| time.saturating_sub(*start).as_secs_f64();
                let progress = since(elapsed) / since(*end);
                let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
                Duration::from_secs_f64(from + (to - from) * progress)
            }
            (Some((_, delay)), None) | (None, Some((_, delay))) => *delay,
            (None, None) => Duration::ZERO,
        }
    }
}

impl From<Duration> for Schedule {
    fn from(delay: Duration) -> Self {
        Self::constant(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ramp_is_linear() {
        let second = Duration::from_secs(1);
        let ramp = Schedule::ramp(Duration::ZERO, second, 10 * second);
        assert_eq!(ramp.delay_at(5 * second), second / 2);
        assert_eq!(ramp.delay_at(50 * second), second);
        assert_eq!(Schedule::default().delay_at(second), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn delay_stays_between_extremes(
            points in prop::collection::vec((0_u32..10_000, 0_u32..5_000), 1..6), at in 0_u32..20_000,
        ) {
            let milliseconds = |number: u32| Duration::from_millis(number.into());
            let schedule = Schedule::through(
                points.iter().map(|(time, delay)| (milliseconds(*time), milliseconds(*delay))).collect(),
            );
            let delay = schedule.delay_at(milliseconds(at));
            let slack = Duration::from_nanos(10);
            prop_assert!(delay <= milliseconds(points.iter().map(|point| point.1).max().unwrap()) + slack);
            prop_assert!(delay + slack >= milliseconds(points.iter().map(|point| point.1).min().unwrap()));
        }
    }
}
