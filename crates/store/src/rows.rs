//! Rows and their times.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take_record_batch;

use crate::layout::HOUR_S;

/// Nanoseconds since 1970 of each row; of a kind without a time, none.
pub(crate) fn times_of(rows: &RecordBatch) -> &[i64] {
    let times = rows.column_by_name("time");
    let times = times.and_then(|column| column.as_primitive_opt::<TimestampNanosecondType>());
    times.map_or(&[], |times| &times.values()[..])
}

/// The same rows in the order of their times, of which most are so already: then nothing is copied.
/// Those of one time stay in their order.
///
/// # Errors
/// When a column cannot be put in order.
pub(crate) fn in_order(rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let times = times_of(&rows);
    if times.is_sorted() {
        return Ok(rows);
    }
    let mut order: Vec<u32> = (0..times.len() as u32).collect();
    order.sort_by_key(|&row| times[row as usize]);
    take_record_batch(&rows, &UInt32Array::from(order))
}

/// Rows of one hour in a row, and the last whole second before the first of them, since 1970: what
/// ended with an hour is of that hour. A kind without a time is of 1970.
pub(crate) fn by_hour(rows: &RecordBatch) -> Vec<(i64, RecordBatch)> {
    let second = |ns: &i64| (ns - 1).div_euclid(1_000_000_000);
    let mut seconds: Vec<_> = times_of(rows).iter().map(second).collect();
    seconds.resize(rows.num_rows(), 0);
    let hours = seconds.chunk_by(|one, next| one.div_euclid(HOUR_S) == next.div_euclid(HOUR_S));
    let mut begin = 0;
    let parts = hours.map(|seconds| {
        let part = rows.slice(begin, seconds.len());
        begin += seconds.len();
        (seconds[0], part)
    });
    parts.collect()
}
