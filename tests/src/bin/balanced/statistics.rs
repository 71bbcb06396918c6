//! What can be said of few pairs.

/// A relative change: its geometric mean over pairs, and where it lies with a probability of 95 %
/// (Student).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) mean: f64,
    low: f64,
    high: f64,
    pairs: usize,
}

/// Student's t for 95 %, by degrees of freedom from 1 on.
const STUDENT: [f64; 20] = [
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09,
];

impl Interval {
    /// Of `ones` over `others`, pair by pair.
    pub(crate) fn of_ratios(ones: &[f64], others: &[f64]) -> Self {
        let logs = ones
            .iter()
            .zip(others)
            .map(|(one, other)| (one / other).ln());
        let logs = logs.collect::<Vec<_>>();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let width = logs.len().checked_sub(2).map_or(f64::INFINITY, |freedom| {
            STUDENT.get(freedom).copied().unwrap_or(2.05) * (variance / count).sqrt()
        });
        Self {
            mean: mean.exp() - 1.0,
            low: (mean - width).exp() - 1.0,
            high: (mean + width).exp() - 1.0,
            pairs: logs.len(),
        }
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|part| part * 100.0);
        write!(
            formatter,
            "{mean:+.1} % (95 %: {low:+.1} to {high:+.1}, {} pairs)",
            self.pairs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_what_it_was_made_of() {
        let interval = Interval::of_ratios(&[0.5, 0.6, 0.55, 0.5], &[1.0, 1.0, 1.0, 1.0]);
        assert!((-0.48..-0.44).contains(&interval.mean), "{interval:?}");
        assert!(interval.low < interval.mean && interval.mean < interval.high);
        assert!(interval.high < 0.0, "{interval:?}");
        assert!(Interval::of_ratios(&[0.5], &[1.0]).high.is_infinite());
    }
}
