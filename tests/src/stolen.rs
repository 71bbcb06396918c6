//! Samples that are off because the hypervisor took a processor away between the hook and the
//! truth.

use std::ops::Range;

use fathom_lab::stolen_time;

use crate::Match;

/// A packet is seen by the hook and by the truth within this time, unless its processor is taken
/// away in between.
const WINDOW_NS: u64 = 2_000_000;
/// What share of samples a stolen processor may excuse.
const EXCUSED_PERCENT: usize = 1;

/// Checks that no sample is far off. Between the hook and the place where the truth was taken a
/// packet can wait for a processor that was taken away, and then both are right: a sample is
/// excused that is off by no more than such a time, next to one of its packets. One sample in a
/// hundred may be.
///
/// # Panics
/// When others are off by more than 1 ms and 2 %, or more are excused.
pub fn check_close<'a>(matches: impl IntoIterator<Item = &'a Match>) {
    let gaps = stolen_time();
    let matches: Vec<&Match> = matches.into_iter().collect();
    let far = matches.iter().copied().filter(|one| !one.is_close());
    let (excused, wrong): (Vec<&Match>, Vec<&Match>) = far.partition(|one| is_excused(one, &gaps));
    println!(
        "{} of {} samples are off by more than 1 ms and 2 % without an excuse, {} with one; processors were away {} times for {} ms",
        wrong.len(),
        matches.len(),
        excused.len(),
        gaps.len(),
        gaps.iter().map(|gap| gap.end - gap.start).sum::<u64>() / 1_000_000
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        excused.len() * 100 <= matches.len() * EXCUSED_PERCENT,
        "too many to excuse: {excused:#?}"
    );
}

/// Whether a processor was away next to one of these times, in ns since 1970, for long enough to
/// explain an error of `error_ns`.
pub fn was_away(times_ns: [u64; 2], error_ns: u64) -> bool {
    explains(times_ns, error_ns, &stolen_time())
}

/// Was a processor away while the hook and the truth saw one of the two packets?
fn is_excused(one: &Match, gaps: &[Range<u64>]) -> bool {
    let error_ns = one.error_ns().unsigned_abs();
    explains([one.pair.packet_ns, one.pair.answer_ns], error_ns, gaps)
}

fn explains(times_ns: [u64; 2], error_ns: u64, gaps: &[Range<u64>]) -> bool {
    gaps.iter().any(|gap| {
        let is_long_enough = gap.end - gap.start + WINDOW_NS >= error_ns;
        let is_near = |time_ns: &u64| {
            gap.start <= time_ns + WINDOW_NS && time_ns.saturating_sub(WINDOW_NS) <= gap.end
        };
        is_long_enough && times_ns.iter().any(is_near)
    })
}

/// When any processor was away, in ns since 1970, in order and apart.
pub(crate) struct Away(Vec<Range<u64>>);

impl Away {
    /// Until now.
    pub(crate) fn until_now() -> Self {
        Self::of(stolen_time())
    }

    pub(crate) fn of(mut gaps: Vec<Range<u64>>) -> Self {
        gaps.sort_unstable_by_key(|gap| gap.start);
        let mut apart: Vec<Range<u64>> = Vec::new();
        for gap in gaps {
            match apart.last_mut() {
                Some(last) if gap.start <= last.end => last.end = last.end.max(gap.end),
                _ => apart.push(gap),
            }
        }
        Self(apart)
    }

    /// For how long from one time to another; 0 where the other is earlier.
    pub(crate) fn between_ns(&self, begin_ns: u64, end_ns: u64) -> u64 {
        let first = self.0.partition_point(|gap| gap.end <= begin_ns);
        let within = self.0[first..].iter();
        let within = within.take_while(|gap| gap.start < end_ns);
        within
            .map(|gap| gap.end.min(end_ns).saturating_sub(gap.start.max(begin_ns)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flow, Method, Pair};

    #[test]
    fn only_gaps_at_a_packet_excuse() {
        let flow = Flow {
            protocol: 6,
            source: [10, 0, 0, 1].into(),
            source_port: 1,
            destination: [10, 0, 0, 2].into(),
            destination_port: 2,
        };
        let pair = Pair {
            flow,
            method: Method::Timestamp,
            packet_ns: 100_000_000,
            answer_ns: 140_000_000,
            is_overtaken: false,
        };
        let late = Match {
            pair,
            rtt_ns: 43_000_000,
        };
        let is_excused_by = |range: Range<u64>| is_excused(&late, &[range]);
        assert!(is_excused_by(138_000_000..139_000_000));
        assert!(is_excused_by(96_000_000..98_500_000));
        assert!(!is_excused_by(110_000_000..130_000_000));
        assert!(!is_excused_by(144_000_000..190_000_000));
        // Too far away, and too short.
        assert!(!is_excused_by(94_000_000..97_500_000));
        assert!(!is_excused_by(139_200_000..140_100_000));
    }

    #[test]
    fn time_that_two_processors_were_away_counts_once() {
        let away = Away::of(vec![40..50, 10..20, 15..30, 60..70]);
        assert_eq!(away.between_ns(0, 100), 40);
        assert_eq!(away.between_ns(18, 45), 12 + 5);
        assert_eq!(away.between_ns(30, 40), 0);
        assert_eq!(away.between_ns(65, 62), 0);
    }
}
