//! What is said on standard error when a measurement ends.

use std::fmt::Write as _;
use std::time::Duration;

use fathom_measure::Counts;

use crate::failure::say;

/// Says how much was measured, and by name what was not.
pub(crate) fn say_summary(counts: &Counts, elapsed: Duration) {
    let headline = format!("{} in {:.1} s", counts.headline(), elapsed.as_secs_f64());
    say!("{}", text(&headline, &counts.named));
}

/// A headline, and below it what was counted by name.
pub(crate) fn text(headline: &str, named: &[(&str, u64)]) -> String {
    let widths = named.iter().map(|(name, _)| name.len());
    let width = widths.max().unwrap_or_default();
    let mut text = headline.to_owned();
    for (name, count) in named {
        // Writing to memory does not fail.
        let _ = write!(text, "\n  {name:width$}  {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_below_each_other() {
        assert_eq!(text("nothing", &[]), "nothing");
        assert_eq!(
            text("1 frame in 1.5 s", &[("not IP", 12), ("truncated", 3)]),
            "1 frame in 1.5 s\n  not IP     12\n  truncated  3"
        );
    }
}
