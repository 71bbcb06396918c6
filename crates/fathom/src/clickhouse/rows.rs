//! Records as rows of ClickHouse's `RowBinary`.

use std::fmt::Write as _;

use fathom_record::{Histogram, Record, Schema, Type, Value};

/// Rows of one kind.
pub(super) struct Rows {
    pub(super) schema: &'static Schema,
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    text: String,
}

impl Rows {
    pub(super) fn new(schema: &'static Schema) -> Self {
        Self {
            schema,
            bytes: Vec::new(),
            count: 0,
            text: String::new(),
        }
    }

    /// Adds a row of this host, which comes in this batch.
    pub(super) fn put(&mut self, record: &dyn Record, host: &str, block: &str) {
        put_text(&mut self.bytes, host);
        for (index, field) in self.schema.fields.iter().enumerate() {
            let value = record.value(index);
            match field.kind {
                Type::Histogram => self.put_histogram(value),
                // The key, which every record has.
                Type::Time if field.name == "time" => {
                    let Value::Time(ns) = value else {
                        self.bytes.extend(0_u64.to_le_bytes());
                        continue;
                    };
                    self.bytes.extend(ns.to_le_bytes());
                }
                _ => self.put_nullable(value),
            }
        }
        put_text(&mut self.bytes, block);
        self.bytes.extend(self.count.to_le_bytes());
        self.count += 1;
    }

    fn put_nullable(&mut self, value: Value<'_>) {
        if matches!(value, Value::Missing | Value::Histogram(_)) {
            self.bytes.push(1);
            return;
        }
        self.bytes.push(0);
        self.text.clear();
        // Writing to memory does not fail.
        let _ = match value {
            Value::Unsigned(number) | Value::Duration(number) | Value::Time(number) => {
                self.bytes.extend(number.to_le_bytes());
                return;
            }
            Value::Float(number) => {
                self.bytes.extend(number.to_le_bytes());
                return;
            }
            Value::Port(port) => {
                self.bytes.extend(port.to_le_bytes());
                return;
            }
            Value::Boolean(answer) => {
                self.bytes.push(answer.into());
                return;
            }
            Value::Text(text) => {
                put_text(&mut self.bytes, text);
                return;
            }
            Value::Address(address) => write!(self.text, "{address}"),
            Value::Protocol(protocol) => write!(self.text, "{protocol}"),
            Value::Network(network) => write!(self.text, "{network}"),
            Value::CommunityId(id) => write!(self.text, "{id}"),
            Value::Missing | Value::Histogram(_) => Ok(()),
        };
        put_text(&mut self.bytes, &self.text);
    }

    /// Where buckets begin, and how many samples they have: two arrays.
    fn put_histogram(&mut self, value: Value<'_>) {
        let none = Histogram::new();
        let histogram = match value {
            Value::Histogram(histogram) => histogram,
            _ => &none,
        };
        let length = histogram.buckets().count();
        put_length(&mut self.bytes, length);
        for (bucket, _) in histogram.buckets() {
            let begin = *Histogram::bucket_bounds(bucket).start();
            self.bytes.extend(begin.to_le_bytes());
        }
        put_length(&mut self.bytes, length);
        for (_, count) in histogram.buckets() {
            self.bytes.extend(count.to_le_bytes());
        }
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
