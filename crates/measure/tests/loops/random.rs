//! Numbers that a seed makes.

use std::f64::consts::TAU;
use std::time::Duration;

/// Times that a server works or a client thinks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Times {
    Constant(Duration),
    /// With this mean.
    Exponential(Duration),
    /// With this median, and this standard deviation of the logarithm.
    Lognormal(Duration, f64),
}

/// Xorshift, after Marsaglia.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 up to 1, without 1.
    pub(crate) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to `limit`, without it.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// With this average.
    #[expect(
        clippy::cast_sign_loss,
        reason = "a logarithm of at most one is not positive"
    )]
    pub(crate) fn exponential(&mut self, average: Duration) -> u64 {
        (-(1.0 - self.part()).ln() * average.as_nanos() as f64) as u64
    }

    /// In ns.
    #[expect(clippy::cast_sign_loss, reason = "an exponential is not negative")]
    pub(crate) fn draw(&mut self, times: Times) -> u64 {
        match times {
            Times::Constant(time) => time.as_nanos() as u64,
            Times::Exponential(mean) => self.exponential(mean),
            Times::Lognormal(median, deviation) => {
                let radius = (-2.0 * (1.0 - self.part()).ln()).sqrt();
                let normal = radius * (TAU * self.part()).cos();
                (median.as_nanos() as f64 * (deviation * normal).exp()) as u64
            }
        }
    }
}
