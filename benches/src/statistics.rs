//! What can be said of a few values.

/// The middle one of the values, or the mean of the two in the middle; not a number if there are
/// none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.len(), values.len() / 2) {
        (0, _) => f64::NAN,
        (length, middle) if length % 2 == 1 => values[middle],
        (_, middle) => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Between which of the values the median of all that could have been measured lies, with a
/// probability of at least 95 %: by the order of the values alone, whatever their distribution.
/// With fewer than six values, the least and the greatest of them, which is less sure.
pub fn interval(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (Some(&least), Some(&greatest)) = (values.first(), values.last()) else {
        return (f64::NAN, f64::NAN);
    };
    let count = values.len();
    // How likely it is that so many values, of which each lies below the median as often as not,
    // are below it.
    let (mut likelihood, mut below) = (0.5_f64.powf(count as f64), 0.0);
    let mut bounds = (least, greatest);
    for position in 0..count / 2 {
        below += likelihood;
        if below > 0.025 {
            break;
        }
        bounds = (values[position], values[count - 1 - position]);
        likelihood *= (count - position) as f64 / (position + 1) as f64;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert!(median([]).is_nan());
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    /// Of nine values the second and the eighth, of twenty the sixth and the fifteenth, as tables
    /// of the sign test have it.
    #[test]
    fn the_median_is_within_its_interval() {
        let values = |count: u32| (1..=count).rev().map(f64::from);
        assert_eq!(interval(values(9)), (2.0, 8.0));
        assert_eq!(interval(values(20)), (6.0, 15.0));
        assert_eq!(interval(values(3)), (1.0, 3.0));
        assert!(interval([]).0.is_nan());
    }
}
