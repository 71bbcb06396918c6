//! Whether values of one group are greater than those of another: the test of Mann and Whitney, and
//! Cliff's delta. Neither asks how values are distributed, so one that is far out weighs no more
//! than any other.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{Difference, Magnitude, Z_95};

/// From which delta on an effect is small, medium and large (Romano et al. 2006).
const LIMITS: [f64; 3] = [0.147, 0.33, 0.474];

/// Compares two sorted samples, neither of them empty. The effect is Cliff's delta: of all pairs,
/// the part in which the first is greater, less the part in which the second is.
pub(in super::super) fn compare(first: &[f64], second: &[f64]) -> Difference {
    let over_second = dominances(first, second);
    let over_first = dominances(second, first);
    let delta = mean(&over_second);
    Difference {
        p: chance(delta, first, second),
        effect: delta,
        interval: interval(delta, &over_second, &over_first, ties(first, second)),
        magnitude: Magnitude::of(delta, LIMITS),
    }
}

/// Of each value, the part of `others` that are less, less the part that are greater.
fn dominances(values: &[f64], others: &[f64]) -> Vec<f64> {
    let count = others.len() as f64;
    let dominance = |value: &f64| {
        let less = others.partition_point(|other| other < value);
        let not_greater = others.partition_point(|other| other <= value);
        (less as f64 + not_greater as f64 - count) / count
    };
    values.iter().map(dominance).collect()
}

/// How many pairs are equal.
fn ties(first: &[f64], second: &[f64]) -> f64 {
    let equal = |value: &f64| {
        let less = second.partition_point(|other| other < value);
        (second.partition_point(|other| other <= value) - less) as f64
    };
    first.iter().map(equal).sum()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Two-sided, by the normal approximation, corrected for ties and continuity.
fn chance(delta: f64, first: &[f64], second: &[f64]) -> f64 {
    let (m, n) = (first.len() as f64, second.len() as f64);
    let all = m + n;
    let variance = m * n / 12.0 * (all + 1.0 - tie_term(first, second) / (all * (all - 1.0)));
    // Values that are all the same tell nothing.
    if variance <= 0.0 {
        return 1.0;
    }
    let from_middle = delta.abs() * m * n / 2.0;
    let z = (from_middle - 0.5) / variance.sqrt();
    (2.0 * Normal::standard().sf(z)).min(1.0)
}

/// The sum of t³ - t, where t values of both samples together are equal.
fn tie_term(first: &[f64], second: &[f64]) -> f64 {
    let mut all = [first, second].concat();
    all.sort_unstable_by(f64::total_cmp);
    let runs = all.chunk_by(|one, next| one.total_cmp(next).is_eq());
    let lengths = runs.map(|run| run.len() as f64);
    lengths.map(|t| t * t * t - t).sum()
}

/// The interval of delta by its own variance, not symmetric (Feng and Cliff 2004).
fn interval(delta: f64, rows: &[f64], columns: &[f64], ties: f64) -> (f64, f64) {
    let (m, n) = (rows.len() as f64, columns.len() as f64);
    let z2 = Z_95 * Z_95;
    if delta.abs() >= 1.0 {
        let smaller = m.min(n);
        let bound = delta * (smaller - z2) / (smaller + z2);
        return (bound.min(delta), bound.max(delta));
    }
    let spread = |values: &[f64], middle: f64| -> f64 {
        values.iter().map(|value| (value - middle).powi(2)).sum()
    };
    let cells = m * n - ties - m * n * delta * delta;
    let sum = n * n * spread(rows, delta) + m * m * spread(columns, -delta) - cells;
    let least = (1.0 - delta * delta) / (m * n - 1.0);
    let variance = (sum / (m * n * (m - 1.0) * (n - 1.0))).max(least);
    let rest = 1.0 - delta * delta;
    let half = Z_95 * variance.sqrt() * (rest * rest + z2 * variance).sqrt();
    let scale = rest + z2 * variance;
    let middle = delta * rest;
    ((middle - half) / scale, (middle + half) / scale)
}
