//! The average of the times between batches that a threshold tells apart (algorithm 1 of the
//! paper).

use super::{Confidence, Estimate, Reason};

pub(super) fn estimate(count: u32, sum_ns: f64) -> Estimate {
    Estimate {
        concurrency: None,
        ..Estimate::share(sum_ns, count, count)
    }
    .at_most(Confidence::Medium, Reason::NoBursts)
}
