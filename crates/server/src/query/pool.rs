//! The memory that a question may take.

use std::fmt;

use datafusion::common::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// A third is for what sorts and groups: in equal shares, and what they need more goes to files.
/// The rest is left to what cannot do that: joins, and the merging of sorted rows, which takes as
/// much again as these.
#[derive(Debug)]
pub(super) struct Pool {
    spilling: FairSpillPool,
    others: GreedyMemoryPool,
}

impl Pool {
    /// Of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            spilling: FairSpillPool::new(bytes / 3),
            others: GreedyMemoryPool::new(bytes - bytes / 3),
        }
    }

    fn of(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        if consumer.can_spill() {
            &self.spilling
        } else {
            &self.others
        }
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &'static str {
        "thirds"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.of(consumer).register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.of(consumer).unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.of(reservation.consumer())
            .grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.of(reservation.consumer()).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.of(reservation.consumer())
            .try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.spilling.reserved() + self.others.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        match (self.spilling.memory_limit(), self.others.memory_limit()) {
            (MemoryLimit::Finite(one), MemoryLimit::Finite(other)) => {
                MemoryLimit::Finite(one + other)
            }
            _ => MemoryLimit::Unknown,
        }
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {}", self.spilling, self.others)
    }
}
