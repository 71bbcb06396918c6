//! One JSON object a line.

use std::fmt::Write as _;

use super::Sink;
use super::clock::Clock;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain};
use crate::{Record, Schema, Value};

/// Writes one JSON object a line, `"kind"` first, then the fields in order under their names.
///
/// Numbers are raw, in the unit of their name, and reach 2^64 - 1. Times are RFC 3339 in UTC with nanoseconds. Missing fields are
/// left out; a floating-point number that JSON cannot say is null. A protocol is always a string.
#[derive(Debug, Clone, Default)]
pub struct JsonWriter {
    kinds: PerSchema<Prepared>,
    clock: Clock,
    line: Line,
}

#[derive(Debug, Clone)]
struct Prepared {
    /// `{"kind":"rtt"`
    start: Piece,
    /// `,"rtt_ns":` for each field
    names: Vec<Piece>,
}

impl Prepared {
    fn new(schema: &'static Schema) -> Self {
        let mut line = Line::default();
        line.slice(b"{\"kind\":");
        put_text(&mut line, schema.kind);
        let start = Piece::new(line.bytes());
        let names = schema.fields.iter().map(|field| {
            line.restart();
            line.byte(b',');
            put_text(&mut line, field.name);
            line.byte(b':');
            Piece::new(line.bytes())
        });
        Self {
            start,
            names: names.collect(),
        }
    }
}

impl Sink for JsonWriter {
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>) {
        let Self { kinds, clock, line } = self;
        let (prepared, _) = kinds.get(record.schema(), Prepared::new);
        line.restart();
        line.piece(&prepared.start);
        for (index, name) in prepared.names.iter().enumerate() {
            let value = record.value(index);
            if value == Value::Missing {
                continue;
            }
            line.piece(name);
            match value {
                Value::Unsigned(_) | Value::Duration(_) | Value::Port(_) | Value::Boolean(_) => {
                    put_plain(line, clock, value);
                }
                Value::Float(number) => put_float(line, number),
                Value::Text(text) => put_text(line, text),
                _ => {
                    line.byte(b'"');
                    put_plain(line, clock, value);
                    line.byte(b'"');
                }
            }
        }
        line.slice(b"}\n");
        out.extend_from_slice(line.bytes());
    }
}

fn put_float(line: &mut Line, number: f64) {
    if number.is_finite() {
        // The shortest digits that read back as the same number. Writing to memory does not fail.
        let _ = write!(line, "{number:?}");
    } else {
        line.slice(b"null");
    }
}

/// A JSON string (RFC 8259, section 7).
fn put_text(line: &mut Line, text: &str) {
    line.byte(b'"');
    let mut rest = text.as_bytes();
    while let Some(position) = rest
        .iter()
        .position(|&byte| matches!(byte, b'"' | b'\\' | 0..0x20))
    {
        line.slice(&rest[..position]);
        match rest[position] {
            b'\n' => line.slice(b"\\n"),
            b'\t' => line.slice(b"\\t"),
            byte @ 0..0x20 => {
                // Writing to memory does not fail.
                let _ = write!(line, "\\u{byte:04x}");
            }
            byte => line.slice(&[b'\\', byte]),
        }
        rest = &rest[position + 1..];
    }
    line.slice(rest);
    line.byte(b'"');
}
