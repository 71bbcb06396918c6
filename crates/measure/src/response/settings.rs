//! What to measure, and how.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fathom_record::{AsValue, Nanoseconds, Network, Type, Value};

use crate::response::native::{self, response_config};
use crate::{Error, Scope, Selection};

/// How the gaps of an epoch become a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// As `Acknowledged`, less what clients thought before they sent the next request, by the
    /// timestamps that they echo.
    Timestamps,
    /// By what TCP's acknowledgements tell: a request that acknowledges more than the one before
    /// was triggered. Others by `Split`.
    Acknowledged,
    /// By a logarithmic histogram of gaps, split in two classes where it has two.
    Split,
    /// Algorithm 2 of the paper.
    Modes,
    /// Algorithm 1 of the paper, with a threshold.
    Fixed,
}

impl Estimator {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Timestamps,
        Self::Acknowledged,
        Self::Split,
        Self::Modes,
        Self::Fixed,
    ];

    /// The name in options and records.
    pub fn name(self) -> &'static str {
        native::estimator_names()[self as usize]
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No estimator has this name.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no estimator \"{0}\": the estimators are {known}",
    known = native::estimator_names().join(", ")
)]
pub struct NoEstimator(String);

impl FromStr for Estimator {
    type Err = NoEstimator;

    fn from_str(text: &str) -> Result<Self, NoEstimator> {
        let mut all = Self::ALL.into_iter();
        all.find(|estimator| estimator.name() == text)
            .ok_or_else(|| NoEstimator(text.to_owned()))
    }
}

impl AsValue for Estimator {
    const KIND: Type = Type::Text;

    fn as_value(&self) -> Value<'_> {
        Value::Text(self.name())
    }
}

/// What is measured, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the gaps of an epoch become a latency.
    pub estimator: Estimator,
    /// How long an epoch is: 100 ms to 10 s.
    pub epoch: Duration,
    /// A longer gap is a retransmission timeout, or silence: it does not count as a response. 30 s
    /// at most.
    pub timeout: Duration,
    /// The same where silence of the client is not seen: of all but TCP.
    pub datagram_timeout: Duration,
    /// For [`Estimator::Fixed`]: a longer gap begins a batch.
    pub threshold: Duration,
    /// Only flows to these networks; empty: to all.
    pub servers: Vec<Network>,
    /// Only flows to these ports; empty: to all.
    pub ports: Vec<u16>,
    /// One flow of so many is measured, by a hash of its ends; 1: all.
    pub one_flow_in: u32,
    /// Which packets are measured at all.
    pub scope: Scope,
}

impl Settings {
    /// For a live interface.
    pub fn live() -> Self {
        Self {
            estimator: Estimator::Timestamps,
            epoch: Duration::from_millis(500),
            timeout: Duration::from_millis(180),
            datagram_timeout: Duration::from_millis(180),
            threshold: Duration::from_millis(1),
            servers: Vec::new(),
            ports: Vec::new(),
            one_flow_in: 1,
            scope: Scope::live(),
        }
    }

    /// For capture files.
    pub fn files() -> Self {
        Self {
            scope: Scope::files(),
            ..Self::live()
        }
    }

    /// As the C side takes them.
    pub(crate) fn to_native(&self, seed: u64, handshakes: u32) -> Result<response_config, Error> {
        let servers = Selection {
            networks: self.servers.clone(),
            ports: self.ports.clone(),
            ..Selection::default()
        };
        Ok(response_config {
            seed,
            servers: servers.to_native()?,
            epoch: ticks(self.epoch),
            timeout: ticks(self.timeout),
            datagram_timeout: ticks(self.datagram_timeout),
            threshold: ticks(self.threshold),
            sampled: if self.one_flow_in > 1 {
                u32::MAX / self.one_flow_in
            } else {
                0
            },
            handshake_mask: handshakes - 1,
            estimator: self.estimator as u8,
            has_tunnels: u8::from(self.scope.has_tunnels),
            ..response_config::default()
        })
    }
}

fn ticks(duration: Duration) -> u32 {
    let ticks = Nanoseconds::from(duration).0 >> native::RESPONSE_TICK_SHIFT;
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimators_have_the_numbers_of_the_c_side() {
        for (number, estimator) in Estimator::ALL.into_iter().enumerate() {
            assert_eq!(estimator as usize, number);
            assert_eq!(estimator.name().parse::<Estimator>().unwrap(), estimator);
        }
        assert_eq!(Estimator::Split.name(), "split");
        assert!("best".parse::<Estimator>().is_err());
    }
}
