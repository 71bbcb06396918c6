//! The records of an interval that is over leave some at a time. Of very many flows there are more than can be written between two looks at the ring of
//! samples, and whoever reads them has until the next interval ends.

use std::time::{Duration, Instant};

use fathom_record::Record;

use crate::output::Output;

/// So many leave at once: of most measurements, all.
const AT_ONCE: usize = 1024;
/// So many leave at a time, at most: 10 ms.
const AT_A_TIME: usize = 4096;

/// Records that are on their way out.
pub(crate) struct Leaving<I> {
    records: I,
    count: usize,
    begin: Instant,
    within: Duration,
}

impl<I: ExactSizeIterator<Item: Record>> Leaving<I> {
    /// They are to have left after half an interval of this length.
    pub(crate) fn new(records: I, begin: Instant, interval: Duration) -> Self {
        Self {
            count: records.len(),
            records,
            begin,
            within: interval / 2,
        }
    }

    /// How many are to leave now.
    fn due(&self, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.begin).as_nanos();
        let in_time = self.count as u128 * passed / self.within.as_nanos().max(1);
        let in_time = usize::try_from(in_time).unwrap_or(usize::MAX);
        let gone = self.count - self.records.len();
        let wanted = in_time.max(AT_ONCE).saturating_sub(gone);
        wanted.min(AT_A_TIME).min(self.records.len())
    }

    /// Puts those out whose time it is, unless what was put before still waits to be written. `true`: all have left.
    pub(crate) fn put_due(&mut self, now: Instant, output: &mut Output) -> bool {
        if !output.is_behind() {
            let due = self.due(now);
            for record in self.records.by_ref().take(due) {
                output.put(&record);
            }
        }
        self.records.len() == 0
    }

    /// Puts out all that are left, and waits for whoever reads them.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn put_all(self, output: &mut Output) -> anyhow::Result<()> {
        for record in self.records {
            output.put(&record);
            if output.is_full() {
                output.flush()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Count, Time};

    use super::*;
    use crate::arguments::Place;
    use crate::output::{Backlog, OutputFormat};
    use crate::signals::Signals;

    fn leaving(count: usize, begin: Instant) -> Leaving<impl ExactSizeIterator<Item = Count>> {
        let record = |number: usize| Count::new(Time(0), "rtt", "samples", number as u64);
        Leaving::new((0..count).map(record), begin, Duration::from_secs(5))
    }

    fn output() -> Output {
        let place = Place {
            output: Some("/dev/null".into()),
            host: Some("gateway".to_owned()),
        };
        let (format, signals) = (OutputFormat::Json, Signals::default());
        Output::open(&place, format, Count::SCHEMA, Backlog::Long, &signals).unwrap()
    }

    #[test]
    fn few_leave_at_once() {
        let now = Instant::now();
        assert!(leaving(1000, now).put_due(now, &mut output()));
        assert!(leaving(0, now).put_due(now, &mut output()));
    }

    /// Both directions of 65,536 flows; the ring is looked at in between, 20 times a second.
    #[test]
    fn many_leave_within_half_an_interval_and_few_between_two_looks() {
        let (begin, mut output) = (Instant::now(), output());
        let mut leaving = leaving(131_072, begin);
        let (mut before, mut looks) = (131_072, 0);
        loop {
            let now = begin + Duration::from_millis(50 * looks);
            let is_gone = leaving.put_due(now, &mut output);
            let now_left = leaving.records.len();
            assert!(before - now_left <= AT_A_TIME);
            before = now_left;
            output.finish().unwrap();
            if is_gone {
                break;
            }
            looks += 1;
        }
        assert_eq!(looks, 50);
    }

    #[test]
    fn the_rest_leaves_at_the_end() {
        let (begin, mut output) = (Instant::now(), output());
        let mut leaving = leaving(5000, begin);
        assert!(!leaving.put_due(begin, &mut output));
        assert_eq!(leaving.records.len(), 5000 - AT_ONCE);
        leaving.put_all(&mut output).unwrap();
    }
}
