//! One JSON object a line.

use std::fmt::Write as _;

use super::Sink;
use super::clock::Clock;
use super::flows::ShownFlows;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain};
use crate::parts::Part as _;
use crate::{FlowKey, Record, Schema, Type, Value, Visitor};

/// Writes one JSON object a line, `"kind"` first, then the fields in order under their names.
///
/// Numbers are raw, in the unit of their name, and reach 2^64 - 1. Times are RFC 3339 in UTC with
/// nanoseconds. Missing fields are left out; a floating-point number that JSON cannot say is null.
/// A protocol is always a string.
#[derive(Debug, Clone, Default)]
pub struct JsonWriter {
    host: Option<Box<str>>,
    kinds: PerSchema<Prepared>,
    flows: ShownFlows,
    clock: Clock,
    line: Line,
}

impl JsonWriter {
    /// One whose records were observed by this host: `"host"`, behind `"kind"`.
    pub fn of_host(host: &str) -> Self {
        Self {
            host: Some(host.into()),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone)]
struct Prepared {
    /// `{"kind":"rtt","host":"gateway"`
    start: Piece,
    /// `,"rtt_ns":` for each field, with the quote that begins a string
    names: Vec<Piece>,
}

impl Prepared {
    fn new(schema: &'static Schema, host: Option<&str>) -> Self {
        let mut line = Line::default();
        line.slice(b"{\"kind\":");
        put_text(&mut line, schema.kind);
        if let Some(host) = host {
            line.slice(b",\"host\":");
            put_text(&mut line, host);
        }
        let start = Piece::new(line.bytes());
        let names = schema.scalars().iter().map(|field| {
            line.restart();
            line.byte(b',');
            put_text(&mut line, field.name);
            line.byte(b':');
            if let Type::Text
            | Type::Time
            | Type::Address
            | Type::Protocol
            | Type::Network
            | Type::CommunityId = field.kind
            {
                line.byte(b'"');
            }
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
        let Self {
            host,
            kinds,
            flows,
            clock,
            line,
        } = self;
        let (prepared, _) = kinds.get(record.schema(), |schema| {
            Prepared::new(schema, host.as_deref())
        });
        line.restart();
        line.piece(&prepared.start);
        record.visit(&mut Members {
            names: &prepared.names,
            flows,
            clock,
            line,
        });
        line.slice(b"}\n");
        out.extend_from_slice(line.bytes());
    }
}

/// What follows the kind of a record.
struct Members<'a> {
    names: &'a [Piece],
    flows: &'a mut ShownFlows,
    clock: &'a mut Clock,
    line: &'a mut Line,
}

impl Visitor for Members<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        let Some(name) = self.names.get(index) else {
            return;
        };
        self.line.piece(name);
        put_value(self.line, self.clock, value);
    }

    fn flow(&mut self, index: usize, flow: &FlowKey) {
        if self.flows.put(self.line, flow) {
            return;
        }
        let start = self.line.bytes().len();
        for offset in 0..FlowKey::SHAPE.width() {
            self.value(index + offset, flow.part(offset));
        }
        self.flows.keep(flow, self.line, start);
    }
}

/// A value, with the quote that ends a string.
#[inline]
fn put_value(line: &mut Line, clock: &mut Clock, value: Value<'_>) {
    match value {
        Value::Float(number) => put_float(line, number),
        Value::Text(text) if line.plain(text, [b'"', b'\\']) => {}
        Value::Text(text) => put_escaped(line, text),
        _ => put_plain(line, clock, value),
    }
    if let Value::Text(_)
    | Value::Time(_)
    | Value::Address(_)
    | Value::Protocol(_)
    | Value::Network(_)
    | Value::CommunityId(_) = value
    {
        line.byte(b'"');
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
    put_escaped(line, text);
    line.byte(b'"');
}

/// What stands between the quotes.
fn put_escaped(line: &mut Line, text: &str) {
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
}
