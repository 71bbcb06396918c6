//! A distribution of durations, or a course of numbers, in one line.

use fathom_record::Histogram;

/// Columns of a histogram: three for each power of ten from 10 us to 10 s; what is beyond is in the
/// outermost.
pub const BARS: usize = 18;
/// What the columns mean, as wide as they are.
pub const AXIS: &str = "10us  1ms   .1s   ";

const FIRST_NS: f64 = 10_000.0;
const COLUMNS_PER_DECADE: f64 = 3.0;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for every column, its height relative to the highest. A single sample is seen, too.
pub fn bars(distribution: &Histogram) -> String {
    let mut columns = [0_u64; BARS];
    for (bucket, count) in distribution.buckets() {
        columns[column_of(*Histogram::bucket_bounds(bucket).start())] += count;
    }
    bars_of(&columns)
}

/// A bar for each number, its height relative to the highest; what is not 0 is seen.
pub fn bars_of(numbers: &[u64]) -> String {
    let highest = numbers.iter().copied().max().unwrap_or_default().max(1);
    let bar = |&number: &u64| match number {
        0 => ' ',
        number => {
            let level = (u128::from(number) * BLOCKS.len() as u128).div_ceil(u128::from(highest));
            BLOCKS[level as usize - 1]
        }
    };
    numbers.iter().map(bar).collect()
}

#[expect(
    clippy::cast_sign_loss,
    reason = "it is not negative, having been compared"
)]
fn column_of(ns: u64) -> usize {
    let column = ((ns as f64 / FIRST_NS).log10() * COLUMNS_PER_DECADE).floor();
    if column > 0.0 {
        (column as usize).min(BARS - 1)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_where_the_axis_says() {
        assert_eq!(AXIS.len(), BARS);
        let mut distribution = Histogram::new();
        assert_eq!(bars(&distribution).trim(), "");
        distribution.record_many(1_050_000, 800);
        distribution.record_many(110_000_000, 1);
        distribution.record_many(1, 400);
        assert_eq!(bars(&distribution), "▄     █     ▁     ");
        distribution.record_many(u64::MAX, 800);
        assert_eq!(bars(&distribution), "▄     █     ▁    █");
        assert_eq!(column_of(0), 0);
    }
}
