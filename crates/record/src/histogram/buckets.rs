//! The buckets of a histogram: their bounds, and how they are stored.

use std::ops::RangeInclusive;

/// Buckets to an octave. The middle of a bucket is at most 1/64 = 1.5625 % away from any value in
/// it.
const BUCKETS_PER_OCTAVE: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 5;
/// The first octave begins at 512 ns, below 1 us, and the last one ends at 137 s, above 100 s.
const FIRST_OCTAVE: u32 = 9;
const LAST_OCTAVE: u32 = 36;
/// How many buckets there are.
pub(super) const BUCKET_COUNT: usize =
    (LAST_OCTAVE - FIRST_OCTAVE + 1) as usize * BUCKETS_PER_OCTAVE;
/// The most buckets in a sorted list. More would still take less memory than the array of all (7168
/// bytes), but adding one more would move kilobytes, and a flow so scattered is no longer one of
/// many small ones.
const LONGEST_LIST: usize = 512;

/// Samples by bucket.
#[derive(Debug, Clone)]
pub(super) enum Buckets {
    /// Those that are not empty, in order.
    List(Vec<Listed>),
    Array(Box<[u64; BUCKET_COUNT]>),
}

/// A bucket that is not empty. The count comes in halves to take 6 bytes and not 8.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listed {
    bucket: u16,
    count_low: u16,
    count_high: u16,
}

impl Listed {
    const fn new(bucket: u16, count: u32) -> Self {
        Self {
            bucket,
            count_low: count as u16,
            count_high: (count >> 16) as u16,
        }
    }

    const fn count(self) -> u32 {
        self.count_low as u32 | (self.count_high as u32) << 16
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new()
    }
}

impl Buckets {
    /// All empty, without allocating.
    pub(super) const fn new() -> Self {
        Self::List(Vec::new())
    }

    /// Adds samples to one.
    pub(super) fn add(&mut self, bucket: u16, count: u64) {
        match self {
            Self::List(list) => {
                if !add_to_list(list, bucket, count) {
                    let mut array = Box::new([0; BUCKET_COUNT]);
                    for listed in list {
                        array[usize::from(listed.bucket)] = u64::from(listed.count());
                    }
                    array[usize::from(bucket)] += count;
                    *self = Self::Array(array);
                }
            }
            Self::Array(array) => array[usize::from(bucket)] += count,
        }
    }

    /// Empties all of them and keeps their memory.
    pub(super) fn clear(&mut self) {
        match self {
            Self::List(list) => list.clear(),
            Self::Array(array) => array.fill(0),
        }
    }

    /// Those that are not empty, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let (list, array): (&[Listed], &[u64]) = match self {
            Self::List(list) => (list, &[]),
            Self::Array(array) => (&[], array.as_slice()),
        };
        let listed = list
            .iter()
            .map(|listed| (listed.bucket, u64::from(listed.count())));
        let in_array = (0..)
            .zip(array)
            .filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| (bucket, count));
        listed.chain(in_array)
    }

    /// Bytes allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::List(list) => list.capacity() * size_of::<Listed>(),
            Self::Array(_) => size_of::<[u64; BUCKET_COUNT]>(),
        }
    }
}

/// False when the list cannot take it: too many buckets, or too many samples in one.
fn add_to_list(list: &mut Vec<Listed>, bucket: u16, count: u64) -> bool {
    match list.binary_search_by_key(&bucket, |listed| listed.bucket) {
        Ok(position) => {
            let Some(sum) = u64::from(list[position].count())
                .checked_add(count)
                .and_then(|sum| u32::try_from(sum).ok())
            else {
                return false;
            };
            list[position] = Listed::new(bucket, sum);
        }
        Err(position) => {
            let Ok(count) = u32::try_from(count) else {
                return false;
            };
            if list.len() == LONGEST_LIST {
                return false;
            }
            if list.len() == list.capacity() {
                // By a quarter, not by double: with a hundred thousand flows the slack is what
                // counts.
                list.reserve_exact((list.len() / 4).max(4));
            }
            list.insert(position, Listed::new(bucket, count));
        }
    }
    true
}

/// The bucket in which a duration counts.
pub(super) const fn bucket_of(ns: u64) -> u16 {
    if ns < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = ns.ilog2();
    if octave > LAST_OCTAVE {
        return BUCKET_COUNT as u16 - 1;
    }
    let within = (ns >> (octave - BUCKET_BITS)) as u16 - BUCKETS_PER_OCTAVE as u16;
    (octave - FIRST_OCTAVE) as u16 * BUCKETS_PER_OCTAVE as u16 + within
}

/// The smallest duration of a bucket, the outer ones taken without what they have to absorb.
const fn start_of(bucket: usize) -> u64 {
    let octave = FIRST_OCTAVE + (bucket / BUCKETS_PER_OCTAVE) as u32;
    let within = (bucket % BUCKETS_PER_OCTAVE) as u64;
    (BUCKETS_PER_OCTAVE as u64 + within) << (octave - BUCKET_BITS)
}

/// What a bucket's samples are taken for.
pub(super) const fn middle_of(bucket: usize) -> u64 {
    let octave = FIRST_OCTAVE + (bucket / BUCKETS_PER_OCTAVE) as u32;
    start_of(bucket) + (1 << (octave - BUCKET_BITS - 1))
}

/// The nanoseconds that count in a bucket, for any index past the last those of the last.
pub(super) fn bounds_of(bucket: u16) -> RangeInclusive<u64> {
    let bucket = usize::from(bucket).min(BUCKET_COUNT - 1);
    let first = if bucket == 0 { 0 } else { start_of(bucket) };
    let last = if bucket == BUCKET_COUNT - 1 {
        u64::MAX
    } else {
        start_of(bucket + 1) - 1
    };
    first..=last
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn buckets_tile_all_durations() {
        assert_eq!(*bounds_of(0).start(), 0);
        for bucket in 0..BUCKET_COUNT as u16 {
            let bounds = bounds_of(bucket);
            assert_eq!(
                (bucket_of(*bounds.start()), bucket_of(*bounds.end())),
                (bucket, bucket)
            );
            if usize::from(bucket) + 1 < BUCKET_COUNT {
                assert_eq!(*bounds_of(bucket + 1).start(), bounds.end() + 1);
            } else {
                assert_eq!(*bounds.end(), u64::MAX);
            }
        }
    }

    #[test]
    fn every_bucket_is_narrow_enough() {
        for bucket in bucket_of(MICROSECOND)..=bucket_of(100 * SECOND) {
            let bucket = usize::from(bucket);
            for extreme in [start_of(bucket), start_of(bucket + 1) - 1] {
                let error = middle_of(bucket).abs_diff(extreme) as f64 / extreme as f64;
                assert!(error <= 1.0 / 64.0, "{error} in bucket {bucket}");
            }
        }
    }
}
