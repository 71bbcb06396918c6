//! How long servers take, and clients think.

use std::f64::consts::TAU;
use std::time::Duration;

use crate::random::Sequence;

/// How long the server takes for a request, or a client to think of its next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// Always the same.
    Constant(Duration),
    /// Any time between the two, all alike.
    Uniform(Duration, Duration),
    /// Exponential, with this mean.
    Exponential(Duration),
    /// Lognormal, with this median and standard deviation of the logarithm.
    Lognormal(Duration, f64),
    /// One of two, the second with this probability.
    Bimodal(Duration, Duration, f64),
    /// A mean, with an amplitude and a period.
    Sine(Duration, Duration, Duration),
    /// One of two, for so long each.
    Step(Duration, Duration, Duration),
}

/// Draws such times.
#[derive(Debug)]
pub(super) struct Draw {
    service: Service,
    random: Sequence,
}

impl Draw {
    pub(super) fn new(service: Service, seed: u64) -> Self {
        Self {
            service,
            random: Sequence::new(seed),
        }
    }

    /// The next one, so long after the start.
    pub(super) fn next(&mut self, since_start: Duration) -> Duration {
        let seconds = match self.service {
            Service::Constant(time) => time.as_secs_f64(),
            Service::Uniform(least, most) => {
                let width = most.as_secs_f64() - least.as_secs_f64();
                least.as_secs_f64() + width * self.random.uniform()
            }
            Service::Exponential(mean) => self.random.exponential(mean.as_secs_f64()),
            Service::Lognormal(median, deviation) => {
                let radius = (-2.0 * (1.0 - self.random.uniform()).ln()).sqrt();
                let normal = radius * (TAU * self.random.uniform()).cos();
                median.as_secs_f64() * (deviation * normal).exp()
            }
            Service::Bimodal(first, second, probability) => {
                let is_second = self.random.uniform() < probability;
                (if is_second { second } else { first }).as_secs_f64()
            }
            Service::Sine(mean, amplitude, period) => {
                let phase = TAU * since_start.as_secs_f64() / period.as_secs_f64();
                mean.as_secs_f64() + amplitude.as_secs_f64() * phase.sin()
            }
            Service::Step(first, second, each) => {
                let steps = since_start.as_nanos() / each.as_nanos().max(1);
                (if steps.is_multiple_of(2) {
                    first
                } else {
                    second
                })
                .as_secs_f64()
            }
        };
        Duration::from_secs_f64(seconds.clamp(0.0, 60.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn mean_ms(service: Service) -> f64 {
        let mut draw = Draw::new(service, 7);
        let times = (0..20_000).map(|number| draw.next(number * MILLISECOND).as_secs_f64() * 1e3);
        times.sum::<f64>() / 20_000.0
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        let services = [
            (Service::Constant(2 * MILLISECOND), 2.0),
            (Service::Uniform(MILLISECOND, 3 * MILLISECOND), 2.0),
            (Service::Exponential(2 * MILLISECOND), 2.0),
            (Service::Lognormal(MILLISECOND, 0.5), (0.125_f64).exp()),
            (Service::Bimodal(MILLISECOND, 9 * MILLISECOND, 0.25), 3.0),
            (
                Service::Sine(2 * MILLISECOND, MILLISECOND, 1000 * MILLISECOND),
                2.0,
            ),
            (
                Service::Step(MILLISECOND, 3 * MILLISECOND, 1000 * MILLISECOND),
                2.0,
            ),
        ];
        for (service, expected) in services {
            let mean = mean_ms(service);
            assert!(
                (mean - expected).abs() < 0.05 * expected,
                "{service:?}: {mean}"
            );
        }
    }
}
