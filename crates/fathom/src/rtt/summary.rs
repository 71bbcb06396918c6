//! What is said on standard error when a measurement ends.

use std::time::Duration;

use fathom_measure::rtt::Counts;

use crate::failure::say;
use crate::summary;

/// Says how much was measured, and by name what was not.
pub(super) fn say_summary(counts: &Counts, elapsed: Duration) {
    say!("{}", summary(counts, elapsed).trim_end());
}

fn summary(counts: &Counts, elapsed: Duration) -> String {
    let (frames, samples) = (counts.frames(), counts.samples());
    let seconds = elapsed.as_secs_f64();
    let headline = format!("{frames} frames, {samples} samples in {seconds:.1} s");
    summary::text(&headline, counts.named())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_summed_up_in_a_line() {
        let text = summary(&Counts::default(), Duration::from_millis(1500));
        assert_eq!(text, "0 frames, 0 samples in 1.5 s\n");
    }
}
