//! How far samples are from their mean.

use crate::Histogram;

/// The sum of the squares of samples, in ns². With the histogram of the same samples, which has
/// their exact sum, it tells their standard deviation exactly: buckets alone would not tell one
/// that is smaller than they are wide.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Squares(u128);

impl Squares {
    /// Adds a sample of this many nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.0 = self.0.saturating_add(u128::from(ns).pow(2));
    }

    /// Adds samples whose standard deviation, in ns, is known.
    pub fn add(&mut self, samples: &Histogram, deviation_ns: u64) {
        let count = u128::from(samples.count());
        let of_mean = samples.sum().saturating_pow(2).checked_div(count);
        let around = u128::from(deviation_ns).pow(2).saturating_mul(count);
        let added = of_mean.unwrap_or_default().saturating_add(around);
        self.0 = self.0.saturating_add(added);
    }

    /// The standard deviation of all samples in ns, which are these; `None` without samples.
    pub fn deviation(self, samples: &Histogram) -> Option<u64> {
        let count = u128::from(samples.count());
        let around = self.0.saturating_mul(count);
        let around = around.saturating_sub(samples.sum().saturating_pow(2));
        let variance = around.checked_div(count * count)?;
        Some(variance.isqrt() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(samples: &[u64]) -> (Histogram, Squares) {
        let (mut histogram, mut squares) = (Histogram::new(), Squares::default());
        for sample in samples {
            histogram.record(*sample);
            squares.record(*sample);
        }
        (histogram, squares)
    }

    #[test]
    fn none_deviates_without_samples() {
        let (histogram, squares) = of(&[]);
        assert_eq!(squares.deviation(&histogram), None);
        let (histogram, squares) = of(&[70_000_000]);
        assert_eq!(squares.deviation(&histogram), Some(0));
    }

    /// The buckets at 70 ms are 2 ms wide.
    #[test]
    fn a_deviation_smaller_than_a_bucket_is_exact() {
        let (histogram, squares) = of(&[70_000_000, 70_000_020, 69_999_980, 70_000_000]);
        assert_eq!(squares.deviation(&histogram), Some(14));
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_textbook(
            first in prop::collection::vec(0..10_000_000_000_u64, 1..200),
            second in prop::collection::vec(0..10_000_000_000_u64, 1..200),
        ) {
            let all = [first.clone(), second.clone()].concat();
            let count = all.len() as f64;
            let mean = all.iter().map(|sample| *sample as f64).sum::<f64>() / count;
            let squares = all.iter().map(|sample| (*sample as f64 - mean).powi(2));
            let truth = (squares.sum::<f64>() / count).sqrt();
            let (mut histogram, mut squares) = of(&first);
            let (more, theirs) = of(&second);
            let deviation = theirs.deviation(&more).unwrap_or_default();
            histogram.merge(&more);
            squares.add(&more, deviation);
            let found = squares.deviation(&histogram).unwrap() as f64;
            prop_assert!((found - truth).abs() <= 2.0 + truth * 1e-6, "{found} {truth}");
        }
    }
}
