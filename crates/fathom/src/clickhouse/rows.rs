//! Columns of records as rows of ClickHouse's `RowBinary`.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt16Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema as Columns};
use fathom_record::Histogram;
use fathom_store::{HistogramColumn, Number};

use super::schema::{ROW_NAME, histogram_columns};

/// Rows of one kind, which have the same columns.
pub(super) struct Rows {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            count: 0,
        }
    }

    /// Adds those of a batch, each with the batch and its number there as its name.
    pub(super) fn put(&mut self, number: &Number, rows: &RecordBatch) {
        let block = format!("{:032x}-{}", number.spool, number.sequence);
        let columns: Vec<_> = rows
            .columns()
            .iter()
            .zip(rows.schema_ref().fields())
            .collect();
        for row in 0..rows.num_rows() {
            for (column, field) in &columns {
                put_value(&mut self.bytes, column, row, is_key(field.name()));
            }
            put_text(&mut self.bytes, &block);
            self.bytes.extend((row as u32).to_le_bytes());
        }
        self.count += rows.num_rows() as u64;
    }
}

/// What each row has: the columns of `host` and `time`, which others need not have.
fn is_key(name: &str) -> bool {
    matches!(name, "host" | "time")
}

/// The columns in the order that rows have them, as a statement names them.
pub(super) fn column_names(columns: &Columns) -> String {
    let mut names = Vec::new();
    for column in columns.fields() {
        match column.data_type() {
            DataType::List(_) => names.extend(histogram_columns(column.name())),
            _ => names.push(column.name().clone()),
        }
    }
    names.extend(ROW_NAME.map(str::to_owned));
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

fn put_value(bytes: &mut Vec<u8>, column: &ArrayRef, row: usize, is_key: bool) {
    if let DataType::List(_) = column.data_type() {
        let histogram = HistogramColumn::of(column.as_list());
        let histogram = histogram.and_then(|column| column.histogram(row));
        put_histogram(bytes, histogram.as_ref());
        return;
    }
    if !is_key {
        bytes.push(column.is_null(row).into());
        if column.is_null(row) {
            return;
        }
    }
    // What is absent is 0 or empty, as Arrow has it.
    match column.data_type() {
        DataType::UInt16 => {
            let ports = column.as_primitive::<UInt16Type>();
            bytes.extend(ports.value(row).to_le_bytes());
        }
        DataType::Float64 => {
            let numbers = column.as_primitive::<Float64Type>();
            bytes.extend(numbers.value(row).to_le_bytes());
        }
        DataType::Boolean => bytes.push(column.as_boolean().value(row).into()),
        DataType::Utf8 => put_text(bytes, column.as_string::<i32>().value(row)),
        DataType::Timestamp(..) => {
            let times = column.as_primitive::<TimestampNanosecondType>();
            bytes.extend(times.value(row).to_le_bytes());
        }
        _ => {
            let numbers = column.as_primitive::<UInt64Type>();
            bytes.extend(numbers.value(row).to_le_bytes());
        }
    }
}

/// Where buckets begin, and how many samples they have: two arrays.
fn put_histogram(bytes: &mut Vec<u8>, histogram: Option<&Histogram>) {
    let buckets = || histogram.into_iter().flat_map(Histogram::buckets);
    let length = buckets().count();
    put_length(bytes, length);
    for (bucket, _) in buckets() {
        let begin = *Histogram::bucket_bounds(bucket).start();
        bytes.extend(begin.to_le_bytes());
    }
    put_length(bytes, length);
    for (_, count) in buckets() {
        bytes.extend(count.to_le_bytes());
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_length(bytes, text.len());
    bytes.extend(text.as_bytes());
}

/// Seven bits a byte, the lowest first (LEB128).
fn put_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_leb128() {
        for (length, bytes) in [(0, &[0][..]), (127, &[127]), (300, &[0xac, 2])] {
            let mut written = Vec::new();
            put_length(&mut written, length);
            assert_eq!(written, bytes);
        }
    }
}
