//! The part of the connections that is measured, as the load allows.

use libbpf_rs::MapCore;

use super::mapped::Mapped;
use super::object::Program;
use crate::Error;
use crate::config::Config;
use crate::sampling::sampled_buckets;

/// What tells the program of how many buckets of its table the connections are measured.
pub(super) struct Sampling {
    buckets: Mapped<u64>,
    /// Of the table.
    all: u64,
    /// As many as are configured.
    most: u64,
    /// Packets a second that may be measured; none: all.
    limit: Option<u32>,
    /// Packets that had been measured, and when that was, in nanoseconds.
    last: Option<(u64, u64)>,
}

impl Sampling {
    /// Goes on with what is there, if it is no more than is configured.
    pub(super) fn open(program: &Program, config: &Config) -> Result<Self, Error> {
        let all = u64::from(program.map("balance_buckets")?.max_entries());
        let sampling = Self {
            buckets: Mapped::new(program.map("balance_sampling")?)?,
            all,
            most: (all / u64::from(config.measured_in)).max(1),
            limit: config.measured_packets,
            last: None,
        };
        let before = sampling.buckets.get(0);
        let is_kept = sampling.limit.is_some() && (1..sampling.most).contains(&before);
        let buckets = if is_kept { before } else { sampling.most };
        sampling.buckets.set_word(0, &buckets);
        Ok(sampling)
    }

    /// So many packets have been measured until now. Returns one in how many connections is measured from now on, if that changes.
    pub(super) fn adapt(&mut self, measured: u64, now: u64) -> Option<u64> {
        let (before, then) = self.last.replace((measured, now))?;
        let limit = f64::from(self.limit?);
        let seconds = now.saturating_sub(then) as f64 / 1e9;
        let rate = measured.saturating_sub(before) as f64 / seconds.max(1e-3);
        let buckets = self.buckets.get(0);
        let next = sampled_buckets(buckets, self.most, rate, limit);
        self.buckets.set_word(0, &next);
        (next != buckets).then(|| self.all / next)
    }
}
