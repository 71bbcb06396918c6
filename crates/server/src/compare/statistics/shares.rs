//! Whether something happens in one group more often than in another: Fisher's exact test, since
//! what is compared is rare.

use statrs::function::factorial::ln_binomial;

use super::{Difference, Magnitude, Z_95};

/// From which difference of angles on an effect is small, medium and large (Cohen 1988).
const LIMITS: [f64; 3] = [0.2, 0.5, 0.8];

/// Compares two shares, each a count and of how many. The effect is their difference.
pub(in super::super) fn compare(first: (u64, u64), second: (u64, u64)) -> Difference {
    let (share, other) = (share(first), share(second));
    let (low, high) = interval(first.0, first.1);
    let (other_low, other_high) = interval(second.0, second.1);
    let effect = share - other;
    // Newcombe 1998, method 10.
    let down = (share - low).hypot(other_high - other);
    let up = (high - share).hypot(other - other_low);
    let angle = |share: f64| 2.0 * share.sqrt().asin();
    Difference {
        p: chance(first, second),
        effect,
        interval: (effect - down, effect + up),
        magnitude: Magnitude::of(angle(share) - angle(other), LIMITS),
    }
}

fn share((count, of): (u64, u64)) -> f64 {
    count as f64 / of as f64
}

/// Where the share behind a count is, at 95 % (Wilson 1927).
pub(in super::super) fn interval(count: u64, of: u64) -> (f64, f64) {
    let (share, of, z2) = (share((count, of)), of as f64, Z_95 * Z_95);
    let middle = share + z2 / (2.0 * of);
    let half = Z_95 * (share * (1.0 - share) / of + z2 / (4.0 * of * of)).sqrt();
    let scale = 1.0 + z2 / of;
    let low = ((middle - half) / scale).max(0.0);
    (low, ((middle + half) / scale).min(1.0))
}

/// Two-sided: the chance of all tables with these sums that are no likelier than this one.
fn chance((count, of): (u64, u64), (other, other_of): (u64, u64)) -> f64 {
    let counted = count + other;
    let ln_all = ln_binomial(of + other_of, counted);
    let likelihood =
        |count: u64| ln_binomial(of, count) + ln_binomial(other_of, counted - count) - ln_all;
    // Tables that are as likely are not left out because of rounding.
    let limit = likelihood(count) + 1e-7;
    let tables = counted.saturating_sub(other_of)..=counted.min(of);
    let others = tables.map(likelihood).filter(|ln| *ln <= limit);
    others.map(f64::exp).sum::<f64>().min(1.0)
}
