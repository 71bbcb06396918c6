//! Comma-separated values.

use std::fmt::Write as _;

use super::Sink;
use super::clock::Clock;
use super::flows::ShownFlows;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain};
use crate::parts::Part as _;
use crate::{FlowKey, Record, Schema, Value, Visitor};

/// Writes comma-separated values: the column `kind`, that of the host if it is told, then one for
/// each field.
///
/// The first record of each kind is preceded by a header line with the names of its columns, so
/// that a stream of one kind is a table, and one of several is told apart by the first column.
/// Values are quoted as RFC 4180 says; lines end with a line feed alone, as everywhere on Unix.
/// Values are those of [`JsonWriter`](super::JsonWriter), missing ones and floating-point numbers
/// that are none empty.
#[derive(Debug, Clone, Default)]
pub struct CsvWriter {
    host: Option<Box<str>>,
    kinds: PerSchema<Prepared>,
    flows: ShownFlows,
    clock: Clock,
    line: Line,
}

impl CsvWriter {
    /// One whose records were observed by this host: the column `host`, behind `kind`.
    pub fn of_host(host: &str) -> Self {
        Self {
            host: Some(host.into()),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone)]
struct Prepared {
    header: Box<[u8]>,
    /// The values of the columns before the fields.
    start: Piece,
    field_count: usize,
}

impl Prepared {
    fn new(schema: &'static Schema, host: Option<&str>) -> Self {
        let mut line = Line::default();
        put_text(&mut line, schema.kind);
        if let Some(host) = host {
            line.byte(b',');
            put_text(&mut line, host);
        }
        let start = Piece::new(line.bytes());
        line.restart();
        line.slice(b"kind");
        if host.is_some() {
            line.slice(b",host");
        }
        for field in schema.scalars() {
            line.byte(b',');
            put_text(&mut line, field.name);
        }
        line.byte(b'\n');
        Self {
            header: line.bytes().into(),
            start,
            field_count: schema.scalars().len(),
        }
    }
}

impl Sink for CsvWriter {
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>) {
        let Self {
            host,
            kinds,
            flows,
            clock,
            line,
        } = self;
        let (prepared, is_new) = kinds.get(record.schema(), |schema| {
            Prepared::new(schema, host.as_deref())
        });
        if is_new {
            out.extend_from_slice(&prepared.header);
        }
        line.restart();
        line.piece(&prepared.start);
        let mut columns = Columns {
            next: 0,
            flows,
            clock,
            line,
        };
        record.visit(&mut columns);
        columns.skip_to(prepared.field_count);
        line.byte(b'\n');
        out.extend_from_slice(line.bytes());
    }
}

/// What follows the kind of a record.
struct Columns<'a> {
    /// The field whose comma comes next.
    next: usize,
    flows: &'a mut ShownFlows,
    clock: &'a mut Clock,
    line: &'a mut Line,
}

impl Columns<'_> {
    /// The commas of the fields before the one at `index`.
    #[inline]
    fn skip_to(&mut self, index: usize) {
        if self.next < index {
            self.put_commas(index - self.next);
            self.next = index;
        }
    }

    fn put_commas(&mut self, mut count: usize) {
        let commas = [b','; 32];
        while count > commas.len() {
            *self.line.block(commas.len()) = commas;
            count -= commas.len();
        }
        *self.line.block(count) = commas;
    }
}

impl Visitor for Columns<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        if matches!(value, Value::Histogram(_)) {
            return;
        }
        self.skip_to(index);
        self.next = index + 1;
        self.line.byte(b',');
        put_value(self.line, self.clock, value);
    }

    fn flow(&mut self, index: usize, flow: &FlowKey) {
        self.skip_to(index);
        if self.flows.put(self.line, flow) {
            self.next += FlowKey::SHAPE.width();
            return;
        }
        let start = self.line.bytes().len();
        for offset in 0..FlowKey::SHAPE.width() {
            self.value(index + offset, flow.part(offset));
        }
        self.flows.keep(flow, self.line, start);
    }
}

#[inline]
fn put_value(line: &mut Line, clock: &mut Clock, value: Value<'_>) {
    match value {
        Value::Text(text) if line.plain(text, [b'"', b',']) => {}
        Value::Text(text) => put_text(line, text),
        Value::Float(number) if number.is_finite() => {
            // The shortest digits that read back as the same number. Writing to memory does not
            // fail.
            let _ = write!(line, "{number:?}");
        }
        value => put_plain(line, clock, value),
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
