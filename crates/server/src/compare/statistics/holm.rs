//! Many comparisons: some would look sure by chance.

/// Each p so that, of all comparisons together, at most 5 % find a difference where there is none
/// if those below 0.05 are believed (Holm 1979).
pub(in super::super) fn corrected(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut corrected = vec![0.0; chances.len()];
    let mut least: f64 = 0.0;
    for (done, &index) in order.iter().enumerate() {
        let remaining = (chances.len() - done) as f64;
        least = least.max((remaining * chances[index]).min(1.0));
        corrected[index] = least;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::corrected;

    /// The example of R's `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")`.
    #[test]
    fn the_surest_pays_most_and_none_overtakes() {
        let told = corrected(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        let is_close = |(told, expected): (&f64, f64)| (told - expected).abs() < 1e-12;
        assert!(told.iter().zip(expected).all(is_close), "{told:?}");
        assert!(
            corrected(&[0.7, 0.8])
                .iter()
                .all(|p| (p - 1.0).abs() < 1e-12)
        );
        assert!(corrected(&[]).is_empty());
    }
}
