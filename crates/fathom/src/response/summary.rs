//! What is said on standard error when a measurement ends.

use std::time::Duration;

use fathom_measure::response::ResponseCounts;

use crate::failure::say;
use crate::summary;

/// Says how much was measured, and by name what was not.
pub(super) fn say_summary(counts: &ResponseCounts, elapsed: Duration) {
    let (frames, epochs) = (counts.frames(), counts.epochs());
    let seconds = elapsed.as_secs_f64();
    let headline = format!("{frames} frames, {epochs} epochs in {seconds:.1} s");
    say!("{}", summary::text(&headline, counts.named()).trim_end());
}
