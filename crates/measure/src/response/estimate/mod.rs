//! From the gaps of an epoch to a latency, or to the reason why there is none. One file for each
//! estimator.

mod acknowledged;
mod bounds;
mod fixed;
mod modes;
mod split;
mod timestamps;

use fathom_record::{AsValue, Type, Value};

use super::Estimator;
use super::evidence::{Evidence, Gaps, Seal};
pub(super) use timestamps::ThinkTime;

/// Causal gaps from which on an average says something.
const FEW: u32 = 3;

/// How sure an estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The client may have thought before it asked again; or there are fewer than three causal
    /// gaps; or what is shorter in a tunnel was taken for acknowledgements, and may be requests.
    Low,
    /// It holds if something holds that was not seen: that the client has one request outstanding,
    /// that the pauses are waits, or that it thinks for less than it might.
    Medium,
    /// It was seen what triggered each request, and for how long the client did not think, or
    /// bounds of that are near each other.
    High,
}

impl Confidence {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl AsValue for Confidence {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

/// Why there is no estimate, or why it is not a sure one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No request followed another.
    OneRequest,
    /// Nothing came back between the packets: an upload, perhaps a paced one.
    Upload,
    /// All gaps were longer than a retransmission timeout.
    Timeouts,
    /// The client was silent after each answer.
    Idle,
    /// Requests overlap, in a number that was not seen: the time between them is only a part of the
    /// latency.
    Overlapping,
    /// It was not seen how many requests are outstanding; one is assumed.
    WindowUnknown,
    /// As many as were outstanding at one time were not at another.
    WindowVaries,
    /// The client's stack put requests together, and so may have kept some back.
    HeldBack,
    /// No burst is followed by a pause; one request at a time is assumed.
    NoBursts,
    /// Bursts and pauses are told apart by their length alone; responses that trigger requests one
    /// by one look the same.
    NotAcknowledged,
    /// Encrypted: requests were told from acknowledgements or control frames by their length.
    Sizes,
    /// Encrypted: requests cannot be told from acknowledgements by their length.
    Sealed,
    /// What the client thinks before it asks again is not known, or not precisely enough.
    Thinking,
    /// There are fewer than three causal gaps.
    Few,
}

impl Reason {
    /// The text in records.
    pub fn text(self) -> &'static str {
        match self {
            Self::OneRequest => "one request",
            Self::Upload => "upload: nothing came back between packets",
            Self::Timeouts => "all gaps are timeouts",
            Self::Idle => "idle after each answer",
            Self::Overlapping => "requests overlap, how many was not seen",
            Self::WindowUnknown => "requests outstanding not seen, one assumed",
            Self::WindowVaries => "requests outstanding vary",
            Self::HeldBack => "requests put together by the client's stack",
            Self::NoBursts => "no bursts, one request at a time assumed",
            Self::NotAcknowledged => "by the length of pauses alone",
            Self::Sizes => "requests told from other messages by their length",
            Self::Sealed => "requests not told from acknowledgements",
            Self::Thinking => "clients may think before they ask again",
            Self::Few => "few causal gaps",
        }
    }
}

impl AsValue for Reason {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.text())
    }
}

/// What comes of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// From a request to what its response triggered, on average; `None` where a number would be
    /// wrong.
    pub(super) latency_ns: Option<f64>,
    /// Gaps that stand for a response.
    pub(super) causal: u32,
    /// Requests that are outstanding together, on average.
    pub(super) concurrency: Option<f64>,
    /// A new request for each response, while others are outstanding.
    pub(super) slides: bool,
    pub(super) confidence: Confidence,
    pub(super) reason: Option<Reason>,
}

impl Estimate {
    fn none(reason: Reason) -> Self {
        Self {
            latency_ns: None,
            causal: 0,
            concurrency: None,
            slides: false,
            confidence: Confidence::Low,
            reason: Some(reason),
        }
    }

    /// `time_ns` shared by `causal` gaps.
    fn share(time_ns: f64, causal: u32, requests: u32) -> Self {
        Self {
            latency_ns: Some(time_ns / f64::from(causal)),
            causal,
            concurrency: Some(f64::from(requests) / f64::from(causal)),
            slides: false,
            confidence: Confidence::High,
            reason: None,
        }
    }

    /// Not surer than `confidence`, for this reason.
    fn at_most(self, confidence: Confidence, reason: Reason) -> Self {
        if self.confidence <= confidence {
            return self;
        }
        Self {
            confidence,
            reason: Some(reason),
            ..self
        }
    }

    /// What can be known under encryption; how many requests of a window were outstanding cannot,
    /// since they share records.
    fn under(self, seal: Seal) -> Self {
        match seal {
            Seal::Opaque => Self::none(Reason::Sealed),
            Seal::Learnt => self.at_most(Confidence::Low, Reason::Sizes),
            Seal::Sizes => Self {
                reason: Some(Reason::Sizes),
                ..self.at_most(Confidence::Medium, Reason::Sizes)
            },
            Seal::Transparent if self.slides => {
                self.at_most(Confidence::Medium, Reason::WindowUnknown)
            }
            Seal::Transparent | Seal::None => self,
        }
    }

    /// Not surer than `confidence` if it is the average of fewer causal gaps.
    fn unless_fewer(self, least: u32, confidence: Confidence) -> Self {
        if self.latency_ns.is_some() && self.causal < least {
            self.at_most(confidence, Reason::Few)
        } else {
            self
        }
    }
}

/// The latency of an epoch, and by which estimator.
pub(super) fn estimate(evidence: &Evidence, estimator: Estimator) -> (Estimate, Estimator) {
    if estimator != Estimator::Timestamps {
        return (
            by_gaps(evidence).unless_fewer(FEW, Confidence::Low),
            evidence.applied(estimator),
        );
    }
    bounds::estimate(evidence)
}

fn by_gaps(evidence: &Evidence) -> Estimate {
    if evidence.requests() == 0 {
        return Estimate::none(if evidence.timeouts > 0 {
            Reason::Timeouts
        } else if evidence.idle > 0 {
            Reason::Idle
        } else {
            Reason::OneRequest
        });
    }
    match &evidence.gaps {
        Gaps::Triggers { causal, .. } => acknowledged::estimate(evidence, causal),
        Gaps::Bins(counts) => split::estimate(evidence, counts),
        Gaps::Modes {
            modes,
            discarded_ns,
        } => modes::estimate(modes, *discarded_ns),
        Gaps::Batches { count, sum_ns } => fixed::estimate(*count, *sum_ns),
    }
    .under(evidence.seal)
}
