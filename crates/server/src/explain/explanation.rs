//! What an explanation says.

use serde::Serialize;
use utoipa::ToSchema;

/// Where the latency of a subject comes from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// What was asked for, in words.
    pub(crate) subject: String,
    /// The beginning of the time that was looked at (RFC 3339).
    pub(crate) from: String,
    /// Its end.
    pub(crate) to: String,
    /// Flows of the subject that were seen.
    pub(crate) flows: usize,
    /// What a client waits for a response now, where it was measured.
    pub(crate) latency_ns: Option<u64>,
    /// What that is made of.
    pub(crate) parts: Vec<Part>,
    /// What is wrong, the biggest first.
    pub(crate) findings: Vec<Finding>,
    /// What was not measured, and how to get it.
    pub(crate) missing: Vec<Missing>,
    /// All of it in short.
    pub(crate) verdict: Verdict,
}

/// A part of the latency.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Part {
    /// What it is.
    pub(crate) name: String,
    /// How much it is now.
    pub(crate) now_ns: u64,
    /// How much it was before it changed, or at its least.
    pub(crate) before_ns: Option<u64>,
    /// Its part of all parts, 0 to 1.
    pub(crate) share: f64,
}

/// What latency comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// Packets wait between the client and its first router.
    ClientSide,
    /// Packets wait for a link behind the first router.
    HopQueue,
    /// Round trips are longer, and it is not known where.
    NetworkQueue,
    /// Packets take another way than before, which is longer.
    RouteChange,
    /// One of the ways that flows are balanced over is slower.
    SlowPath,
    /// Packets are lost, and sent again.
    Loss,
    /// The server takes longer to answer.
    ServerResponse,
    /// One of several servers takes longer than the others.
    OneServer,
    /// The application is late to take connections.
    AcceptQueue,
    /// The receiver does not read, and its buffer is full.
    ReceiveBuffer,
    /// The server's process does not run all the time.
    HostStall,
    /// Names are resolved late, or not at all.
    Dns,
    /// Connections are made late.
    Establishment,
}

impl Cause {
    /// Whether round trips are longer by it.
    pub(super) fn is_network(self) -> bool {
        self.is_queue() || matches!(self, Self::RouteChange | Self::SlowPath)
    }

    /// Whether it adds to a lookup or to how a connection is made, and not to every response.
    pub(super) fn is_once(self) -> bool {
        matches!(self, Self::Dns | Self::AcceptQueue | Self::Establishment)
    }

    /// Whether packets wait somewhere in the network.
    pub(super) fn is_queue(self) -> bool {
        matches!(self, Self::ClientSide | Self::HopQueue | Self::NetworkQueue)
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    /// It is one of several that fit.
    Low,
    /// It follows from what other measurements leave over.
    Medium,
    /// It was measured where it happens.
    High,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Finding {
    /// What.
    pub(crate) cause: Cause,
    /// The same in a sentence.
    pub(crate) text: String,
    /// The router, server or resolver where it is.
    pub(crate) place: Option<String>,
    /// Since when (RFC 3339); absent where it was so from the beginning.
    pub(crate) since: Option<String>,
    /// How sure.
    pub(crate) confidence: Confidence,
    /// How much it adds to what a client waits.
    pub(crate) amount_ns: u64,
    /// What else has it.
    pub(crate) shared_by: Option<Shared>,
    /// Statements for `fathom query` that show it.
    pub(crate) evidence: Vec<String>,
}

/// What else has the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Shared {
    /// How many others.
    pub(crate) count: u64,
    /// The same in words.
    pub(crate) text: String,
    /// The statement for `fathom query` that shows it.
    pub(crate) evidence: String,
}

/// A measurement that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Missing {
    /// What cannot be told without it.
    pub(crate) what: String,
    /// How to get it.
    pub(crate) remedy: String,
}

/// The explanation in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Verdict {
    /// The biggest cause; absent where nothing is wrong.
    pub(crate) cause: Option<Cause>,
    /// Others that add to it.
    pub(crate) also: Vec<Cause>,
    /// How sure the biggest is.
    pub(crate) confidence: Option<Confidence>,
    /// Whether there is more than all causes explain.
    pub(crate) is_part: bool,
    /// The same in a sentence.
    pub(crate) text: String,
}

impl Finding {
    pub(super) fn new(
        cause: Cause,
        text: impl Into<String>,
        confidence: Confidence,
        amount_ns: u64,
    ) -> Self {
        Self {
            cause,
            text: text.into(),
            place: None,
            since: None,
            confidence,
            amount_ns,
            shared_by: None,
            evidence: Vec::new(),
        }
    }

    pub(super) fn since(mut self, ns: Option<i64>) -> Self {
        self.since = ns.map(moment);
        self
    }

    pub(super) fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    pub(super) fn shown_by(mut self, statement: &str) -> Self {
        self.evidence.push(statement.to_owned());
        self
    }
}

/// A moment as text.
pub(crate) fn moment(ns: i64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(ns));
    moment.map_or_else(|_| ns.to_string(), |moment| format!("{moment:.3}"))
}

/// A duration for people: three digits at most.
pub(crate) fn duration(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ..1e6 => (ns / 1e3, "us"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value {
        ..10.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(1_500), "1.5 us");
        assert_eq!(duration(41_200_000), "41 ms");
        assert_eq!(duration(2_340_000_000), "2.3 s");
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment(1_500_000_000), "1970-01-01T00:00:01.500Z");
    }
}
