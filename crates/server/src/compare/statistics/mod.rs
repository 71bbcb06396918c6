//! What samples say, and how sure that is. Pure functions, held against `SciPy` by `vectors.json`.
#![expect(
    clippy::cast_sign_loss,
    reason = "counts and durations are not negative"
)]

mod holm;
mod ranks;
mod shares;

pub(super) use holm::corrected;
pub(super) use ranks::compare as compare_ranks;
pub(super) use shares::{compare as compare_shares, interval as share_interval};

/// Groups with fewer sessions are shown, not tested: the normal approximation of the test of ranks
/// needs so many.
pub(super) const LEAST_SESSIONS: usize = 8;
/// Of the standard normal distribution, what 2.5 % are above: intervals are those of 95 %.
const Z_95: f64 = 1.959_963_984_540_054;

/// How two groups differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Difference {
    /// The chance of a difference at least as great, if the groups were alike.
    pub(super) p: f64,
    /// Of durations Cliff's delta, -1 to 1; of shares their difference.
    pub(super) effect: f64,
    /// Where the effect is, at 95 %.
    pub(super) interval: (f64, f64),
    /// How great the effect is.
    pub(super) magnitude: Magnitude,
}

/// How great an effect is, in the usual words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Magnitude {
    Negligible,
    Small,
    Medium,
    Large,
}

impl Magnitude {
    /// By the limits from which an effect is small, medium and large.
    fn of(effect: f64, limits: [f64; 3]) -> Self {
        match effect.abs() {
            effect if effect < limits[0] => Self::Negligible,
            effect if effect < limits[1] => Self::Small,
            effect if effect < limits[2] => Self::Medium,
            _ => Self::Large,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Negligible => "negligible",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// The value that a part of a sorted sample does not exceed, between its neighbours if need be;
/// `None` of an empty one.
pub(super) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part * last as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        ranks: Vec<RankVector>,
        shares: Vec<ShareVector>,
    }

    #[derive(Deserialize)]
    struct RankVector {
        name: String,
        first: Vec<f64>,
        second: Vec<f64>,
        p: f64,
        delta: f64,
        interval: (f64, f64),
        quartiles: [f64; 4],
    }

    #[derive(Deserialize)]
    struct ShareVector {
        counts: [u64; 4],
        p: f64,
        wilson: (f64, f64),
        difference: f64,
        interval: (f64, f64),
    }

    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("vectors.json")).unwrap()
    }

    fn sorted(values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    }

    #[track_caller]
    fn close(what: &str, told: f64, expected: f64) {
        let error = (told - expected).abs();
        assert!(
            error <= 1e-9 + 1e-7 * expected.abs(),
            "{what}: {told}, not {expected}"
        );
    }

    #[test]
    fn ranks_are_compared_as_scipy_does() {
        for vector in vectors().ranks {
            let (first, second) = (sorted(&vector.first), sorted(&vector.second));
            let told = compare_ranks(&first, &second);
            let name = &vector.name;
            close(name, told.effect, vector.delta);
            close(name, told.interval.0, vector.interval.0);
            close(name, told.interval.1, vector.interval.1);
            // The p of `SciPy` to seven digits, also where it is very small.
            assert!((told.p / vector.p - 1.0).abs() < 1e-7, "{name}: {}", told.p);
            for (part, expected) in [0.25, 0.5, 0.75, 0.95].into_iter().zip(vector.quartiles) {
                close(name, quantile(&first, part).unwrap(), expected);
            }
            // The other way around it is the same.
            let back = compare_ranks(&second, &first);
            close(name, back.p, told.p);
            close(name, back.effect, -told.effect);
        }
    }

    #[test]
    fn shares_are_compared_as_scipy_does() {
        for vector in vectors().shares {
            let [count, of, other, other_of] = vector.counts;
            let told = compare_shares((count, of), (other, other_of));
            let name = format!("{:?}", vector.counts);
            assert!((told.p / vector.p - 1.0).abs() < 1e-6, "{name}: {}", told.p);
            close(&name, told.effect, vector.difference);
            close(&name, told.interval.0, vector.interval.0);
            close(&name, told.interval.1, vector.interval.1);
            let (low, high) = share_interval(count, of);
            close(&name, low, vector.wilson.0);
            close(&name, high, vector.wilson.1);
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.95), Some(7.0));
    }
}
