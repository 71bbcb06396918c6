//! The policy `watermark`: section 4 of the paper. Where it leaves something open: a server above
//! the high watermark loses `gain * weight * (1 - least / own)`; the fresh ones below the low one
//! share that, each `cap` of the whole at most, and what none may take stays where it was;
//! latencies "have not changed" when no server was above the high watermark for `quiet` intervals.

use super::{Bounds, Candidate, Measurement, Reason, ServerVerdict, ServiceVerdict};

pub(super) fn decide(bounds: &Bounds, candidates: &[Candidate], quiet: u32) -> ServiceVerdict {
    let latencies: Vec<_> = candidates.iter().map(Candidate::latency_ns).collect();
    let least = latencies.iter().flatten().copied().reduce(f64::min);
    let is_high = |latency: Option<f64>| matches!((latency, least), (Some(latency), Some(least)) if latency > bounds.high * least);
    let is_low = |latency: Option<f64>| matches!((latency, least), (Some(latency), Some(least)) if latency < bounds.low * least);
    let stale = candidates
        .iter()
        .zip(&latencies)
        .filter(|(_, latency)| is_high(**latency))
        .map(|(candidate, _)| freshness(&candidate.measured))
        .reduce(f64::max);
    let quiet = if stale.is_some() {
        0
    } else {
        quiet.saturating_add(1)
    };
    let drift = if quiet >= bounds.quiet {
        bounds.drift()
    } else {
        0.0
    };
    let mut verdicts: Vec<_> = candidates
        .iter()
        .zip(&latencies)
        .map(|(candidate, latency)| ServerVerdict {
            factor: candidate.factor + (1.0 - candidate.factor) * drift,
            why: if latency.is_some() {
                Reason::Alike
            } else {
                Reason::Unknown
            },
        })
        .collect();
    if let (Some(stale), Some(least)) = (stale, least) {
        let takes = |index: usize| {
            is_low(latencies[index]) && freshness(&candidates[index].measured) >= stale
        };
        shift(bounds, candidates, least, &is_high, &takes, &mut verdicts);
    }
    ServiceVerdict { verdicts, quiet }
}

/// Requests of the interval by flows that are active: the paper's measure of how far a latency can
/// be relied on.
fn freshness(measured: &Measurement) -> f64 {
    measured.requests as f64 / f64::from(measured.flows.max(1))
}

/// Moves weight from those that are high to those that may take it.
fn shift(
    bounds: &Bounds,
    candidates: &[Candidate],
    least: f64,
    is_high: &impl Fn(Option<f64>) -> bool,
    takes: &impl Fn(usize) -> bool,
    verdicts: &mut [ServerVerdict],
) {
    let whole: f64 = candidates
        .iter()
        .map(|candidate| candidate.configured * candidate.factor)
        .sum();
    let loss = |candidate: &Candidate| match candidate.latency_ns() {
        Some(latency) if is_high(Some(latency)) => {
            let weight = candidate.configured * candidate.factor;
            bounds.gain * weight * (1.0 - least / latency)
        }
        _ => 0.0,
    };
    let losses: Vec<_> = candidates.iter().map(loss).collect();
    let total: f64 = losses.iter().sum();
    let receivers = (0..candidates.len()).filter(|index| takes(*index)).count();
    if receivers == 0 || total <= 0.0 {
        return;
    }
    let share = (total / receivers as f64).min(bounds.cap * whole);
    let moved = share * receivers as f64 / total;
    for (index, verdict) in verdicts.iter_mut().enumerate() {
        let configured = candidates[index].configured;
        if losses[index] > 0.0 {
            verdict.factor -= losses[index] * moved / configured;
            verdict.why = Reason::Slower;
        } else if takes(index) {
            verdict.factor += share / configured;
            verdict.why = Reason::Faster;
        }
    }
}
