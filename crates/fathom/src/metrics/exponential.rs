//! Histograms with exponential buckets, as native histograms of Prometheus and OTLP have them.

use fathom_record::Histogram;

/// Each bucket ends at 2^(1/16) = 1.044 times where it begins. With twice as many, a bucket (2.2 %)
/// would be narrower than the widest of fathom's own (3.1 %), and say what is not known.
pub(super) const SCHEMA: i32 = 4;
const BUCKETS_PER_OCTAVE: f64 = (1 << SCHEMA) as f64;

/// Durations in seconds. A duration counts in the bucket of the middle of its own in fathom's
/// histogram, and so in that in which it is, or in the one beside.
pub(super) struct Exponential {
    /// What is shorter is in no bucket.
    pub(super) zero_threshold: f64,
    pub(super) zero_count: u64,
    pub(super) sum: f64,
    pub(super) count: u64,
    /// That of bucket `i` ends at 2^(i/16); those that are not empty, in ascending order.
    pub(super) buckets: Vec<(i32, u64)>,
}

impl Exponential {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let mut exponential = Self {
            zero_threshold: (Histogram::bucket_bounds(0).end() + 1) as f64 / 1e9,
            zero_count: 0,
            sum: sum(histogram),
            count: histogram.count(),
            buckets: Vec::new(),
        };
        for (bucket, count) in histogram.buckets() {
            if bucket == 0 {
                exponential.zero_count = count;
                continue;
            }
            let index = index_of(bucket);
            match exponential.buckets.last_mut() {
                Some((last, counted)) if *last == index => *counted += count,
                _ => exponential.buckets.push((index, count)),
            }
        }
        exponential
    }
}

/// In seconds.
pub(super) fn sum(histogram: &Histogram) -> f64 {
    histogram.sum() as f64 / 1e9
}

fn index_of(bucket: u16) -> i32 {
    let bounds = Histogram::bucket_bounds(bucket);
    let last = usize::from(bucket) + 1 >= Histogram::BUCKET_COUNT;
    // The last one has no end.
    let end = if last { *bounds.start() } else { *bounds.end() };
    let middle = (bounds.start() / 2 + end / 2) as f64 / 1e9;
    (middle.log2() * BUCKETS_PER_OCTAVE).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where bucket `index` ends, in ns.
    fn end(index: i32) -> f64 {
        (f64::from(index) / BUCKETS_PER_OCTAVE).exp2() * 1e9
    }

    #[test]
    fn a_duration_is_in_its_bucket_or_in_the_one_beside() {
        let mut own = 1_000_u64;
        while own < 100_000_000_000 {
            let ns = own as f64;
            let mut histogram = Histogram::new();
            histogram.record(own);
            let exponential = Exponential::of(&histogram);
            let [(index, 1)] = exponential.buckets[..] else {
                panic!("{:?}", exponential.buckets);
            };
            assert!(
                end(index - 2) < ns && ns <= end(index + 1),
                "{ns} in {index}"
            );
            // What is said of it is wrong by less than 6 %, wherever in the bucket it is taken.
            let error = (end(index) / ns).max(ns / end(index - 1));
            assert!(error < 1.062, "{ns}: {error}");
            own += own / 1_400 + 1;
        }
    }

    #[test]
    fn nothing_is_lost_at_the_ends() {
        let mut histogram = Histogram::new();
        for ns in [0, 1, 527, 528, 1_000_000, u64::MAX] {
            histogram.record(ns);
        }
        let exponential = Exponential::of(&histogram);
        let in_buckets: u64 = exponential.buckets.iter().map(|&(_, count)| count).sum();
        assert_eq!(exponential.zero_count + in_buckets, exponential.count);
        assert!((exponential.zero_threshold - 528e-9).abs() < 1e-15);
        assert_eq!(exponential.zero_count, 3);
        assert!(
            exponential
                .buckets
                .is_sorted_by(|one, other| one.0 < other.0)
        );
    }
}
