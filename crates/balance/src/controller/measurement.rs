//! What is known of a server after an interval.

use fathom_measure::response::{Confidence, Reason, ResponseEpoch};

/// What was measured of a server in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Measurement {
    /// What clients waited for responses that they have; `None` when no epoch had an estimate.
    pub latency: Option<Latency>,
    /// Flows whose last request is not answered, at the end of the interval; `None` when there are
    /// none.
    pub waiting: Option<Waiting>,
    /// Requests that clients sent.
    pub requests: u64,
    /// Flows that sent a request in the interval.
    pub flows: u32,
    /// What `latency` is of.
    pub epochs: Collected,
}

/// What clients waited, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Nanoseconds; each response counts once.
    pub mean_ns: f64,
    /// The standard error of the mean in relation to the mean: how much flows differ from each
    /// other, and how many there are.
    pub error: f64,
    /// Responses that it is the mean of.
    pub responses: u64,
}

/// Clients that wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// How many.
    pub flows: u32,
    /// For how long up to now, on average, in nanoseconds.
    pub mean_ns: f64,
}

/// The epochs of a server put together. An epoch counts as often as it has responses, and so as
/// often as clients waited; it must be of medium confidence at least, or have few gaps only: flows
/// that wait long have few, and without them a slow server would look fast. What clients may have
/// thought is in it: those of all servers think alike.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Collected {
    responses: f64,
    /// The sum of responses times latency.
    sum: f64,
    /// The sums of the squares of responses, and of these times latency and its square.
    squares: [f64; 3],
    epochs: u32,
}

impl Collected {
    /// Is this epoch sure enough?
    pub fn admits(epoch: &ResponseEpoch) -> bool {
        epoch.confidence >= Confidence::Medium
            || matches!(epoch.reason, Some(Reason::Few | Reason::Thinking))
    }

    /// Takes an epoch in, if it is sure enough.
    pub fn take(&mut self, epoch: &ResponseEpoch) {
        if let Some(latency) = epoch.latency_ns.filter(|_| Self::admits(epoch)) {
            self.add(latency.0 as f64, epoch.causal_gaps);
        }
    }

    /// Takes so many responses of one flow in that came after `latency_ns` on average.
    pub fn add(&mut self, latency_ns: f64, responses: u32) {
        let responses = f64::from(responses);
        let square = responses * responses;
        self.responses += responses;
        self.sum += responses * latency_ns;
        for (power, sum) in (0..).zip(&mut self.squares) {
            *sum += square * latency_ns.powi(power);
        }
        self.epochs += 1;
    }

    /// Takes in what another has.
    pub fn merge(&mut self, other: &Self) {
        self.responses += other.responses;
        self.sum += other.sum;
        for (sum, own) in self.squares.iter_mut().zip(other.squares) {
            *sum += own;
        }
        self.epochs += other.epochs;
    }

    /// What they say together; the flows are taken as independent of each other.
    #[expect(clippy::cast_sign_loss, reason = "counts are not negative")]
    pub fn latency(&self) -> Option<Latency> {
        if self.responses <= 0.0 {
            return None;
        }
        let mean = self.sum / self.responses;
        let [count, linear, square] = self.squares;
        let deviation = (square - 2.0 * mean * linear + mean * mean * count).max(0.0);
        // A single epoch, or two, say little of how much they differ: as if they differed by as
        // much as they are.
        let known = deviation.sqrt() / self.responses / mean.max(1.0);
        let few = 1.0 / f64::from(self.epochs).powf(1.5);
        Some(Latency {
            mean_ns: mean,
            error: known.max(few),
            responses: self.responses as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_count_and_not_flows() {
        let mut collected = Collected::default();
        collected.add(1e6, 99);
        collected.add(101e6, 1);
        let latency = collected.latency().unwrap();
        assert!((latency.mean_ns - 2e6).abs() < 1.0);
        assert_eq!(latency.responses, 100);
        assert!(latency.error > 0.3);
        assert_eq!(Collected::default().latency(), None);
    }

    #[test]
    fn intervals_together_are_as_one() {
        let (mut whole, mut parts) = (Collected::default(), [Collected::default(); 2]);
        for flow in 0..10_u32 {
            let latency_ns = f64::from(flow + 1) * 1e6;
            whole.add(latency_ns, flow);
            parts[flow as usize % 2].add(latency_ns, flow);
        }
        let [mut both, second] = parts;
        both.merge(&second);
        assert_eq!(both, whole);
    }

    #[test]
    fn many_flows_make_it_sure() {
        let mut collected = Collected::default();
        for flow in 0..400 {
            collected.add(if flow % 2 == 0 { 1e6 } else { 3e6 }, 10);
        }
        let latency = collected.latency().unwrap();
        // The deviation is half of the mean, the root of 400 is 20.
        assert!((latency.error - 0.025).abs() < 1e-6, "{latency:?}");
    }
}
