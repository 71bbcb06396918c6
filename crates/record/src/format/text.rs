//! Lines for people.

use std::fmt::Write as _;

use super::Sink;
use super::clock::Clock;
use super::duration::put_duration;
use super::line::{Line, Piece};
use super::prepared::{PerSchema, put_plain};
use crate::{Record, Schema, TextForm, Type, Unit, Value};

/// Writes a line for people: time of day (UTC), kind, then what the record has, with labels where the fields ask for them.
///
/// ```text
/// 12:34:56.123456 rtt  tcp 10.0.0.1:5000 > 10.0.1.1:443  timestamp  rtt 20.11 ms  min 20.03 ms  eth0
/// ```
///
/// Durations get a unit that suits them, a boolean is its label when true, the five fields of a flow are joined, and control
/// characters are escaped, as texts may come from packets and lines go to terminals.
#[derive(Debug, Clone, Default)]
pub struct TextWriter {
    kinds: PerSchema<Prepared>,
    clock: Clock,
    line: Line,
}

#[derive(Debug, Clone)]
struct Prepared {
    /// Whether the first field is the record's time, which comes before the kind.
    starts_with_time: bool,
    kind: Piece,
    columns: Vec<Column>,
}

/// Something a line shows, from the fields at `index` on.
#[derive(Debug, Clone)]
struct Column {
    index: usize,
    form: Form,
    /// Two spaces, and the label with another one.
    before: Piece,
    /// Whether the unit has to be said; other numbers are durations, or counts of what the label says.
    has_bytes: bool,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Value,
    /// Shown by its label alone, if true.
    Boolean,
    /// Protocol, source, source port, destination and destination port.
    Flow,
}

const FLOW: [Type; 5] = [
    Type::Protocol,
    Type::Address,
    Type::Port,
    Type::Address,
    Type::Port,
];

impl Prepared {
    fn new(schema: &'static Schema) -> Self {
        let starts_with_time = schema
            .fields
            .first()
            .is_some_and(|field| field.kind == Type::Time);
        let mut columns = Vec::new();
        let mut index = usize::from(starts_with_time);
        while let Some(field) = schema.fields.get(index) {
            let rest = &schema.fields[index..];
            let is_flow = rest.len() >= FLOW.len()
                && rest
                    .iter()
                    .zip(FLOW)
                    .all(|(field, kind)| field.kind == kind);
            let form = match field.kind {
                _ if is_flow => Form::Flow,
                Type::Boolean => Form::Boolean,
                _ => Form::Value,
            };
            let before = match (form, field.text) {
                (Form::Value, TextForm::Labelled) => format!("  {} ", field.label),
                (Form::Boolean, _) => format!("  {}", field.label),
                _ => "  ".to_owned(),
            };
            if field.text != TextForm::Absent {
                let has_bytes = field.unit == Unit::Bytes;
                columns.push(Column {
                    index,
                    form,
                    before: Piece::new(before.as_bytes()),
                    has_bytes,
                });
            }
            index += if is_flow { FLOW.len() } else { 1 };
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
        let Self { kinds, clock, line } = self;
        let (prepared, _) = kinds.get(record.schema(), Prepared::new);
        line.restart();
        if prepared.starts_with_time {
            put_value(line, clock, record.value(0));
        }
        line.piece(&prepared.kind);
        for column in &prepared.columns {
            let value = record.value(column.index);
            match (column.form, value) {
                (_, Value::Missing) | (Form::Boolean, Value::Boolean(false)) => {}
                (Form::Boolean, _) => line.piece(&column.before),
                (Form::Value, _) => {
                    line.piece(&column.before);
                    put_value(line, clock, value);
                    if column.has_bytes {
                        line.slice(b" B");
                    }
                }
                (Form::Flow, protocol) => {
                    line.piece(&column.before);
                    put_plain(line, clock, protocol);
                    put_ends(
                        line,
                        [1, 2, 3, 4].map(|offset| record.value(column.index + offset)),
                    );
                }
            }
        }
        line.byte(b'\n');
        out.extend_from_slice(line.bytes());
    }
}

#[inline]
fn put_value(line: &mut Line, clock: &mut Clock, value: Value<'_>) {
    match value {
        Value::Time(ns) => clock.put_time_of_day(line, ns),
        Value::Duration(ns) => put_duration(line, ns),
        Value::Text(text) => put_text(line, text),
        // Writing to memory does not fail.
        Value::Float(number) => {
            let _ = write!(line, "{number:.3}");
        }
        value => put_plain(line, clock, value),
    }
}

/// ` 10.0.0.1:5000 > 10.0.1.1:443`; without ports where both are zero, as a flow key shows itself.
fn put_ends(line: &mut Line, ends: [Value<'_>; 4]) {
    let [source, source_port, destination, destination_port] = ends;
    let has_ports = (source_port, destination_port) != (Value::Port(0), Value::Port(0));
    line.byte(b' ');
    put_end(line, source, source_port, has_ports);
    line.slice(b" > ");
    put_end(line, destination, destination_port, has_ports);
}

#[inline]
fn put_end(line: &mut Line, address: Value<'_>, port: Value<'_>, has_ports: bool) {
    if let (Value::Address(address), Value::Port(port)) = (address, port) {
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
