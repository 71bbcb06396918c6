//! What is said on standard error when a measurement ends.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_measure::Counts;

use crate::failure::say;

/// Says how much was measured, and by name what was not.
pub(super) fn say_summary(counts: &Counts, elapsed: Duration) {
    say!("{}", summary(counts, elapsed).trim_end());
}

fn summary(counts: &Counts, elapsed: Duration) -> String {
    let mut text = format!(
        "{} frames, {} samples in {:.1} s\n",
        counts.frames(),
        counts.samples(),
        elapsed.as_secs_f64()
    );
    let named: Vec<_> = counts.named().collect();
    let width = named
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    for (name, count) in named {
        // Writing to memory does not fail.
        let _ = writeln!(text, "  {name:width$}  {count}");
    }
    text
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
