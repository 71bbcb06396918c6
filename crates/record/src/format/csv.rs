//! Comma-separated values.

use std::fmt::Write as _;

use super::Sink;
use super::clock::Clock;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain};
use crate::{Record, Schema, Value};

/// Writes comma-separated values: the column `kind`, then one for each field.
///
/// The first record of each kind is preceded by a header line with the names of its columns, so that a stream of one kind is a table,
/// and one of several is told apart by the first column. Values are quoted as RFC 4180 says; lines end with a line feed alone, as
/// everywhere on Unix. Values are those of [`JsonWriter`](super::JsonWriter), missing ones and floating-point numbers that are none
/// empty.
#[derive(Debug, Clone, Default)]
pub struct CsvWriter {
    kinds: PerSchema<Prepared>,
    clock: Clock,
    line: Line,
}

#[derive(Debug, Clone)]
struct Prepared {
    header: Box<[u8]>,
    kind: Piece,
    field_count: usize,
}

impl Prepared {
    fn new(schema: &'static Schema) -> Self {
        let mut line = Line::default();
        put_text(&mut line, schema.kind);
        let kind = Piece::new(line.bytes());
        line.restart();
        line.slice(b"kind");
        for field in schema.fields {
            line.byte(b',');
            put_text(&mut line, field.name);
        }
        line.byte(b'\n');
        Self {
            header: line.bytes().into(),
            kind,
            field_count: schema.fields.len(),
        }
    }
}

impl Sink for CsvWriter {
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>) {
        let Self { kinds, clock, line } = self;
        let (prepared, is_new) = kinds.get(record.schema(), Prepared::new);
        if is_new {
            out.extend_from_slice(&prepared.header);
        }
        line.restart();
        line.piece(&prepared.kind);
        for index in 0..prepared.field_count {
            line.byte(b',');
            match record.value(index) {
                Value::Text(text) => put_text(line, text),
                Value::Float(number) if number.is_finite() => {
                    // The shortest digits that read back as the same number. Writing to memory does not fail.
                    let _ = write!(line, "{number:?}");
                }
                value => put_plain(line, clock, value),
            }
        }
        line.byte(b'\n');
        out.extend_from_slice(line.bytes());
    }
}

/// A value in quotes if it needs them (RFC 4180, section 2).
fn put_text(line: &mut Line, text: &str) {
    if !text
        .bytes()
        .any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'))
    {
        return line.slice(text.as_bytes());
    }
    line.byte(b'"');
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            line.slice(b"\"\"");
        }
        line.slice(part.as_bytes());
    }
    line.byte(b'"');
}
