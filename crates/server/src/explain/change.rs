//! When a series rose.

/// A value and when it was.
pub(super) type Point = (i64, f64);

/// A rise: what was before, what is since.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rise {
    /// The first moment of the higher values.
    pub(super) since_ns: i64,
    pub(super) before: f64,
    pub(super) now: f64,
}

/// Values on either side of a change, at least.
pub(super) const LEAST_SIDE: usize = 3;
/// A longer series is looked at by so many medians of values that follow each other: each split is
/// tried, and costs as much as there are values.
const MOST_POINTS: usize = 240;

/// Where a series rose by more than `least`, in its own unit, and by more than `ratio` of what was
/// before; both medians. The sides must differ in their quartiles, too: what comes and goes is no
/// change.
pub(super) fn rise(points: &[Point], least: f64, ratio: f64) -> Option<Rise> {
    let points = shortened(points);
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    let sides = LEAST_SIDE..(values.len() + 1).saturating_sub(LEAST_SIDE);
    // The split that leaves least to be explained: by ranks of logarithms, so that one outlier does
    // not decide.
    let logs: Vec<f64> = values.iter().map(|value| value.max(1.0).ln()).collect();
    let best =
        sides.min_by(|one, other| left_over(&logs, *one).total_cmp(&left_over(&logs, *other)))?;
    let (left, right) = values.split_at(best);
    let (before, now) = (median(left)?, median(right)?);
    let is_apart = quantile(right, 0.25)? > quantile(left, 0.75)?;
    let is_large = now - before > least && now > before * (1.0 + ratio);
    (is_apart && is_large).then_some(Rise {
        since_ns: points[best].0,
        before,
        now,
    })
}

/// In the order of times, and not too many.
fn shortened(points: &[Point]) -> Vec<Point> {
    let mut points = points.to_vec();
    points.sort_by_key(|point| point.0);
    let together = points.len().div_ceil(MOST_POINTS).max(1);
    quantiles(points.chunks(together), 0.5)
}

/// For each group its first time, and the value that a part `part` of it does not exceed.
pub(super) fn quantiles<'a>(groups: impl Iterator<Item = &'a [Point]>, part: f64) -> Vec<Point> {
    let of_group = |group: &[Point]| {
        let values: Vec<f64> = group.iter().map(|point| point.1).collect();
        Some((group.first()?.0, quantile(&values, part)?))
    };
    groups.filter_map(of_group).collect()
}

/// The sum of absolute distances from the medians of both sides.
fn left_over(values: &[f64], split: usize) -> f64 {
    let (left, right) = values.split_at(split);
    let distance = |side: &[f64]| {
        let middle = median(side).unwrap_or_default();
        side.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    distance(left) + distance(right)
}

/// The median; none of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value that a part `part` of all does not exceed; none of nothing.
pub(super) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = (last as f64 * part).round() as usize;
    sorted.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Vec<Point> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn a_step_of_a_long_series_is_found() {
        let values: Vec<f64> = (0..50_000)
            .map(|time| if time < 30_000 { 10.0 } else { 30.0 })
            .collect();
        let rise = rise(&series(&values), 2.0, 0.2).unwrap();
        assert!((29_790..=30_210).contains(&rise.since_ns), "{rise:?}");
        assert_eq!((rise.before, rise.now), (10.0, 30.0));
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let points = series(&[10.0, 11.0, 10.0, 10.5, 31.0, 30.0, 32.0, 30.5]);
        let rise = rise(&points, 2.0, 0.2).unwrap();
        assert_eq!(rise.since_ns, 4);
        assert!((10.0..=11.0).contains(&rise.before) && (30.0..=32.0).contains(&rise.now));
    }

    #[test]
    fn noise_an_outlier_and_a_fall_are_no_rise() {
        assert_eq!(
            rise(&series(&[10.0, 13.0, 9.0, 12.0, 10.0, 13.0, 9.0]), 2.0, 0.2),
            None
        );
        assert_eq!(
            rise(
                &series(&[10.0, 10.0, 10.0, 90.0, 10.0, 10.0, 10.0]),
                2.0,
                0.2
            ),
            None
        );
        assert_eq!(
            rise(
                &series(&[30.0, 30.0, 30.0, 30.0, 10.0, 10.0, 10.0]),
                2.0,
                0.2
            ),
            None
        );
        assert_eq!(rise(&series(&[10.0, 30.0]), 2.0, 0.2), None);
    }
}
