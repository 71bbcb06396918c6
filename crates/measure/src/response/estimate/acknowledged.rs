//! By TCP's acknowledgements: a request that acknowledges more than the request before it was sent
//! after something had come back. The others were sent together with it, or are more of the same.

use super::split::Split;
use super::{Confidence, Estimate, Reason};
use crate::response::evidence::{Evidence, Flight};
use crate::response::native::RESPONSE_BINS;

/// Of all requests, those that must be triggered for a client to be one that never sends two
/// together.
const NEARLY_ALL: f64 = 0.9;
/// Of the causal gaps, those that may be shorter than a round trip before they are no accident.
const ACCIDENTS: f64 = 0.05;
/// How far a flight may be from a whole number of requests, and from that of others.
const ROUNDING: f64 = 0.15;
/// Of the requests that were outstanding at first, those that a burst must have for a client to
/// send in batches.
const BATCH: f64 = 0.6;
/// As many times as much as others does the first answer trigger, at least, if the client was still
/// writing its flight.
const MORE: f64 = 1.5;
/// As many times as large as a window must be what is sent in an epoch for its average to be that
/// of waits.
const TURNS: f64 = 4.0;
/// The same as `MORE` where bursts are of two lengths, as of trees.
const TWICE: f64 = 2.0;
/// As many times as long are the pauses between bursts, at least, as what interrupts a burst.
/// (Pauses for one answer and for the last of several may be of two classes, too.)
const FAR: f64 = 16.0;

/// By what usually is sent before a first answer; sure if what was sent the last time comes to the
/// same.
pub(super) fn estimate(
    evidence: &Evidence,
    causal_gaps: &[u16; RESPONSE_BINS as usize],
) -> Estimate {
    if evidence.causal == 0 {
        return Estimate::none(Reason::Upload);
    }
    let split = Split::find(causal_gaps, evidence.handshake_ns);
    let split = split.filter(|split| split.distance >= FAR);
    let within = split.map_or(0, |split| split.within);
    let usual = by_flight(evidence, within, evidence.flight);
    let latest = by_flight(evidence, within, evidence.latest_flight);
    match (usual.latency_ns, latest.latency_ns) {
        (Some(usual_ns), Some(latest_ns)) if is_near(latest_ns, usual_ns) => usual,
        _ => usual.at_most(Confidence::Medium, Reason::WindowVaries),
    }
}

fn is_near(part: f64, whole: f64) -> bool {
    (part / whole - 1.0).abs() < ROUNDING
}

/// `within`: causal gaps that are of another kind than the pauses between bursts, and much shorter:
/// an answer came while a burst was still sent.
fn by_flight(evidence: &Evidence, within: u32, flight: Option<Flight>) -> Estimate {
    let requests = evidence.requests();
    let causal = evidence.causal;
    // A response takes a round trip at least: a request that was triggered sooner was triggered by
    // the response to an earlier one, or by none: it was still to be sent when an answer came.
    let overlaps = f64::from(evidence.early) > ACCIDENTS * f64::from(causal);
    let pauses = causal - evidence.early.max(within);
    let window = flight.map(|flight| window(evidence, flight));
    if f64::from(causal) >= NEARLY_ALL * f64::from(requests) || slides(requests, pauses, window) {
        return one_by_one(evidence, overlaps, window);
    }
    let bursts = Estimate::share(evidence.waited_ns(), pauses, requests);
    let size = f64::from(requests) / f64::from(pauses);
    // Requests that were overtaken belong to bursts, too.
    let whole_size = f64::from(requests + evidence.repeated) / f64::from(pauses);
    match window {
        // Each pause is followed by as much as was sent in the beginning.
        Some((window, _)) if is_near(window, size) => bursts.unless_cut(evidence, MORE),
        _ if overlaps => Estimate::none(Reason::Overlapping),
        // Not all pauses were some, or answers came together.
        Some((window, packets))
            if packets > 1 && window > whole_size && !is_near(window, whole_size) =>
        {
            bursts.at_most(Confidence::Medium, Reason::WindowVaries)
        }
        _ if evidence.holds_back => bursts.at_most(Confidence::Medium, Reason::HeldBack),
        // It may have been one flight, and then one request for each answer.
        None => bursts.at_most(Confidence::Medium, Reason::WindowUnknown),
        _ => bursts.unless_cut(evidence, TWICE),
    }
}

impl Estimate {
    /// Not sure if the client had not written all of its flight when the first answer came: that
    /// answer seems to have triggered more than others did.
    fn unless_cut(self, evidence: &Evidence, times: f64) -> Self {
        let usual_bytes = evidence.sent_bytes / f64::from(evidence.causal);
        if evidence.first_burst_bytes > times * usual_bytes {
            self.at_most(Confidence::Medium, Reason::WindowVaries)
        } else {
            self
        }
    }
}

/// So many requests, and packets, were outstanding at first.
fn window(evidence: &Evidence, flight: Flight) -> (f64, u32) {
    let request_bytes = evidence.sent_bytes / f64::from(evidence.requests());
    (flight.bytes / request_bytes, flight.packets)
}

/// Several requests were outstanding at first, but bursts are shorter: each answer triggers a
/// request, and now and then two answers come together.
fn slides(requests: u32, pauses: u32, window: Option<(f64, u32)>) -> bool {
    let burst = f64::from(requests) / f64::from(pauses.max(1));
    window.is_some_and(|(window, packets)| packets > 1 && burst < BATCH * window)
}

/// Each request was triggered by a response: of the only request outstanding, or of one of several.
/// By Little's law each waits as long as all that are outstanding take together.
fn one_by_one(evidence: &Evidence, overlaps: bool, window: Option<(f64, u32)>) -> Estimate {
    let requests = evidence.requests();
    let plain = Estimate::share(evidence.waited_ns(), requests, requests);
    let gap_ns = evidence.retained_ns / f64::from(requests);
    match window {
        Some((window, 1)) if window < 1.5 => plain.unless_cut(evidence, MORE),
        Some((window, 2..))
            if window > 1.5
                && (window - window.round()).abs() < ROUNDING * window.sqrt()
                && evidence.thought_ns() < gap_ns / 2.0 =>
        {
            let slides = Estimate {
                latency_ns: Some((gap_ns * window.round() - evidence.thought_ns()).max(0.0)),
                concurrency: Some(window.round()),
                slides: true,
                ..plain
            };
            if evidence.timeouts + evidence.idle > 0 || f64::from(requests) < TURNS * window {
                // Of all that was outstanding meanwhile, one gap is left out, and the others come
                // together.
                slides.at_most(Confidence::Medium, Reason::WindowVaries)
            } else {
                slides.unless_cut(evidence, MORE)
            }
        }
        _ if overlaps => Estimate::none(Reason::Overlapping),
        // Those that nothing triggered are parts of others, or wait for the same answer.
        _ => Estimate::share(evidence.waited_ns(), evidence.causal, requests)
            .at_most(Confidence::Medium, Reason::WindowUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::evidence::{Gaps, Seal};

    /// A second of so many requests of 100 bytes, of which so many were triggered.
    fn evidence(requests: u16, causal: u32, flight: Option<(f64, u32)>) -> Evidence {
        let flight = flight.map(|(requests, packets)| Flight {
            bytes: requests * 100.0,
            packets,
        });
        Evidence {
            retained_ns: 1e9,
            shortest_ns: 0.0,
            longest_ns: 1e9,
            think: None,
            causal,
            early: 0,
            flight,
            latest_flight: flight,
            first_burst_bytes: 0.0,
            holds_back: false,
            sent_bytes: f64::from(requests) * 100.0,
            handshake_ns: None,
            timeouts: 0,
            idle: 0,
            repeated: 0,
            seal: Seal::None,
            gaps: Gaps::Triggers {
                count: requests,
                causal: [0; 24],
            },
        }
    }

    /// As if all causal gaps were of one kind.
    fn estimated(evidence: &Evidence) -> Estimate {
        estimate(evidence, &[0; 24])
    }

    fn latency_ms(estimate: &Estimate) -> Option<f64> {
        estimate.latency_ns.map(|ns| (ns / 1e4).round() / 100.0)
    }

    #[test]
    fn one_request_at_a_time() {
        let sure = estimated(&evidence(100, 100, Some((1.0, 1))));
        assert_eq!(latency_ms(&sure), Some(10.0));
        assert_eq!(sure.confidence, Confidence::High);
        let unseen = estimated(&evidence(100, 100, None));
        assert_eq!(latency_ms(&unseen), Some(10.0));
        assert_eq!(unseen.confidence, Confidence::Medium);
        assert_eq!(unseen.reason, Some(Reason::WindowUnknown));
    }

    #[test]
    fn requests_that_nothing_triggered_wait_for_the_answer_of_others() {
        let parts = estimated(&evidence(100, 80, Some((2.5, 3))));
        assert_eq!(latency_ms(&parts), Some(12.5));
        assert_eq!(parts.reason, Some(Reason::WindowUnknown));
    }

    #[test]
    fn batches_and_trees() {
        let batches = estimated(&evidence(400, 100, Some((4.0, 4))));
        assert_eq!(latency_ms(&batches), Some(10.0));
        assert_eq!(batches.concurrency, Some(4.0));
        let trees = estimated(&evidence(400, 200, Some((1.0, 1))));
        assert_eq!(latency_ms(&trees), Some(5.0));
        assert_eq!(trees.confidence, Confidence::High);
    }

    #[test]
    fn a_window_that_slides_also_when_answers_come_together() {
        for causal in [400, 330] {
            let window = estimated(&evidence(400, causal, Some((4.0, 4))));
            assert_eq!(latency_ms(&window), Some(10.0), "{causal}");
            assert!(window.slides);
        }
        let uneven = estimated(&evidence(400, 400, Some((2.5, 4))));
        assert_eq!(uneven.confidence, Confidence::Medium);
    }

    #[test]
    fn what_overlaps_in_an_unknown_number_is_not_estimated() {
        let early = |flight| Evidence {
            early: 200,
            ..evidence(400, 400, flight)
        };
        let unknown = estimated(&early(None));
        assert_eq!(
            (unknown.latency_ns, unknown.reason),
            (None, Some(Reason::Overlapping))
        );
        assert_eq!(latency_ms(&estimated(&early(Some((4.0, 4))))), Some(10.0));
        let upload = estimated(&evidence(400, 0, None));
        assert_eq!(
            (upload.latency_ns, upload.reason),
            (None, Some(Reason::Upload))
        );
    }

    #[test]
    fn what_the_last_flight_speaks_against_is_not_sure() {
        let latest = |requests: f64, packets| {
            Some(Flight {
                bytes: requests * 100.0,
                packets,
            })
        };
        let other = Evidence {
            latest_flight: latest(1.0, 1),
            ..evidence(400, 400, Some((4.0, 4)))
        };
        let estimate = estimated(&other);
        assert_eq!(latency_ms(&estimate), Some(10.0), "as before");
        assert_eq!(estimate.confidence, Confidence::Medium);
        assert_eq!(estimate.reason, Some(Reason::WindowVaries));
        // Of batches it says nothing.
        let batches = Evidence {
            latest_flight: latest(1.0, 1),
            ..evidence(400, 100, Some((4.0, 4)))
        };
        assert_eq!(estimated(&batches).confidence, Confidence::High);
    }

    #[test]
    fn answers_that_come_while_a_batch_is_sent_end_no_pause() {
        let of = |evidence: &Evidence, short| {
            let mut causal = [0; 24];
            (causal[1], causal[16]) = (short, 100);
            estimate(evidence, &causal)
        };
        let batches = evidence(1600, 150, Some((16.0, 16)));
        let sure = of(&batches, 50);
        assert_eq!(latency_ms(&sure), Some(10.0));
        assert_eq!(sure.confidence, Confidence::High);
        let unknown = of(&evidence(1600, 150, None), 50);
        assert_eq!(latency_ms(&unknown), Some(10.0));
        // What is not told apart by its length contradicts the flight.
        let contradicted = of(&evidence(1600, 140, Some((16.0, 16))), 0);
        assert_eq!(contradicted.confidence, Confidence::Medium);
    }

    #[test]
    fn what_the_first_answer_triggered_tells_whether_the_flight_was_whole() {
        let cut = |bytes, causal, flight| {
            let evidence = Evidence {
                first_burst_bytes: bytes,
                ..evidence(400, causal, Some(flight))
            };
            estimated(&evidence).confidence
        };
        assert_eq!(cut(100.0, 400, (1.0, 1)), Confidence::High);
        assert_eq!(cut(400.0, 400, (1.0, 1)), Confidence::Medium);
        assert_eq!(cut(300.0, 380, (2.0, 2)), Confidence::Medium);
        // A batch, and a tree of one request and three.
        assert_eq!(cut(400.0, 100, (4.0, 4)), Confidence::High);
        assert_eq!(cut(300.0, 200, (1.0, 1)), Confidence::High);
    }

    #[test]
    fn bursts_are_not_sure_if_no_flight_was_seen() {
        let estimate = estimated(&evidence(115, 98, None));
        assert_eq!(estimate.confidence, Confidence::Medium);
        assert_eq!(estimate.reason, Some(Reason::WindowUnknown));
    }

    #[test]
    fn requests_that_the_stack_put_together_are_not_sure() {
        let held = Evidence {
            holds_back: true,
            ..evidence(300, 200, None)
        };
        let estimate = estimated(&held);
        assert_eq!(estimate.confidence, Confidence::Medium);
        assert_eq!(estimate.reason, Some(Reason::HeldBack));
    }
}
