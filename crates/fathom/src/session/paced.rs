//! The records of an interval that is over are put out some at a time. Very many flows have more
//! records than can be written between two looks at the ring of samples, and the reader has time
//! until the next interval ends.

use std::time::{Duration, Instant};

use fathom_measure::Interval;

use super::view::View;

/// So many leave at once: of most measurements, all.
pub(super) const AT_ONCE: usize = 1024;
/// So many leave at a time, at most: 10 ms.
const AT_A_TIME: usize = 4096;

/// Records of an interval, put out at a pace that the reader can follow.
pub(super) struct PacedRecords {
    records: Box<dyn Interval>,
    count: usize,
    begin: Instant,
    within: Duration,
}

impl PacedRecords {
    /// They are to have left after half an interval of this length.
    pub(super) fn new(records: Box<dyn Interval>, begin: Instant, interval: Duration) -> Self {
        Self {
            count: records.left(),
            records,
            begin,
            within: interval / 2,
        }
    }

    /// How many there were.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many are to leave now.
    fn due(&self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.begin).as_nanos();
        let in_time = self.count as u128 * passed / self.within.as_nanos().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(usize::MAX);
        let left = self.records.left();
        let wanted = in_time.max(AT_ONCE).saturating_sub(self.count - left);
        wanted.min(AT_A_TIME).min(left)
    }

    /// Puts those out whose time it is, unless what was put before still waits to be written.
    /// `true`: all have left.
    pub(super) fn put_due(&mut self, now: Instant, view: &mut View) -> bool {
        if !view.is_behind() {
            let due = self.due(now);
            self.records.leave(due, &mut |record| view.take(record));
        }
        self.records.left() == 0
    }

    /// Puts out all that are left, and waits for the reader.
    pub(super) fn put_all(&mut self, view: &mut View) {
        let left = self.records.left();
        self.records.leave(left, &mut |record| view.take(record));
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::format::Format;
    use fathom_record::{Count, Time};

    use super::*;
    use crate::arguments::OutputTarget;
    use crate::output::{Backlog, Output};
    use crate::signals::Signals;

    fn paced(count: usize, begin: Instant) -> PacedRecords {
        let record = |number: usize| Count::new(Time(0), "rtt", "samples", number as u64);
        let records = Box::new((0..count).map(record));
        PacedRecords::new(records, begin, Duration::from_secs(5))
    }

    fn view() -> View {
        let target = OutputTarget {
            output: Some("/dev/null".into()),
            host: Some("gateway".to_owned()),
        };
        let (format, signals) = (Format::Json, Signals::default());
        let output = Output::open(&target, format, Count::SCHEMA, Backlog::Long, &signals);
        View::Lines(Box::new(output.unwrap()))
    }

    #[test]
    fn few_leave_at_once() {
        let now = Instant::now();
        assert!(paced(1000, now).put_due(now, &mut view()));
        assert!(paced(0, now).put_due(now, &mut view()));
    }

    /// Both directions of 65,536 flows; the ring is looked at in between, 20 times a second.
    #[test]
    fn many_leave_within_half_an_interval_and_few_between_two_looks() {
        let (begin, mut view) = (Instant::now(), view());
        let mut paced = paced(131_072, begin);
        let (mut before, mut looks) = (131_072, 0);
        loop {
            let now = begin + Duration::from_millis(50 * looks);
            let is_gone = paced.put_due(now, &mut view);
            let now_left = paced.records.left();
            assert!(before - now_left <= AT_A_TIME);
            before = now_left;
            view.finish().unwrap();
            if is_gone {
                break;
            }
            looks += 1;
        }
        assert_eq!(looks, 50);
    }

    #[test]
    fn the_rest_leaves_at_the_end() {
        let (begin, mut view) = (Instant::now(), view());
        let mut paced = paced(5000, begin);
        assert!(!paced.put_due(begin, &mut view));
        assert_eq!(paced.records.left(), 5000 - AT_ONCE);
        paced.put_all(&mut view);
        assert_eq!(paced.records.left(), 0);
    }
}
