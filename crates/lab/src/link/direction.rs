//! What one direction of a link does to packets, as configuration.

use std::time::Duration;

use super::rule::Rule;
use super::schedule::Schedule;

/// Everything one direction of a link does to packets; the default passes them on at once.
///
/// A packet meets, in this order: its rules, the bottleneck (rate and queue), loss, corruption and
/// duplication, then delay, jitter and reordering. So a lost packet has used up the bottleneck, as
/// on a wire behind it.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use fathom_lab::{Direction, PacketKind, Rule};
/// let direction = Direction::delayed(Duration::from_millis(20))
///     .rate(10_000_000, 64_000)
///     .loss(0.01)
///     .rule(Rule::nth(3, PacketKind::Data).drop());
/// assert_eq!(direction.queue_bytes, 64_000);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// One-way delay, possibly changing with time.
    pub delay: Schedule,
    /// Upper end of a uniform extra delay from zero; packets keep their order.
    pub jitter: Duration,
    /// Bottleneck in bits a second of whole packets as read from the device; `None` is unlimited.
    pub rate_bits_per_second: Option<u64>,
    /// Bytes that may wait before the bottleneck; packets beyond are dropped at the tail.
    pub queue_bytes: u64,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet is delivered twice, back to back.
    pub duplication: f64,
    /// Probability that one bit of a packet's payload is flipped, so that its checksum fails.
    pub corruption: f64,
    /// Probability that a packet is held back so that others pass it.
    pub reordering: f64,
    /// How long a reordered packet is held back.
    pub reordering_delay: Duration,
    /// What to do to particular packets.
    pub rules: Vec<Rule>,
}

impl Direction {
    /// A direction with a constant one-way `delay` and nothing else.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay: delay.into(),
            ..Self::default()
        }
    }

    /// A direction whose delay follows `schedule`, starting when the link does or when this
    /// direction is put in force.
    pub fn scheduled(schedule: Schedule) -> Self {
        Self {
            delay: schedule,
            ..Self::default()
        }
    }

    /// Adds a uniform extra delay from zero to `jitter`, keeping the order of packets.
    #[must_use]
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Adds a bottleneck with a drop-tail queue.
    #[must_use]
    pub fn rate(mut self, bits_per_second: u64, queue_bytes: u64) -> Self {
        self.rate_bits_per_second = Some(bits_per_second.max(1));
        self.queue_bytes = queue_bytes;
        self
    }

    /// Loses packets with `probability` (0 to 1).
    #[must_use]
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Delivers packets twice with `probability` (0 to 1).
    #[must_use]
    pub fn duplication(mut self, probability: f64) -> Self {
        self.duplication = probability;
        self
    }

    /// Damages packets with `probability` (0 to 1).
    #[must_use]
    pub fn corruption(mut self, probability: f64) -> Self {
        self.corruption = probability;
        self
    }

    /// Holds packets back by `delay` with `probability` (0 to 1).
    #[must_use]
    pub fn reordering(mut self, probability: f64, delay: Duration) -> Self {
        self.reordering = probability;
        self.reordering_delay = delay;
        self
    }

    /// Adds a rule; every rule sees every packet, and the actions of all that match apply.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// Both directions of a link, and what makes its random decisions repeatable.
#[derive(Debug, Clone, Default)]
pub struct LinkConfig {
    /// From the first end to the second.
    pub forward: Direction,
    /// From the second end to the first.
    pub backward: Direction,
    /// Seed of the random decisions; the same seed decides the same for the same packet index.
    pub seed: u64,
}

impl LinkConfig {
    /// The same constant one-way `delay` in both directions.
    pub fn symmetric(delay: Duration) -> Self {
        Self {
            forward: Direction::delayed(delay),
            backward: Direction::delayed(delay),
            seed: 0,
        }
    }

    /// Replaces the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}
