//! Lines for people.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::clock::Clock;
use super::duration::put_duration;
use super::flows::ShownFlows;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain, put_protocol};
use super::{OffsetAt, Sink};
use crate::{Field, FlowKey, Record, Schema, TextForm, Type, Unit, Value, Visitor};

/// Writes a line for people: time of day with its offset from UTC, kind, then what the record has,
/// with labels where the fields ask for them.
///
/// ```text
/// 14:34:56.123456+02:00 rtt  tcp 10.0.0.1:5000 > 10.0.1.1:443  timestamp  rtt 20.11 ms  min 20.03
/// ms  eth0
/// ```
///
/// Durations get a unit that suits them, a boolean is its label when true, the five fields of a
/// flow are joined, and control characters are escaped, as texts may come from packets and lines go
/// to terminals.
#[derive(Debug, Clone, Default)]
pub struct TextWriter {
    kinds: PerSchema<Prepared>,
    flows: ShownFlows,
    clock: Clock,
    line: Line,
}

impl TextWriter {
    /// One that shows times in a time zone.
    pub fn of_zone(offset_at: OffsetAt) -> Self {
        Self {
            clock: Clock::of_zone(offset_at),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone)]
struct Prepared {
    /// Whether the first field is the record's time, which comes before the kind.
    starts_with_time: bool,
    kind: Piece,
    /// One for each field.
    columns: Vec<Column>,
}

/// How a line shows a field.
#[derive(Debug, Clone)]
struct Column {
    form: Form,
    /// Whether zero says nothing.
    hides_zero: bool,
    /// Two spaces, and the label with another one.
    before: Piece,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    /// Not at all, or not in its turn.
    Absent,
    Value,
    /// A value whose unit has to be said; other numbers are durations, or counts of what the label
    /// says.
    Bytes,
    /// Shown by its label alone, if true.
    Boolean,
}

impl Column {
    fn new(field: &Field) -> Self {
        let form = match (field.text, field.kind) {
            (TextForm::Absent, _) => Form::Absent,
            (_, Type::Boolean) => Form::Boolean,
            _ if field.unit == Unit::Bytes => Form::Bytes,
            _ => Form::Value,
        };
        let before = match (form, field.text) {
            (Form::Boolean, _) => format!("  {}", field.label),
            (_, TextForm::Labelled | TextForm::UnlessZero) => format!("  {} ", field.label),
            _ => "  ".to_owned(),
        };
        Self {
            form,
            hides_zero: field.text == TextForm::UnlessZero,
            before: Piece::new(before.as_bytes()),
        }
    }
}

impl Prepared {
    fn new(schema: &'static Schema) -> Self {
        let mut columns: Vec<_> = schema.scalars().iter().map(Column::new).collect();
        let first = schema.fields.first();
        let starts_with_time = first.is_some_and(|field| field.kind == Type::Time);
        if starts_with_time {
            columns[0].form = Form::Absent;
        }
        let kind = if starts_with_time {
            format!(" {}", schema.kind)
        } else {
            schema.kind.to_owned()
        };
        Self {
            starts_with_time,
            kind: Piece::new(kind.as_bytes()),
            columns,
        }
    }
}

impl Sink for TextWriter {
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>) {
        let Self {
            kinds,
            flows,
            clock,
            line,
        } = self;
        let (prepared, _) = kinds.get(record.schema(), Prepared::new);
        line.restart();
        if prepared.starts_with_time
            && let Value::Time(ns) = record.value(0)
        {
            clock.put_time_of_day(line, ns);
        }
        line.piece(&prepared.kind);
        record.visit(&mut Columns {
            prepared: &prepared.columns,
            flows,
            clock,
            line,
        });
        line.byte(b'\n');
        out.extend_from_slice(line.bytes());
    }
}

/// What follows the kind of a record.
struct Columns<'a> {
    prepared: &'a [Column],
    flows: &'a mut ShownFlows,
    clock: &'a mut Clock,
    line: &'a mut Line,
}

impl Visitor for Columns<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        let Some(Column {
            form,
            hides_zero,
            before,
        }) = self.prepared.get(index)
        else {
            return;
        };
        match (form, value) {
            (_, Value::Unsigned(0) | Value::Duration(0)) if *hides_zero => {}
            (Form::Absent, _) | (Form::Boolean, Value::Boolean(false)) => {}
            (Form::Boolean, _) => self.line.piece(before),
            (Form::Value | Form::Bytes, _) => {
                self.line.piece(before);
                put_value(self.line, self.clock, value);
                if let Form::Bytes = form {
                    self.line.slice(b" B");
                }
            }
        }
    }

    fn flow(&mut self, _index: usize, flow: &FlowKey) {
        let Self { flows, line, .. } = self;
        if !flows.put(line, flow) {
            let start = line.bytes().len();
            put_flow(line, flow);
            flows.keep(flow, line, start);
        }
    }
}

#[inline]
fn put_value(line: &mut Line, clock: &mut Clock, value: Value<'_>) {
    match value {
        Value::Time(ns) => clock.put_time_of_day(line, ns),
        Value::Duration(ns) => put_duration(line, ns),
        Value::Text(text) if line.plain(text, []) => {}
        Value::Text(text) => put_text(line, text),
        // Writing to memory does not fail.
        Value::Float(number) => {
            let _ = write!(line, "{number:.3}");
        }
        value => put_plain(line, clock, value),
    }
}

/// `  tcp 10.0.0.1:5000 > 10.0.1.1:443`
fn put_flow(line: &mut Line, flow: &FlowKey) {
    line.slice(b"  ");
    put_protocol(line, flow.protocol);
    line.byte(b' ');
    put_end(line, flow.source, flow.source_port, flow.has_ports());
    line.slice(b" > ");
    put_end(
        line,
        flow.destination,
        flow.destination_port,
        flow.has_ports(),
    );
}

/// `10.0.0.1:5000`, without the port where the flow has none.
fn put_end(line: &mut Line, address: IpAddr, port: u16, has_ports: bool) {
    let has_brackets = has_ports && address.is_ipv6();
    if has_brackets {
        line.byte(b'[');
    }
    line.address(address);
    if has_brackets {
        line.byte(b']');
    }
    if has_ports {
        line.byte(b':');
        line.unsigned(port.into());
    }
}

fn put_text(line: &mut Line, text: &str) {
    if text.bytes().all(|byte| matches!(byte, 0x20..0x7f)) {
        return line.slice(text.as_bytes());
    }
    for character in text.chars() {
        // Writing to memory does not fail.
        let _ = if character.is_control() {
            write!(line, "{}", character.escape_default())
        } else {
            line.write_char(character)
        };
    }
}
