//! By TCP's acknowledgements: a request that acknowledges more than the request before it was sent after something had come back. The others
//! were sent together with it, or are more of the same.

use super::{Confidence, Estimate, Reason};
use crate::response::evidence::Evidence;

/// Of all requests, those that must be triggered for a client to be one that never sends two together.
const NEARLY_ALL: f64 = 0.9;
/// Of the causal gaps, those that may be shorter than a round trip before they are no accident.
const ACCIDENTS: f64 = 0.05;
/// How far a flight may be from a whole number of requests, and from that of others.
const ROUNDING: f64 = 0.15;

/// Of the requests that were outstanding at first, those that a burst must have for a client to send in batches.
const BATCH: f64 = 0.6;

pub(super) fn estimate(evidence: &Evidence) -> Estimate {
    let requests = evidence.requests();
    let causal = evidence.causal;
    if causal == 0 {
        return Estimate::none(Reason::Upload);
    }
    // A response takes a round trip at least: a request that was triggered sooner was triggered by the response to an earlier one, or by none: it was
    // still to be sent when an answer came.
    let overlaps = f64::from(evidence.early) > ACCIDENTS * f64::from(causal);
    let pauses = causal - evidence.early;
    if f64::from(causal) >= NEARLY_ALL * f64::from(requests) || slides(evidence, pauses) {
        return one_by_one(evidence, overlaps);
    }
    let flight = evidence
        .flight
        .map(|flight| flight.bytes * f64::from(pauses) / evidence.sent_bytes);
    match (overlaps, flight) {
        (false, _) => Estimate::share(evidence.retained_ns, pauses, requests),
        // Each pause is followed by as much as was sent in the beginning.
        (true, Some(part)) if (part - 1.0).abs() < ROUNDING => {
            Estimate::share(evidence.retained_ns, pauses, requests)
        }
        _ => Estimate::none(Reason::Overlapping),
    }
}

/// So many requests, and packets, were outstanding at first.
fn window(evidence: &Evidence) -> Option<(f64, u32)> {
    let request_bytes = evidence.sent_bytes / f64::from(evidence.requests());
    evidence
        .flight
        .map(|flight| (flight.bytes / request_bytes, flight.packets))
}

/// Several requests were outstanding at first, but bursts are shorter: each answer triggers a request, and now and then two answers come together.
fn slides(evidence: &Evidence, pauses: u32) -> bool {
    let burst = f64::from(evidence.requests()) / f64::from(pauses.max(1));
    window(evidence).is_some_and(|(window, packets)| packets > 1 && burst < BATCH * window)
}

/// Each request was triggered by a response: of the only request outstanding, or of one of several. By Little's law each waits as long as all that
/// are outstanding take together.
fn one_by_one(evidence: &Evidence, overlaps: bool) -> Estimate {
    let requests = evidence.requests();
    let plain = Estimate::share(evidence.retained_ns, requests, requests);
    match window(evidence) {
        Some((window, 1)) if window < 1.5 => plain,
        Some((window, 2..))
            if window > 1.5 && (window - window.round()).abs() < ROUNDING * window.sqrt() =>
        {
            Estimate {
                latency_ns: plain.latency_ns.map(|gap| gap * window.round()),
                concurrency: Some(window.round()),
                slides: true,
                ..plain
            }
        }
        _ if overlaps => Estimate::none(Reason::Overlapping),
        _ => plain.at_most(Confidence::Medium, Reason::WindowUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::evidence::{Flight, Gaps, Seal};

    /// A second of so many requests of 100 bytes, of which so many were triggered.
    fn evidence(requests: u16, causal: u32, flight: Option<(f64, u32)>) -> Evidence {
        let mut counts = [0; 24];
        counts[0] = requests;
        Evidence {
            has_acknowledgements: true,
            retained_ns: 1e9,
            causal,
            early: 0,
            flight: flight.map(|(requests, packets)| Flight {
                bytes: requests * 100.0,
                packets,
            }),
            sent_bytes: f64::from(requests) * 100.0,
            handshake_ns: None,
            timeouts: 0,
            idle: 0,
            repeated: 0,
            seal: Seal::None,
            gaps: Gaps::Bins(counts),
        }
    }

    fn latency_ms(estimate: &Estimate) -> Option<f64> {
        estimate.latency_ns.map(|ns| (ns / 1e4).round() / 100.0)
    }

    #[test]
    fn one_request_at_a_time() {
        let sure = estimate(&evidence(100, 100, Some((1.0, 1))));
        assert_eq!(latency_ms(&sure), Some(10.0));
        assert_eq!(sure.confidence, Confidence::High);
        let unseen = estimate(&evidence(100, 100, None));
        assert_eq!(latency_ms(&unseen), Some(10.0));
        assert_eq!(unseen.confidence, Confidence::Medium);
        assert_eq!(unseen.reason, Some(Reason::WindowUnknown));
    }

    #[test]
    fn batches_and_trees() {
        let batches = estimate(&evidence(400, 100, Some((4.0, 4))));
        assert_eq!(latency_ms(&batches), Some(10.0));
        assert_eq!(batches.concurrency, Some(4.0));
        let trees = estimate(&evidence(400, 200, Some((1.0, 1))));
        assert_eq!(latency_ms(&trees), Some(5.0));
        assert_eq!(trees.confidence, Confidence::High);
    }

    #[test]
    fn a_window_that_slides_also_when_answers_come_together() {
        for causal in [400, 330] {
            let window = estimate(&evidence(400, causal, Some((4.0, 4))));
            assert_eq!(latency_ms(&window), Some(10.0), "{causal}");
            assert!(window.slides);
        }
        let uneven = estimate(&evidence(400, 400, Some((2.5, 4))));
        assert_eq!(uneven.confidence, Confidence::Medium);
    }

    #[test]
    fn what_overlaps_in_an_unknown_number_is_not_estimated() {
        let early = |flight| Evidence {
            early: 200,
            ..evidence(400, 400, flight)
        };
        let unknown = estimate(&early(None));
        assert_eq!(
            (unknown.latency_ns, unknown.reason),
            (None, Some(Reason::Overlapping))
        );
        assert_eq!(latency_ms(&estimate(&early(Some((4.0, 4))))), Some(10.0));
        let upload = estimate(&evidence(400, 0, None));
        assert_eq!(
            (upload.latency_ns, upload.reason),
            (None, Some(Reason::Upload))
        );
    }
}
