//! The policy `latency`: `weight *= (geometric mean of all latencies / own latency) ^ strength`.

use super::{Bounds, Candidate, Measurement, Reason, ServerVerdict, ServiceVerdict};

/// What is held against a server.
#[derive(Debug, Clone, Copy)]
struct Signal {
    /// Logarithm of nanoseconds.
    log: f64,
    /// Standard error of that.
    error: f64,
    is_waiting: bool,
}

pub(super) fn decide(bounds: &Bounds, candidates: &[Candidate]) -> ServiceVerdict {
    let signals: Vec<_> = candidates
        .iter()
        .map(|candidate| signal(&candidate.measured))
        .collect();
    let reference = reference(candidates, &signals);
    let verdicts = candidates.iter().zip(&signals).map(|(candidate, signal)| {
        let (ratio, why) = match (signal, reference) {
            (Some(signal), Some(reference)) => judge(bounds, signal, reference),
            _ => (1.0, Reason::Unknown),
        };
        let factor = candidate.factor * ratio;
        ServerVerdict {
            factor: factor + (1.0 - factor) * bounds.drift(),
            why,
        }
    });
    ServiceVerdict {
        verdicts: verdicts.collect(),
        quiet: 0,
    }
}

/// The latency of responses that came; or, where that is more, what those say who wait: a server
/// that is about to slow down shows it in them first, and one that hangs shows it in nothing else.
fn signal(measured: &Measurement) -> Option<Signal> {
    let had = measured.latency.map(|latency| Signal {
        log: latency.mean_ns.max(1.0).ln(),
        error: latency.error,
        is_waiting: false,
    });
    let waiting = measured.waiting.map(|waiting| {
        // At any moment a wait is half over, on average. So few that it may be chance count for
        // less.
        let error = 1.0 / f64::from(waiting.flows.max(1)).sqrt();
        let sure = 2.0 * waiting.mean_ns * (1.0 - error);
        Signal {
            log: sure.max(1.0).ln(),
            error: 0.0,
            is_waiting: true,
        }
    });
    match (had, waiting) {
        (Some(had), Some(waiting)) => Some(if waiting.log > had.log { waiting } else { had }),
        // Nobody has had anything: those who wait need not be many.
        (None, Some(_)) => waiting.filter(|waiting| waiting.log > 0.0),
        (had, None) => had,
    }
}

/// The logarithm of the geometric mean of those of which something is known, each as often as it is
/// configured to have flows; at least two.
fn reference(candidates: &[Candidate], signals: &[Option<Signal>]) -> Option<f64> {
    let (mut sum, mut weight, mut known) = (0.0, 0.0, 0);
    for (candidate, signal) in candidates.iter().zip(signals) {
        if let Some(signal) = signal {
            sum += candidate.configured * signal.log;
            weight += candidate.configured;
            known += 1;
        }
    }
    (known >= 2).then(|| sum / weight)
}

fn judge(bounds: &Bounds, signal: &Signal, reference: f64) -> (f64, Reason) {
    let difference = reference - signal.log;
    // Only what is beyond the standard error moves weight.
    let sure = difference.abs() - signal.error;
    if sure < bounds.hysteresis {
        return (1.0, Reason::Alike);
    }
    let limit = bounds.step.ln();
    let log = (bounds.strength * sure.copysign(difference)).clamp(-limit, limit);
    let why = match (difference > 0.0, signal.is_waiting) {
        (true, _) => Reason::Faster,
        (false, false) => Reason::Slower,
        (false, true) => Reason::Waiting,
    };
    (log.exp(), why)
}
