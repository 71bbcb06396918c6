//! Whether groups of measurements differ, by their ranks alone: round trips are not distributed
//! like anything that has a name.

use libm::erfc;

/// Values of a group, at least: below, the approximations of the tests are none.
pub(super) const LEAST: usize = 5;

/// The median, of an even number of values the lesser of the two in the middle.
pub(super) fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Kruskal and Wallis (1952), with the correction for ties: the probability that groups of one kind
/// differ so much. `None` for fewer than two groups, one with fewer than [`LEAST`] values, or when
/// all values are the same.
pub(super) fn kruskal_wallis(groups: &[Vec<u64>]) -> Option<f64> {
    if groups.len() < 2 || groups.iter().any(|group| group.len() < LEAST) {
        return None;
    }
    let mut values: Vec<(u64, usize)> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        values.extend(group.iter().map(|value| (*value, number)));
    }
    values.sort_unstable();
    let count = values.len() as f64;
    let mut sums = vec![0.0; groups.len()];
    let mut ties = 0.0;
    let mut rank = 0.0;
    for equal in values.chunk_by(|one, other| one.0 == other.0) {
        let size = equal.len() as f64;
        let shared = rank + f64::midpoint(size, 1.0);
        rank += size;
        ties += size.powi(3) - size;
        for (_, group) in equal {
            sums[*group] += shared;
        }
    }
    let correction = 1.0 - ties / (count.powi(3) - count);
    if correction <= 0.0 {
        return None;
    }
    let squares: f64 = sums
        .iter()
        .zip(groups)
        .map(|(sum, group)| sum * sum / group.len() as f64)
        .sum();
    let statistic = 12.0 / (count * (count + 1.0)) * squares - 3.0 * (count + 1.0);
    Some(chi_squared(statistic / correction, groups.len() - 1))
}

/// The probability that the sum of so many squared normal variables exceeds `value`: closed forms,
/// Abramowitz and Stegun 26.4.4 and 26.4.5.
fn chi_squared(value: f64, freedom: usize) -> f64 {
    let half = value.max(0.0) / 2.0;
    let is_odd = freedom % 2 == 1;
    let (mut sum, mut term, mut divisor) = if is_odd {
        let tail = erfc(half.sqrt());
        (
            tail,
            2.0 * (half / std::f64::consts::PI).sqrt() * (-half).exp(),
            1.5,
        )
    } else {
        ((-half).exp(), half * (-half).exp(), 2.0)
    };
    for _ in 0..(freedom - 1) / 2 {
        sum += term;
        term *= half / divisor;
        divisor += 1.0;
    }
    sum.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 5e-4, "{value} is not {expected}");
    }

    #[test]
    fn tails_are_those_of_the_tables() {
        // The 5 % and 1 % points in any book.
        for (freedom, five, one) in [
            (1, 3.841_459, 6.634_897),
            (2, 5.991_465, 9.210_340),
            (3, 7.814_728, 11.344_867),
            (4, 9.487_729, 13.276_704),
            (7, 14.067_140, 18.475_307),
            (10, 18.307_038, 23.209_251),
        ] {
            assert!(
                (chi_squared(five, freedom) - 0.05).abs() < 1e-6,
                "{freedom}"
            );
            assert!((chi_squared(one, freedom) - 0.01).abs() < 1e-6, "{freedom}");
        }
    }

    #[test]
    fn groups_apart_and_groups_alike() {
        // Ranks 1-5 and 6-10: H = 12 / 110 * (15² + 40²) / 5 - 33 = 6.8182; one degree of freedom.
        let apart = [vec![1, 2, 3, 4, 5], vec![16, 17, 18, 19, 20]];
        is_near(kruskal_wallis(&apart).unwrap(), 0.00902);
        // Ranks 1, 3, 5, 7, 9 and 2, 4, 6, 8, 10: H = 12 / 110 * (25² + 30²) / 5 - 33 = 0.27273.
        let alike = [vec![1, 3, 5, 7, 9], vec![2, 4, 6, 8, 10]];
        is_near(kruskal_wallis(&alike).unwrap(), 0.60151);
    }

    #[test]
    fn ties_share_their_ranks() {
        // Five times 1 and five times 2: ranks 3 and 8, H = 12 / 110 * (15² + 40²) / 5 - 33 =
        // 6.8182, over 1 - 240 / 990 = 9.
        let halves = [vec![1; 5], vec![2; 5]];
        is_near(kruskal_wallis(&halves).unwrap(), 0.002_700);
        assert_eq!(kruskal_wallis(&[vec![3; 5], vec![3; 5]]), None);
        assert_eq!(kruskal_wallis(&[vec![1, 2, 3, 4], vec![5; 9]]), None);
        assert_eq!(kruskal_wallis(&[vec![1, 2, 3, 4, 5]]), None);
    }

    #[test]
    fn groups_of_one_kind_are_rarely_said_to_differ() {
        let mut state: u64 = 99;
        let mut dice = || {
            state = state * 48_271 % 0x7fff_ffff;
            state % 1000
        };
        let trials = 2000;
        let wrong = (0..trials)
            .filter(|_| {
                let groups: Vec<Vec<u64>> =
                    (0..4).map(|_| (0..12).map(|_| dice()).collect()).collect();
                kruskal_wallis(&groups).unwrap() < 0.05
            })
            .count();
        // 5 % are 100, with a deviation of 10.
        assert!((60..=140).contains(&wrong), "{wrong}");
    }
}
