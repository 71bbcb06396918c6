//! How durations are distributed, in little memory.

mod buckets;

use std::ops::RangeInclusive;

use buckets::{BUCKET_COUNT, Buckets, bounds_of, bucket_of, middle_of};

/// A log-linear histogram of durations in nanoseconds: 28 octaves of 32 buckets.
///
/// From 1 us to 100 s a quantile is at most 1.6 % away from the sample that truly has that rank.
/// Shorter and longer durations count in the first and the last bucket. Minimum, maximum, sum and
/// count are exact, and no quantile lies outside of minimum and maximum. An empty one takes 64
/// bytes; a few samples take 6 bytes a distinct bucket more, however many fall into it; many
/// distinct buckets, or more than 2^32 - 1 samples in one, take 7168 bytes.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// The low half and the high half: a few weeks of busy links outgrow 64 bits, and what is
    /// aligned to 128 takes more memory.
    sum_ns: [u64; 2],
    count: u64,
    min_ns: u64,
    max_ns: u64,
    buckets: Buckets,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// How many buckets there are.
    pub const BUCKET_COUNT: usize = BUCKET_COUNT;

    /// One without samples, which allocates nothing.
    pub const fn new() -> Self {
        Self {
            sum_ns: [0; 2],
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            buckets: Buckets::new(),
        }
    }

    /// Adds a sample of this many nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Adds `count` equal samples of this many nanoseconds each.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.add_to_sum(u128::from(ns) * u128::from(count));
        self.count += count;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.buckets.add(bucket_of(ns), count);
    }

    /// One of whose samples it is only known in which buckets they are: where each of these begins
    /// ([`Histogram::bucket_bounds`]), and how many it has. Samples count as the middle of theirs,
    /// and so do minimum and maximum.
    pub fn of_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut histogram = Self::new();
        histogram.add_buckets(buckets);
        histogram
    }

    /// Adds samples of which that is known, as [`Histogram::of_buckets`] takes them.
    pub fn add_buckets(&mut self, buckets: impl IntoIterator<Item = (u64, u64)>) {
        for (begin_ns, count) in buckets {
            self.record_many(middle_of(bucket_of(begin_ns).into()), count);
        }
    }

    /// Adds all samples of another, as if each had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        self.add_to_sum(other.sum());
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in other.buckets() {
            self.buckets.add(bucket, count);
        }
    }

    /// Forgets all samples but keeps the memory, for the next interval of the same flow.
    pub fn clear(&mut self) {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.clear();
        *self = Self {
            buckets,
            ..Self::new()
        };
    }

    /// How many samples there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are no samples.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum of all samples in nanoseconds, exact.
    pub const fn sum(&self) -> u128 {
        self.sum_ns[0] as u128 | (self.sum_ns[1] as u128) << 64
    }

    fn add_to_sum(&mut self, ns: u128) {
        let sum = self.sum() + ns;
        self.sum_ns = [sum as u64, (sum >> 64) as u64];
    }

    /// The smallest sample in nanoseconds, exact; `None` without samples.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The largest sample in nanoseconds, exact; `None` without samples.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The mean in nanoseconds, rounded down; `None` without samples.
    pub fn mean(&self) -> Option<u64> {
        // A mean is at most the maximum, so it fits.
        self.sum()
            .checked_div(u128::from(self.count))
            .map(|mean| mean as u64)
    }

    /// The sample in nanoseconds that a share `quantile` (0.5 for the median) of all samples does
    /// not exceed, by nearest rank, to 1.6 % from 1 us to 100 s. Shares outside of 0 to 1 are taken
    /// as 0 or 1. `None` without samples.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = rank_of(quantile, self.count);
        if rank == 1 {
            return self.min();
        }
        if rank == self.count {
            return self.max();
        }
        let mut passed = 0;
        let (bucket, _) = self.buckets().find(|&(_, count)| {
            passed += count;
            passed >= rank
        })?;
        Some(middle_of(usize::from(bucket)).clamp(self.min_ns, self.max_ns))
    }

    /// The buckets that are not empty, in ascending order: index and number of samples.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.buckets.iter()
    }

    /// The nanoseconds that count in a bucket. The first one reaches down to 0, and the last one up
    /// to the largest number; any index past the last means the last.
    pub fn bucket_bounds(bucket: u16) -> RangeInclusive<u64> {
        bounds_of(bucket)
    }

    /// Bytes it has allocated, besides its own size of 64.
    pub fn heap_bytes(&self) -> usize {
        self.buckets.heap_bytes()
    }
}

/// Equal when the samples cannot be told apart, however they are stored.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.sum_ns, self.count, self.min_ns, self.max_ns)
            == (other.sum_ns, other.count, other.min_ns, other.max_ns)
            && self.buckets().eq(other.buckets())
    }
}

impl Eq for Histogram {}

/// The rank, from 1, that a share of so many samples reaches.
fn rank_of(quantile: f64, count: u64) -> u64 {
    // 0.07 * 100 is a little more than 7 in floating point: the nudge keeps it from becoming rank
    // 8.
    let nudged = quantile * count as f64 * (1.0 - 4.0 * f64::EPSILON);
    #[expect(
        clippy::cast_sign_loss,
        reason = "what is negative, or no number, becomes 0 and counts as rank 1"
    )]
    let rank = nudged.ceil() as u64;
    rank.clamp(1, count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MICROSECOND: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    fn of(samples: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &sample in samples {
            histogram.record(sample);
        }
        histogram
    }

    fn is_close(found: u64, truth: u64) -> bool {
        found.abs_diff(truth) as f64 <= truth as f64 * 0.016
    }

    /// Spread evenly over the octaves, as latencies are, not over the numbers.
    fn duration() -> impl Strategy<Value = u64> {
        (MICROSECOND.ilog2()..=36, any::<u64>()).prop_map(|(octave, bits)| {
            ((1 << octave) | (bits & ((1 << octave) - 1))).clamp(MICROSECOND, 100 * SECOND)
        })
    }

    #[test]
    fn ranks_are_the_nearest() {
        let ranks = [
            (0.0, 1),
            (0.01, 1),
            (0.011, 2),
            (0.07, 7),
            (0.5, 50),
            (0.95, 95),
            (0.99, 99),
            (1.0, 100),
        ];
        for (quantile, rank) in ranks {
            assert_eq!(rank_of(quantile, 100), rank, "{quantile}");
        }
        for (quantile, rank) in [(-1.0, 1), (f64::NAN, 1), (2.0, 100), (f64::INFINITY, 100)] {
            assert_eq!(rank_of(quantile, 100), rank, "{quantile}");
        }
    }

    #[test]
    fn few_samples_take_little() {
        assert_eq!(size_of::<Histogram>(), 64);
        assert_eq!(Histogram::new().heap_bytes(), 0);
        let mut histogram = Histogram::new();
        for sample in 1..=50_u32 {
            histogram.record(MICROSECOND << (sample % 25) | u64::from(sample));
            let distinct = histogram.buckets().count();
            assert!(
                histogram.heap_bytes() <= 6 * (distinct + distinct / 4 + 4),
                "{} for {distinct}",
                histogram.heap_bytes()
            );
        }
    }

    #[test]
    fn what_outgrows_the_list_is_kept() {
        let mut histogram = Histogram::new();
        histogram.record_many(20_000_000, u64::from(u32::MAX));
        let listed = histogram.clone();
        histogram.record(20_000_000);
        assert_eq!(
            histogram.buckets().map(|(_, count)| count).sum::<u64>(),
            1 << 32
        );
        assert_eq!(histogram.mean(), Some(20_000_000));
        assert_ne!(histogram, listed);
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
        assert_eq!(histogram.quantile(0.5), None);
    }

    #[test]
    fn what_is_out_of_range_stays_within_minimum_and_maximum() {
        let histogram = of(&[3, 4, 5, 1000 * SECOND, 2000 * SECOND, 3000 * SECOND]);
        assert_eq!(
            (histogram.min(), histogram.max()),
            (Some(3), Some(3000 * SECOND))
        );
        assert_eq!(
            (histogram.quantile(0.0), histogram.quantile(1.0)),
            (Some(3), Some(3000 * SECOND))
        );
        let between = histogram.quantile(0.5).unwrap();
        assert!((3..=3000 * SECOND).contains(&between));
    }

    proptest! {
        #[test]
        fn quantiles_are_near_the_sorted_truth(mut samples in proptest::collection::vec(duration(), 1..800), quantile in 0.0..=1.0_f64) {
            let histogram = of(&samples);
            samples.sort_unstable();
            let rank = rank_of(quantile, samples.len() as u64) as usize;
            let (found, truth) = (histogram.quantile(quantile).unwrap(), samples[rank - 1]);
            prop_assert!(is_close(found, truth), "{} for {}", found, truth);
            prop_assert_eq!((histogram.min(), histogram.max()), (samples.first().copied(), samples.last().copied()));
            let sum: u128 = samples.iter().copied().map(u128::from).sum();
            prop_assert_eq!((histogram.sum(), histogram.count()), (sum, samples.len() as u64));
        }

        #[test]
        fn hdrhistogram_agrees(samples in proptest::collection::vec(duration(), 1..400), quantile in 0.0..=1.0_f64) {
            let histogram = of(&samples);
            let mut peer = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 200 * SECOND, 4).unwrap();
            for &sample in &samples {
                peer.record(sample).unwrap();
            }
            // The peer may err by 1/10000 itself.
            let (found, truth) = (histogram.quantile(quantile).unwrap(), peer.value_at_quantile(quantile));
            prop_assert!(found.abs_diff(truth) as f64 <= truth as f64 * 0.0161, "{} for {}", found, truth);
        }

        #[test]
        fn merging_is_recording_all(
            one in proptest::collection::vec(any::<u64>().prop_map(|bits| bits >> (bits % 64)), 0..900),
            other in proptest::collection::vec(duration(), 0..900),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            prop_assert_eq!(merged, of(&[one, other].concat()));
        }
    }
}
