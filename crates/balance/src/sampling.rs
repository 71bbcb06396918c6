//! How many connections are measured: as many as the load allows.

/// Of how many buckets of the table the connections are to be measured, a power of two of `most` or less, if those of `buckets` take `rate` packets a
/// second and `limit` may be measured.
///
/// More than the limit are cut at once. It grows by two, and only if that takes half of the limit at most: who changes often measures nothing, since a
/// connection is measured anew each time.
///
/// ```
/// use fathom_balance::sampling::sampled_buckets;
///
/// assert_eq!(sampled_buckets(65_536, 65_536, 1_000_000.0, 100_000.0), 4_096);
/// assert_eq!(sampled_buckets(4_096, 65_536, 62_500.0, 100_000.0), 4_096);
/// assert_eq!(sampled_buckets(4_096, 65_536, 20_000.0, 100_000.0), 8_192);
/// ```
pub fn sampled_buckets(buckets: u64, most: u64, rate: f64, limit: f64) -> u64 {
    let mut next = buckets.clamp(1, most);
    if rate <= limit / 4.0 {
        return most.min(2 * next);
    }
    let mut expected = rate;
    while expected > limit && next > 1 {
        next /= 2;
        expected /= 2.0;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_within_the_limit() {
        for packets in [1e3, 1e5, 3e5, 1e6, 1e7] {
            let (most, mut buckets) = (65_536, 1);
            let rate = |buckets: u64| packets * buckets as f64 / most as f64;
            for _ in 0..20 {
                buckets = sampled_buckets(buckets, most, rate(buckets), 1e5);
            }
            assert_eq!(
                buckets,
                sampled_buckets(buckets, most, rate(buckets), 1e5),
                "{packets}"
            );
            assert!(rate(buckets) <= 1e5, "{packets}");
            assert!(buckets == most || rate(buckets) > 1e5 / 4.0, "{packets}");
        }
    }

    #[test]
    fn one_bucket_is_measured_whatever_comes() {
        assert_eq!(sampled_buckets(16, 16, 1e9, 1.0), 1);
        assert_eq!(sampled_buckets(0, 16, 0.0, 1.0), 2);
        assert_eq!(sampled_buckets(1 << 20, 16, 3.0, 4.0), 16);
    }
}
