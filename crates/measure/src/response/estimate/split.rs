//! By a histogram of gaps alone: where it falls into two classes, bursts and pauses, only the
//! pauses stand for responses. The classes are those between which the variance of the logarithm is
//! largest (Otsu 1979).

use super::{Confidence, Estimate, Reason};
use crate::response::evidence::Evidence;
use crate::response::native::RESPONSE_BINS;

/// The part of the variance that must lie between two classes.
const SEPARATION: f64 = 0.7;
/// The part of all gaps that each class must have.
const LEAST_SHARE: f64 = 0.02;
/// A request that a response triggered comes a round trip after the one before, at least; sooner
/// ones than this are a burst anyway.
const BURST_NS: f64 = 150_000.0;
/// Gaps below this part of a round trip belong to a burst.
const ROUND_TRIP: f64 = 0.7;

pub(super) fn estimate(evidence: &Evidence, counts: &[u16; RESPONSE_BINS as usize]) -> Estimate {
    let requests = evidence.requests();
    let Some(split) = Split::find(counts, evidence.handshake_ns) else {
        return Estimate::share(evidence.waited_ns(), requests, requests)
            .at_most(Confidence::Medium, Reason::NoBursts);
    };
    Estimate::share(evidence.waited_ns(), split.pauses, requests)
        .at_most(Confidence::Medium, Reason::NotAcknowledged)
}

/// Two classes of gaps.
#[derive(Debug)]
pub(super) struct Split {
    /// Gaps in the lower class.
    pub(super) within: u32,
    /// Gaps in the upper class.
    pauses: u32,
    /// The part of all gaps in the smaller class.
    least_share: f64,
    /// The part of the variance that lies between the classes: 0 to 1.
    separation: f64,
    /// The geometric mean of the lower class.
    burst_ns: f64,
    /// How many times as long the upper class is, by the geometric means.
    pub(super) distance: f64,
}

impl Split {
    /// `None` where there is one class.
    pub(super) fn find(
        counts: &[u16; RESPONSE_BINS as usize],
        handshake_ns: Option<f64>,
    ) -> Option<Self> {
        Self::best(counts).filter(|split| split.holds(handshake_ns))
    }

    /// Between any two bins, where the variance between the classes is largest; `None` when all
    /// gaps are in one bin.
    fn best(counts: &[u16; RESPONSE_BINS as usize]) -> Option<Self> {
        let gaps = || {
            counts
                .iter()
                .enumerate()
                .map(|(bin, &count)| (middle(bin).ln(), f64::from(count)))
        };
        let total: f64 = gaps().map(|(_, count)| count).sum();
        let mean = gaps().map(|(log, count)| log * count).sum::<f64>() / total;
        let variance = gaps()
            .map(|(log, count)| (log - mean).powi(2) * count)
            .sum::<f64>();
        let all: u32 = counts.iter().map(|&count| u32::from(count)).sum();
        let mut count_above = all;
        let (mut sum_below, mut best) = (0.0, None::<Self>);
        for ((log, count), &whole) in gaps().zip(counts) {
            count_above -= u32::from(whole);
            sum_below += log * count;
            let above = f64::from(count_above);
            let below = total - above;
            if below == 0.0 || above == 0.0 {
                continue;
            }
            let distance = sum_below / below - (mean * total - sum_below) / above;
            let separation = below * above / total * distance.powi(2) / variance;
            if best
                .as_ref()
                .is_none_or(|best| separation > best.separation)
            {
                best = Some(Self {
                    within: all - count_above,
                    pauses: count_above,
                    least_share: below.min(above) / total,
                    separation,
                    burst_ns: (sum_below / below).exp(),
                    distance: (-distance).exp(),
                });
            }
        }
        best
    }

    fn holds(&self, handshake_ns: Option<f64>) -> bool {
        let burst_ns = handshake_ns.map_or(BURST_NS, |rtt| (ROUND_TRIP * rtt).max(BURST_NS));
        self.separation >= SEPARATION && self.least_share >= LEAST_SHARE && self.burst_ns < burst_ns
    }
}

/// The middle of a bin, in nanoseconds; see `split.h`.
fn middle(bin: usize) -> f64 {
    let (octave, half) = (bin.div_ceil(2), (bin + 1) % 2);
    match bin {
        0 => f64::from(1 << 13),
        _ => f64::from(1 << (13 + octave)) * if half == 0 { 1.22 } else { 1.73 },
    }
}
