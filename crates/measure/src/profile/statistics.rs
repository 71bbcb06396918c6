//! Mean and variance from sums.

/// Mean and variance of some values, absent where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spread {
    pub(super) count: u32,
    pub(super) mean: Option<f64>,
    pub(super) variance: Option<f64>,
}

/// The spread of `count` values, from their sum and the sum of their squares; the variance is that
/// of the values, not an estimate for more of them.
pub(super) fn spread(count: u32, sum: u64, squares: u64) -> Spread {
    if count == 0 {
        return Spread::default();
    }
    let number = f64::from(count);
    let mean = sum as f64 / number;
    // In whole numbers: the difference of two squares of microseconds would lose its digits.
    let difference = u128::from(count) * u128::from(squares);
    let difference = difference.saturating_sub(u128::from(sum) * u128::from(sum));
    Spread {
        count,
        mean: Some(mean),
        variance: Some(difference as f64 / (number * number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(spread(0, 0, 0), Spread::default());
    }

    proptest! {
        #[test]
        fn equals_the_definition(values in prop::collection::vec(0_u32..1_000_000, 1..50)) {
            let sum = values.iter().map(|value| u64::from(*value)).sum();
            let squares = values.iter().map(|value| u64::from(*value).pow(2)).sum();
            let found = spread(values.len() as u32, sum, squares);
            let number = values.len() as f64;
            let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / number;
            let variance =
                values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / number;
            prop_assert!((found.mean.unwrap() - mean).abs() <= 1e-9 * mean.max(1.0));
            prop_assert!((found.variance.unwrap() - variance).abs() <= 1e-6 * variance.max(1.0));
        }
    }
}
