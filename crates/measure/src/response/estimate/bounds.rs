//! What clients waited, between two bounds. Gaps are the longest that it can have been. The
//! shortest is what `bounds.h` has, or what is left without the time that clients thought, as far
//! as that is known.

use super::{Confidence, Estimate, FEW, Reason, by_gaps};
use crate::response::Estimator;
use crate::response::evidence::Evidence;

/// As many times as long is the longest wait at most, for the estimate to be within a quarter of
/// the truth; or so, for it to be so for most clients, since few think for as long as they might.
const NEAR: f64 = 1.6;
const FAR: f64 = 3.0;
/// The same as `NEAR` of batches. Most clients echo the first answer to them, and think for less
/// than that says: the estimate is the longest wait.
const NEAR_BATCHES: f64 = 1.25;
/// Of the likely wait for a batch, as a part. If the timestamps tell less, clients may have
/// thought, whichever answer they echoed.
const THOUGHT: f64 = 0.6;
/// The estimate is the longest wait, or so many times the shortest, but so much of the longest at
/// least.
const ABOVE: f64 = 1.15;
const BELOW: f64 = 0.78;
/// The same of batches: most clients think for less than their echoes say.
const BELOW_BATCHES: f64 = 0.85;
/// Of waits that are not longer, in nanoseconds, the handshake is no sure bound: what a host needs
/// for it is not what it needs for requests.
const LONG_NS: f64 = 1e6;
/// Of a wait, what a few long lags may come to: if they are lateness, the estimate is too low by a
/// quarter.
const RARE: f64 = 0.3;
/// Of the gaps, how many may be left out since the client was idle after its answer, for an
/// estimate to be sure, and to be of medium confidence.
const SOME_IDLE: f64 = 0.05;
const MANY_IDLE: f64 = 0.3;
/// Causal gaps from which on bursts may be sure.
const BURSTS: u32 = 2;

/// By the gaps, and what is known of thinking; and by which estimator.
pub(super) fn estimate(evidence: &Evidence) -> (Estimate, Estimator) {
    let unknown = Evidence {
        think: None,
        ..evidence.clone()
    };
    let by_gaps_alone = by_gaps(&unknown);
    let plain = evidence.applied(Estimator::Acknowledged);
    let Some(gap_ns) = by_gaps_alone.latency_ns else {
        return (by_gaps_alone, plain);
    };
    let part = |of_ns: f64| gap_ns * of_ns / evidence.retained_ns.max(1.0);
    let bounds = if by_gaps_alone.slides {
        Bounds::of(0.0, gap_ns)
    } else {
        Bounds::of(part(evidence.shortest_ns), part(evidence.longest_ns))
    };
    let likely_ns = bounds.likely_ns(1.0).unwrap_or(bounds.longest_ns);
    let bounded = by_gaps_alone
        .between(&bounds, likely_ns, near(evidence))
        .unless_short(&bounds)
        .unless_idle(evidence);
    let is_sure = bounded.confidence > Confidence::Low;
    let (estimate, estimator) = match by_timestamps(evidence, &bounds, is_sure) {
        Some(known) if known.confidence >= bounded.confidence => {
            (known.unless_late(evidence), Estimator::Timestamps)
        }
        _ => (bounded.blended(evidence, &bounds), plain),
    };
    (estimate.unless_one_burst(evidence), estimator)
}

/// Without what clients thought, where that is known better than the bounds tell; `is_sure`: the
/// bounds are near each other.
fn by_timestamps(evidence: &Evidence, bounds: &Bounds, is_sure: bool) -> Option<Estimate> {
    let think = evidence.think?;
    let told_ns = if is_sure {
        (bounds.longest_ns - bounds.shortest_ns) / 2.0
    } else {
        bounds.longest_ns
    };
    if think.margin_ns > told_ns {
        return None;
    }
    let estimate = by_gaps(evidence);
    let wait_ns = estimate.latency_ns?;
    // About the requests of a window a client may think one by one, or about all together; then
    // each waits for so much less.
    let window = if estimate.slides {
        estimate.concurrency.unwrap_or(1.0)
    } else {
        1.0
    };
    let together_ns = wait_ns - (window - 1.0) * evidence.thought_ns();
    let margin_ns = window * think.margin_ns;
    let shortest_ns = bounds.shortest_ns.max(together_ns - margin_ns);
    let is_batch = evidence.has_batches() && !estimate.slides;
    let (longest_ns, likely_ns) = if is_batch {
        // Of the answers to a batch a client echoes the first, perhaps: it may have waited for
        // others.
        let bounds = Bounds::of(shortest_ns, bounds.longest_ns);
        let likely_ns = bounds.likely_ns(near(evidence));
        (
            bounds.longest_ns,
            likely_ns
                .map(|ns| ns.max(BELOW_BATCHES * bounds.longest_ns))
                .filter(|ns| wait_ns > THOUGHT * ns),
        )
    } else {
        let longer_ns = think.longer_ns(wait_ns);
        let likely_ns = Bounds::of(together_ns, wait_ns).likely_ns(1.0);
        let likely_ns = likely_ns.unwrap_or(wait_ns) + longer_ns / 2.0;
        let longest_ns = wait_ns + longer_ns + margin_ns;
        (bounds.longest_ns.min(longest_ns), Some(likely_ns))
    };
    let bounds = Bounds::of(shortest_ns, longest_ns);
    // Either the client thought for most of the time, or answers came long after each other.
    let is_either = is_batch && likely_ns.is_none();
    let likely_ns = likely_ns
        .unwrap_or(wait_ns)
        .max(bounds.shortest_ns)
        .min(longest_ns);
    let estimate = estimate.between(&bounds, likely_ns, near(evidence));
    let estimate = if is_either || !think.is_known(evidence.causal) {
        estimate.at_most(Confidence::Low, Reason::Thinking)
    } else if !think.is_based(wait_ns) {
        estimate.at_most(Confidence::Medium, Reason::Thinking)
    } else {
        estimate
    };
    Some(estimate).filter(|known| known.confidence > Confidence::Low || think.is_near_base(wait_ns))
}

fn near(evidence: &Evidence) -> f64 {
    if evidence.has_batches() {
        NEAR_BATCHES
    } else {
        NEAR
    }
}

/// How long a wait was, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    shortest_ns: f64,
    longest_ns: f64,
}

impl Bounds {
    fn of(shortest_ns: f64, longest_ns: f64) -> Self {
        Self {
            shortest_ns: shortest_ns.min(longest_ns),
            longest_ns,
        }
    }

    /// What is not far from the truth, wherever that is; `None` where the bounds are far from each
    /// other. Bounds that are within so many times are near: then the longest.
    fn likely_ns(&self, near: f64) -> Option<f64> {
        if self.longest_ns > FAR * self.shortest_ns {
            return None;
        }
        if self.longest_ns <= near * self.shortest_ns {
            return Some(self.longest_ns);
        }
        let likely_ns = (ABOVE * self.shortest_ns).max(BELOW * self.longest_ns);
        Some(likely_ns.min(self.longest_ns))
    }
}

impl Estimate {
    /// As sure as the bounds are near each other.
    fn between(self, bounds: &Bounds, likely_ns: f64, near: f64) -> Self {
        let estimate = Self {
            latency_ns: Some(likely_ns),
            ..self
        };
        if bounds.longest_ns <= near * bounds.shortest_ns {
            estimate
        } else if bounds.longest_ns <= FAR * bounds.shortest_ns {
            estimate.at_most(Confidence::Medium, Reason::Thinking)
        } else {
            estimate.at_most(Confidence::Low, Reason::Thinking)
        }
    }

    /// If the bounds are far from each other: the mean of this and of what timestamps tell, each by
    /// how precise it is.
    fn blended(self, evidence: &Evidence, bounds: &Bounds) -> Self {
        let (Some(think), Some(latency_ns)) = (evidence.think, self.latency_ns) else {
            return self;
        };
        let is_told = think.is_known(evidence.causal) && think.is_near_base(latency_ns);
        let is_batch = self.slides || self.concurrency.is_some_and(|requests| requests > 1.0);
        if is_batch || !is_told || bounds.longest_ns <= NEAR * bounds.shortest_ns {
            return self;
        }
        let told_ns = evidence.retained_ns / f64::from(self.causal) - think.likely_ns;
        let spread_ns = (bounds.longest_ns - bounds.shortest_ns) / 12_f64.sqrt();
        let weight = spread_ns.powi(2) / (spread_ns.powi(2) + think.deviation_ns.powi(2));
        let blend_ns = latency_ns
            + weight * (told_ns.clamp(bounds.shortest_ns, bounds.longest_ns) - latency_ns);
        Self {
            latency_ns: Some(blend_ns),
            ..self
        }
    }

    /// Gaps after which the client was idle may have been long waits: without them the average is
    /// too short.
    fn unless_idle(self, evidence: &Evidence) -> Self {
        let part = f64::from(evidence.idle) / f64::from(evidence.idle + evidence.causal);
        if part > MANY_IDLE {
            self.at_most(Confidence::Low, Reason::Thinking)
        } else if part > SOME_IDLE {
            self.at_most(Confidence::Medium, Reason::Thinking)
        } else {
            self
        }
    }

    /// Answers that were late on their way look like thinking; a client that has its answer, and
    /// thinks, acknowledges it meanwhile.
    fn unless_late(self, evidence: &Evidence) -> Self {
        let rare_ns = evidence.think.map_or(0.0, |think| think.rare_ns());
        let window = self.concurrency.filter(|_| self.slides).unwrap_or(1.0);
        let late_ns = window * (rare_ns - evidence.silent_ns());
        if self.latency_ns.is_some_and(|ns| late_ns > RARE * ns) {
            self.at_most(Confidence::Medium, Reason::Thinking)
        } else {
            self
        }
    }

    /// One burst may be what was left of a longer one, or of a window.
    fn unless_one_burst(self, evidence: &Evidence) -> Self {
        if evidence.has_batches() {
            self.unless_fewer(BURSTS, Confidence::Medium)
        } else {
            self
        }
    }

    fn unless_short(self, bounds: &Bounds) -> Self {
        if bounds.shortest_ns > LONG_NS {
            self
        } else {
            self.unless_fewer(FEW, Confidence::Low)
                .at_most(Confidence::Medium, Reason::Thinking)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::estimate::ThinkTime;
    use crate::response::evidence::{Flight, Gaps, Seal};
    use crate::response::native::{RESPONSE_ECHO_SHIFT, response_echoes};

    /// So many waits of 20 ms, each before so many requests; the bounds leave no room for thinking.
    fn evidence(causal: u32, requests: u16) -> Evidence {
        let flight = Some(Flight {
            bytes: f64::from(requests) * 100.0,
            packets: requests.into(),
        });
        let waited_ns = f64::from(causal) * 2e7;
        let count = requests * u16::try_from(causal).expect("few");
        Evidence {
            retained_ns: waited_ns,
            shortest_ns: waited_ns,
            longest_ns: waited_ns,
            think: None,
            causal,
            early: 0,
            flight,
            latest_flight: flight,
            first_burst_bytes: 0.0,
            holds_back: false,
            sent_bytes: f64::from(count) * 100.0,
            handshake_ns: Some(1e7),
            timeouts: 0,
            idle: 0,
            repeated: 0,
            seal: Seal::None,
            gaps: Gaps::Triggers {
                count,
                causal: [0; 24],
            },
        }
    }

    #[test]
    fn one_wait_is_sure_for_a_request_and_not_for_a_burst() {
        let judged = |causal, requests| {
            let (estimate, _) = estimate(&evidence(causal, requests));
            assert_eq!(estimate.latency_ns, Some(2e7));
            (estimate.confidence, estimate.reason)
        };
        assert_eq!(judged(1, 1), (Confidence::High, None));
        assert_eq!(judged(1, 3), (Confidence::Medium, Some(Reason::Few)));
        assert_eq!(judged(2, 3), (Confidence::High, None));
    }

    /// Of twenty gaps: lags, and the least of the epoch, above the least of the connection.
    fn echoes(tick_ms: u32, lag_us: u32, least_us: u32) -> response_echoes {
        let units = |us: u32| (us * 1_000) >> RESPONSE_ECHO_SHIFT;
        response_echoes {
            tick: tick_ms * 1_000_000,
            gaps: 20,
            seen: 40,
            least: units(least_us),
            think: units(lag_us * 20).cast_signed(),
            phases: units(tick_ms * 500 * 20),
            thought: 20,
            first: 0x80,
            ..response_echoes::default()
        }
    }

    /// The same gaps, of 20 ms, of which the bounds tell little.
    fn ticking(tick_ms: u32, lag_us: u32, least_us: u32) -> Evidence {
        Evidence {
            shortest_ns: 2e6,
            think: ThinkTime::read(&echoes(tick_ms, lag_us, least_us), 0),
            ..evidence(20, 1)
        }
    }

    fn estimated_ms(evidence: &Evidence) -> f64 {
        let (estimate, _) = estimate(evidence);
        estimate.latency_ns.map_or(f64::NAN, |ns| ns / 1e6)
    }

    #[test]
    fn what_is_too_short_to_be_seen_is_thought_by_as_much_as_it_is_precise() {
        // Half a tick less is none, and 1 ms is less than twice as far as it may be off.
        let none = estimated_ms(&ticking(100, 45_000, 0));
        let some = estimated_ms(&ticking(100, 60_000, 0));
        assert!((none - 20.0).abs() < 0.1, "{none}");
        assert!((14.0..19.0).contains(&some), "{some}");
    }

    #[test]
    fn no_wait_is_shorter_than_is_proven() {
        let proven = Evidence {
            shortest_ns: 20.0 * 15e6,
            ..ticking(1, 5_650, 0)
        };
        assert!(estimated_ms(&ticking(1, 5_650, 0)) < 14.9);
        assert!(estimated_ms(&proven) >= 15.0);
    }

    #[test]
    fn where_the_way_may_have_become_longer_by_less_than_half_the_middle_is_told() {
        let told = |first: u8, least_us| {
            let echoes = response_echoes {
                first: 0x80 | first,
                ..echoes(1, 10_500, least_us)
            };
            let own = Evidence {
                think: ThinkTime::read(&echoes, 0),
                ..ticking(1, 0, 0)
            };
            estimated_ms(&own) - 10.0
        };
        // Rounded up, the first epoch had no lag above the base: 2.1 ms are not told from none.
        assert!(told(1, 0).abs() < 0.1, "{}", told(1, 0));
        assert!((told(1, 5_000) - 1.5).abs() < 0.1, "{}", told(1, 5_000));
        assert!(told(1, 9_000).abs() < 0.1, "{}", told(1, 9_000));
        // What it had from the start, and what a first epoch has, was thought.
        assert!(told(3, 5_000).abs() < 0.1, "{}", told(3, 5_000));
        assert!(told(0, 4_000).abs() < 0.1, "{}", told(0, 4_000));
    }
}
