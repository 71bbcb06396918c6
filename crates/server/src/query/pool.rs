//! The memory that a question may take.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    FairSpillPool, GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// What the consumers are called that merge sorted rows: each takes all that it gets, and does with
/// less.
const MERGE: &str = "ExternalSorterMerge[";

/// A third is for what sorts and groups: in equal shares, and what they need more goes to files.
/// The rest is left to what cannot do that: joins, and the merging of sorted rows, which takes as
/// much again as these. Streams of rows that are merged get equal shares of it, and one is left.
#[derive(Debug)]
pub(super) struct Pool {
    spilling: FairSpillPool,
    others: GreedyMemoryPool,
    merges: Mutex<HashMap<usize, usize>>,
    most_merge_bytes: usize,
}

impl Pool {
    /// Of so many bytes, where plans have so many streams.
    pub(super) fn new(bytes: usize, streams: usize) -> Self {
        let others = bytes - bytes / 3;
        Self {
            spilling: FairSpillPool::new(bytes / 3),
            others: GreedyMemoryPool::new(others),
            merges: Mutex::default(),
            most_merge_bytes: others / (streams + 1),
        }
    }

    fn of(&self, consumer: &MemoryConsumer) -> &dyn MemoryPool {
        if consumer.can_spill() {
            &self.spilling
        } else {
            &self.others
        }
    }

    /// What each consumer has that merges sorted rows.
    fn merges(&self) -> MutexGuard<'_, HashMap<usize, usize>> {
        self.merges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGE)
}

impl MemoryPool for Pool {
    fn name(&self) -> &'static str {
        "thirds"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.of(consumer).register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.merges().remove(&consumer.id());
        self.of(consumer).unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let consumer = reservation.consumer();
        if is_merge(consumer) {
            *self.merges().entry(consumer.id()).or_default() += additional;
        }
        self.of(consumer).grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let consumer = reservation.consumer();
        if let Some(bytes) = self.merges().get_mut(&consumer.id()) {
            *bytes = bytes.saturating_sub(shrink);
        }
        self.of(consumer).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        if !is_merge(consumer) {
            return self.of(consumer).try_grow(reservation, additional);
        }
        let mut merges = self.merges();
        let bytes = merges.entry(consumer.id()).or_default();
        if *bytes + additional > self.most_merge_bytes {
            return Err(resources_datafusion_err!(
                "{} has {bytes} bytes, and may have {}: allow more with --memory",
                consumer.name(),
                self.most_merge_bytes
            ));
        }
        self.of(consumer).try_grow(reservation, additional)?;
        *bytes += additional;
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int64Type;

    use super::super::engine::empty_context as context;
    use super::*;
    use datafusion::execution::cache::cache_manager::CacheManagerConfig;

    #[test]
    fn merges_share() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(900, 2));
        let consumer = |name: &str| MemoryConsumer::new(name).register(&pool);
        let (one, other) = (
            consumer("ExternalSorterMerge[0]"),
            consumer("ExternalSorterMerge[1]"),
        );
        let part = one.new_empty();
        one.try_grow(150).unwrap();
        part.try_grow(50).unwrap();
        assert!(part.try_grow(1).is_err());
        other.try_grow(200).unwrap();
        one.shrink(100);
        part.try_grow(100).unwrap();
        let join = consumer("HashJoinInput");
        join.try_grow(200).unwrap();
        assert!(join.try_grow(1).is_err());
        drop((one, part, other));
        join.try_grow(400).unwrap();
    }

    /// 120 MB, of which a third of the memory holds 43.
    #[test]
    fn more_than_the_memory_is_sorted() {
        let context = context(128, CacheManagerConfig::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let all = "SELECT value, repeat('x', 300) AS text FROM generate_series(1, 400000) ORDER BY value DESC";
        let rows = async { context.sql(all).await.unwrap().collect().await.unwrap() };
        let rows = runtime.block_on(rows);
        let values = rows
            .iter()
            .flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values());
        assert!(values.copied().eq((1..=400_000).rev()));
    }
}
