//! The proportional mode sum of the paper (section 3.3): the largest mode that is no accident is
//! the gap between batches, and the others happen so and so often for each of it. Summed up, that
//! is the time of all gaps up to it, shared by its gaps.

use super::{Confidence, Estimate, Reason};
use crate::response::evidence::Mode;

/// The part that a mode must have of the gaps that may lie between batches.
const LEAST_SHARE: f64 = 0.05;
/// And so many.
const LEAST_COUNT: u32 = 2;

pub(super) fn estimate(modes: &[Mode], discarded_ns: f64) -> Estimate {
    let is_candidate = |mode: &&Mode| mode.candidates * 2 > mode.count;
    let candidates: u32 = modes
        .iter()
        .filter(is_candidate)
        .map(|mode| mode.count)
        .sum();
    let is_prominent = |mode: &Mode| {
        mode.count >= LEAST_COUNT && f64::from(mode.count) >= LEAST_SHARE * f64::from(candidates)
    };
    let between = modes
        .iter()
        .rposition(|mode| is_candidate(&mode) && is_prominent(mode));
    let Some(between) = between else {
        return Estimate::none(Reason::Few);
    };
    let (below, requests) = modes[..=between]
        .iter()
        .fold((0.0, 0), |(sum, count), mode| {
            (sum + mode.sum_ns, count + mode.count)
        });
    Estimate::share(below + discarded_ns, modes[between].count, requests)
        .at_most(Confidence::Medium, Reason::NoBursts)
}
