//! The part of the connections that is measured, as the load allows.

use libbpf_rs::MapCore;

use super::mapped_array::MappedArray;
use super::object::Program;
use crate::Error;
use crate::config::Config;
use crate::sampling::{Counted, Limits, Sampler};

/// What tells the program of how many buckets of its table the connections are measured.
pub(super) struct Sampling {
    buckets: MappedArray<u64>,
    /// All buckets of the table.
    all: u64,
    /// As many as are configured.
    most: u64,
    /// None: all are measured.
    limits: Option<Limits>,
    sampler: Sampler,
}

impl Sampling {
    /// Goes on with what is there, if it is no more than is configured.
    pub(super) fn open(program: &Program, config: &Config) -> Result<Self, Error> {
        let all = u64::from(program.map("balance_buckets")?.max_entries());
        let sampling = Self {
            buckets: MappedArray::new(program.map("balance_sampling")?)?,
            all,
            most: (all / u64::from(config.measured_in)).max(1),
            limits: Limits::of(config),
            sampler: Sampler::new(config.epoch),
        };
        let before = sampling.buckets.get(0);
        let is_kept = sampling.limits.is_some() && (1..sampling.most).contains(&before);
        let buckets = if is_kept { before } else { sampling.most };
        sampling.buckets.set_word(0, &buckets);
        Ok(sampling)
    }

    /// Returns one in how many connections is measured from now on, if that changes.
    pub(super) fn adapt(&mut self, counted: Counted) -> Option<u64> {
        let limits = self.limits?;
        let buckets = self.buckets.get(0);
        let next = self.sampler.next(buckets, self.most, limits, counted);
        self.buckets.set_word(0, &next);
        (next != buckets).then(|| self.all / next)
    }
}
