//! What rows have in common, as bytes.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt16Type, UInt64Type};
use arrow_schema::{DataType, TimeUnit};

/// Can rows be compared by a column of this type?
pub(super) fn is_key(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Utf8
            | DataType::UInt16
            | DataType::UInt64
            | DataType::Float64
            | DataType::Boolean
            | DataType::Timestamp(TimeUnit::Nanosecond, _)
    )
}

/// Adds what a row has in a column, so that different values are different bytes.
pub(super) fn encode(column: &dyn Array, row: usize, bytes: &mut Vec<u8>) {
    bytes.push(u8::from(column.is_valid(row)));
    if column.is_null(row) {
        return;
    }
    match column.data_type() {
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        DataType::UInt16 => {
            let port = column.as_primitive::<UInt16Type>().value(row);
            bytes.extend_from_slice(&port.to_le_bytes());
        }
        DataType::UInt64 => {
            let number = column.as_primitive::<UInt64Type>().value(row);
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        DataType::Float64 => {
            let number = column.as_primitive::<Float64Type>().value(row);
            bytes.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        DataType::Boolean => bytes.push(u8::from(column.as_boolean().value(row))),
        _ => {
            let time = column.as_primitive::<TimestampNanosecondType>().value(row);
            bytes.extend_from_slice(&time.to_le_bytes());
        }
    }
}
