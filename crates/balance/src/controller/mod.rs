//! From measurements to weights: a pure function, called once an interval. It reads no clock and
//! keeps nothing; what it needs of the interval before is handed to it.

mod latency;
mod measurement;
mod watermark;

use std::time::Duration;

use serde::Deserialize;

pub use measurement::{Collected, Latency, Measurement, Waiting};

/// How weights follow from measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// They are as configured.
    Static,
    /// Each server's is multiplied by how much faster or slower than the others it is.
    #[default]
    Latency,
    /// Weight goes from servers above a high watermark to servers below a low one: section 4 of the
    /// paper.
    Watermark,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Static, Self::Latency, Self::Watermark];

    /// The name in configuration and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Latency => "latency",
            Self::Watermark => "watermark",
        }
    }
}

/// How far and how fast weights may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The time between two decisions.
    pub interval: Duration,
    /// A server keeps at least this part of the weight that it is configured to have: the samples
    /// come with it that could clear it. 0 to 1.
    pub floor: f64,
    /// The largest factor by which a weight goes up or down in an interval; more than 1.
    pub step: f64,
    /// A relative difference of latencies below which they count as equal.
    pub hysteresis: f64,
    /// How fast weights drift back to what is configured, when nothing speaks against it: the time
    /// constant.
    pub recovery: Duration,
    /// For `latency`: the exponent by which a ratio of latencies becomes a ratio of weights.
    pub strength: f64,
    /// For `watermark`: above this multiple of the least latency, a server loses weight.
    pub high: f64,
    /// For `watermark`: below this multiple of the least latency, a server may gain weight.
    pub low: f64,
    /// For `watermark`: intervals without a server above the high watermark, from which on weights
    /// are equalised.
    pub quiet: u32,
    /// For `watermark`: the most that a server loses of its weight in an interval.
    pub gain: f64,
    /// For `watermark`: the most that a server gains of the whole weight in an interval.
    pub cap: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(200),
            floor: 0.1,
            step: 4.0,
            hysteresis: 0.1,
            recovery: Duration::from_secs(5),
            strength: 0.3,
            high: 1.5,
            low: 1.2,
            quiet: 3,
            gain: 0.3,
            cap: 0.15,
        }
    }
}

impl Bounds {
    /// The part of the way back to the configured weight that is gone in an interval.
    fn drift(&self) -> f64 {
        1.0 - (-self.interval.as_secs_f64() / self.recovery.as_secs_f64().max(1e-3)).exp()
    }
}

/// A server that may have flows: it is healthy and not drained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The configured weight, in any unit that all share; positive.
    pub configured: f64,
    /// What the last decision gave it in relation to that: 1 is as configured.
    pub factor: f64,
    /// What was measured since.
    pub measured: Measurement,
}

impl Candidate {
    /// One that nothing is known of yet.
    pub fn new(configured: f64) -> Self {
        Self {
            configured,
            factor: 1.0,
            measured: Measurement::default(),
        }
    }

    /// What clients waited for its responses on average, if any came.
    fn latency_ns(&self) -> Option<f64> {
        self.measured.latency.map(|latency| latency.mean_ns)
    }
}

/// What is decided for one server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerVerdict {
    /// Its weight in relation to what is configured, the average being 1.
    pub factor: f64,
    /// Why.
    pub why: Reason,
}

impl Default for ServerVerdict {
    fn default() -> Self {
        Self {
            factor: 1.0,
            why: Reason::Configured,
        }
    }
}

/// Why a weight is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The policy is `static`, or there is one server only.
    Configured,
    /// Nothing was measured: back to what is configured.
    Unknown,
    /// Its latency is like that of the others, or the difference is not sure: back to what is
    /// configured.
    Alike,
    /// It is slower than the others.
    Slower,
    /// Clients wait for it longer than for what they had from it.
    Waiting,
    /// It is faster than the others.
    Faster,
    /// It has what others lost or lost what others gained.
    Others,
}

impl Reason {
    /// The text in records.
    pub fn text(self) -> &'static str {
        match self {
            Self::Configured => "as configured",
            Self::Unknown => "nothing measured",
            Self::Alike => "like the others",
            Self::Slower => "slower",
            Self::Waiting => "clients are waiting",
            Self::Faster => "faster",
            Self::Others => "by what others lost or gained",
        }
    }
}

/// What is decided for all servers of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceVerdict {
    /// For each candidate.
    pub verdicts: Vec<ServerVerdict>,
    /// Intervals without a server that stood out, up to now: to be handed to the next decision.
    pub quiet: u32,
}

/// Decides. `quiet` is that of the decision before; at first 0.
pub fn decide(
    policy: Policy,
    bounds: &Bounds,
    candidates: &[Candidate],
    quiet: u32,
) -> ServiceVerdict {
    let mut decision = match policy {
        _ if candidates.len() < 2 => as_configured(candidates),
        Policy::Static => as_configured(candidates),
        Policy::Latency => latency::decide(bounds, candidates),
        Policy::Watermark => watermark::decide(bounds, candidates, quiet),
    };
    bound(bounds, candidates, &mut decision.verdicts);
    decision
}

fn as_configured(candidates: &[Candidate]) -> ServiceVerdict {
    ServiceVerdict {
        verdicts: vec![ServerVerdict::default(); candidates.len()],
        quiet: 0,
    }
}

/// Makes the average factor 1, and none less than the floor: what lifts some is taken from the
/// others in proportion.
fn bound(bounds: &Bounds, candidates: &[Candidate], verdicts: &mut [ServerVerdict]) {
    let whole: f64 = candidates
        .iter()
        .map(|candidate| candidate.configured)
        .sum();
    let mut is_low = vec![false; verdicts.len()];
    // Each round finds at least one more below the floor, or is the last.
    for _ in 0..=verdicts.len() {
        let (mut fixed, mut free) = (0.0, 0.0);
        for ((candidate, verdict), is_low) in candidates.iter().zip(&*verdicts).zip(&is_low) {
            if *is_low {
                fixed += candidate.configured * bounds.floor;
            } else {
                free += candidate.configured * verdict.factor;
            }
        }
        if free <= 0.0 {
            break;
        }
        let scale = (whole - fixed) / free;
        let mut has_changed = false;
        for (verdict, is_low) in verdicts.iter_mut().zip(&mut is_low) {
            if *is_low {
                continue;
            }
            verdict.factor *= scale;
            if verdict.factor < bounds.floor {
                (verdict.factor, *is_low, has_changed) = (bounds.floor, true, true);
            }
        }
        if !has_changed {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(mean_ms: f64) -> Measurement {
        Measurement {
            latency: Some(Latency {
                mean_ns: mean_ms * 1e6,
                error: 0.01,
                responses: 1000,
            }),
            requests: 1000,
            flows: 10,
            ..Measurement::default()
        }
    }

    fn candidates(latencies_ms: &[Option<f64>]) -> Vec<Candidate> {
        let candidate = |latency: &Option<f64>| Candidate {
            measured: latency.map(measured).unwrap_or_default(),
            ..Candidate::new(1.0)
        };
        latencies_ms.iter().map(candidate).collect()
    }

    /// The factors after so many intervals in which latencies stay as they are, whatever the
    /// weights.
    fn settled(policy: Policy, candidates: &mut [Candidate], intervals: u32) -> Vec<f64> {
        let mut quiet = 0;
        for _ in 0..intervals {
            let decision = decide(policy, &Bounds::default(), candidates, quiet);
            quiet = decision.quiet;
            for (candidate, verdict) in candidates.iter_mut().zip(decision.verdicts) {
                candidate.factor = verdict.factor;
            }
        }
        candidates.iter().map(|it| it.factor).collect()
    }

    #[test]
    fn slow_servers_lose_weight_and_keep_the_floor() {
        for policy in [Policy::Latency, Policy::Watermark] {
            let mut servers = candidates(&[Some(2.0), Some(2.0), Some(20.0), Some(2.0)]);
            let factors = settled(policy, &mut servers, 100);
            assert!((0.1..0.12).contains(&factors[2]), "{policy:?}: {factors:?}");
            let others = (4.0 - factors[2]) / 3.0;
            assert!(
                (factors[0] - others).abs() < 0.01,
                "{policy:?}: {factors:?}"
            );
        }
    }

    #[test]
    fn without_data_weights_drift_to_what_is_configured() {
        for policy in [Policy::Latency, Policy::Watermark] {
            let mut servers = candidates(&[None, None, None, None]);
            servers[1].factor = 0.1;
            servers[0].factor = 1.84;
            let factors = settled(policy, &mut servers, 150);
            for factor in &factors {
                assert!((factor - 1.0).abs() < 0.01, "{policy:?}: {factors:?}");
            }
        }
    }

    #[test]
    fn one_server_has_all() {
        let servers = candidates(&[Some(1.0)]);
        let decision = decide(Policy::Latency, &Bounds::default(), &servers, 0);
        assert_eq!(decision.verdicts[0].why, Reason::Configured);
        assert!(
            decide(Policy::Latency, &Bounds::default(), &[], 0)
                .verdicts
                .is_empty()
        );
    }

    #[test]
    fn a_difference_that_is_not_sure_moves_nothing() {
        let mut servers = candidates(&[Some(2.0), Some(3.0)]);
        for server in &mut servers {
            server.measured.latency.as_mut().unwrap().error = 0.5;
        }
        let decision = decide(Policy::Latency, &Bounds::default(), &servers, 0);
        assert!(
            decision.verdicts.iter().all(|it| it.why == Reason::Alike),
            "{decision:?}"
        );
        assert!((decision.verdicts[0].factor - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_hangs_is_seen_by_those_who_wait() {
        let mut servers = candidates(&[Some(2.0), Some(2.0), None]);
        servers[2].measured.waiting = Some(Waiting {
            flows: 30,
            mean_ns: 3e8,
        });
        let decision = decide(Policy::Latency, &Bounds::default(), &servers, 0);
        assert_eq!(decision.verdicts[2].why, Reason::Waiting);
        assert!(decision.verdicts[2].factor < 0.7, "{decision:?}");
    }

    proptest! {
        #[test]
        fn weights_stay_within_their_bounds(
            latencies in prop::collection::vec(prop::option::of(0.01..1000.0_f64), 2..12),
            configured in prop::collection::vec(0.1..10.0_f64, 12),
            waiting in prop::collection::vec(prop::option::of(0.1..1e4_f64), 12),
            watermark: bool,
            intervals in 1..20_u32,
        ) {
            let mut servers = candidates(&latencies);
            for ((server, configured), waiting) in servers.iter_mut().zip(configured).zip(waiting) {
                server.configured = configured;
                server.measured.waiting = waiting.map(|ms| Waiting { flows: 5, mean_ns: ms * 1e6 });
            }
            let policy = if watermark { Policy::Watermark } else { Policy::Latency };
            let factors = settled(policy, &mut servers, intervals);
            let whole: f64 = servers.iter().map(|it| it.configured).sum();
            let given: f64 = servers.iter().zip(&factors).map(|(it, factor)| it.configured * factor).sum();
            prop_assert!((given / whole - 1.0).abs() < 1e-6, "{factors:?}");
            prop_assert!(factors.iter().all(|factor| *factor >= Bounds::default().floor - 1e-9), "{factors:?}");
        }
    }
}
