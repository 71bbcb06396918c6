//! The templates of Flowcorder 0.8, filled from the fields of fathom's profiles by their names.
//!
//! Its collectors (a Logstash pipeline among them) know these numbers. A field that a profile lacks
//! is sent as zero, an empty text or the unspecified address: these templates have no variants.
//! Counters that Flowcorder calls totals are, there as here, what happened since the profile
//! before. RTTs have a resolution of a millisecond, and the next hop of a flow without one is
//! unspecified.

use std::net::IpAddr;

use fathom_record::{Record, Schema, Value};

use super::plan::{number, start_of, write_unsigned};
use super::{Body, ExporterCounts, Needs};
use crate::element::{self, DataType};
use crate::wire::{FieldSpecifier, Template, VARIABLE_LENGTH, date_time_microseconds, write_text};

/// The observation domain it exports as.
pub(super) const DOMAIN: u32 = 56_423;
/// The enterprise number it uses, which is nobody's.
const ENTERPRISE: u32 = 65_534;
/// The longest text that is sent: interface and process.
const LONGEST_TEXT_BYTES: usize = 254;

/// Where the value of an element comes from: a field of the profile, by name.
#[derive(Debug, Clone, Copy)]
enum Source {
    Number(&'static str),
    /// The sum of two numbers.
    Sum(&'static str, &'static str),
    /// A duration, in milliseconds.
    Milliseconds(&'static str),
    /// A state, by its number.
    State(&'static str),
    /// A point in time, in microseconds.
    Time(&'static str),
    /// An address, of the family of the template.
    Address(&'static str),
    Text(&'static str),
    /// Process name and number, as `name/pid`.
    Process,
    /// The number of a connection in 63 bits.
    Connection,
    /// Subflows of an MPTCP connection: the first and the additional ones.
    Subflows,
    /// A number of 63 bits made from the five fields of the flow and its start.
    FlowHash,
    /// Nothing that fathom measures.
    Zero,
}

/// An element: whether it is Flowcorder's own, its number, its bytes, and what is in it.
type Column = (bool, u16, u16, Source);

const STATES: [&str; 7] = [
    "NEW",
    "ESTABLISHED",
    "UPDATE",
    "FINISHED",
    "BROKEN",
    "UNREACHABLE",
    "DESYNC",
];

/// flowStartReason, flowEndReason, flowStartMicroseconds, flowEndMicroseconds.
const BASE: [Column; 4] = [
    (true, 1, 1, Source::State("start_state")),
    (false, 136, 1, Source::State("end_state")),
    (false, 154, 8, Source::Time("start_time")),
    (false, 155, 8, Source::Time("time")),
];

/// Addresses and next hop, by family.
const ADDRESSES: [[Column; 3]; 2] = [
    [
        (false, 8, 4, Source::Address("source")),
        (false, 12, 4, Source::Address("destination")),
        (false, 15, 4, Source::Address("next_hop")),
    ],
    [
        (false, 27, 16, Source::Address("source")),
        (false, 28, 16, Source::Address("destination")),
        (false, 62, 16, Source::Address("next_hop")),
    ],
];

/// interfaceName, applicationName.
const NAMES: [Column; 2] = [
    (false, 82, VARIABLE_LENGTH, Source::Text("interface")),
    (false, 96, VARIABLE_LENGTH, Source::Process),
];

/// selectorId and what a TCP connection or a subflow has.
const TCP: [Column; 17] = [
    (false, 302, 8, Source::Connection),
    (false, 7, 2, Source::Number("source_port")),
    (false, 11, 2, Source::Number("destination_port")),
    (true, 2, 8, Source::Number("bytes_acknowledged")),
    (true, 3, 8, Source::Number("bytes_received")),
    (true, 4, 4, Source::Number("packets_retransmitted")),
    (false, 134, 8, Source::Number("bytes_retransmitted")),
    (true, 5, 2, Source::Milliseconds("srtt_ns")),
    (false, 385, 4, Source::Milliseconds("jitter_ns")),
    (
        true,
        7,
        8,
        Source::Sum("bytes_duplicate", "bytes_partially_duplicate"),
    ),
    (
        true,
        6,
        4,
        Source::Sum("packets_duplicate", "packets_partially_duplicate"),
    ),
    (false, 26, 8, Source::Number("mss_bytes")),
    (true, 8, 2, Source::Number("stalls")),
    (true, 9, 4, Source::Number("packets_out_of_order")),
    (true, 10, 8, Source::Number("bytes_out_of_order")),
    (
        true,
        11,
        4,
        Source::Number("out_of_order_distance_mean_bytes"),
    ),
    (
        true,
        12,
        4,
        Source::Number("out_of_order_distance_variance"),
    ),
];

/// What a subflow has besides: reinjections into others are only known of the whole connection.
const SUBFLOW: [Column; 3] = [
    (true, 16, 4, Source::Zero),
    (true, 14, 8, Source::Zero),
    (true, 19, 1, Source::Number("path_index")),
];

/// What an MPTCP connection has.
const META: [Column; 14] = [
    (true, 8, 2, Source::Number("stalls")),
    (true, 17, 1, Source::Subflows),
    (true, 18, 4, Source::Number("receive_buffer_bytes")),
    (false, 302, 8, Source::Connection),
    (true, 14, 8, Source::Number("bytes_reinjected")),
    (true, 16, 4, Source::Zero),
    (true, 2, 8, Source::Number("bytes_acknowledged")),
    (true, 3, 8, Source::Number("bytes_received")),
    (true, 4, 4, Source::Zero),
    (false, 134, 8, Source::Zero),
    (true, 9, 4, Source::Zero),
    (true, 10, 8, Source::Zero),
    (true, 11, 4, Source::Zero),
    (true, 12, 4, Source::Zero),
];

/// What a DNS exchange has.
const DNS: [Column; 7] = [
    (false, 302, 8, Source::FlowHash),
    (false, 7, 2, Source::Number("source_port")),
    (false, 11, 2, Source::Number("destination_port")),
    (true, 2, 8, Source::Zero),
    (true, 3, 8, Source::Zero),
    (true, 4, 4, Source::Number("retries")),
    (true, 5, 2, Source::Milliseconds("latency_ns")),
];

/// The columns of a template, as Flowcorder orders them: by length, and as above where that is
/// equal.
fn columns(template: u16) -> Option<Vec<Column>> {
    let (addresses, own): (Option<usize>, &[&[Column]]) = match template {
        47_561 => (Some(0), &[&TCP]),
        47_562 => (Some(1), &[&TCP]),
        47_563 => (None, &[&META]),
        47_564 => (Some(0), &[&TCP, &SUBFLOW]),
        47_565 => (Some(1), &[&TCP, &SUBFLOW]),
        47_566 => (Some(0), &[&DNS]),
        47_567 => (Some(1), &[&DNS]),
        _ => return None,
    };
    let mut columns = BASE.to_vec();
    if let Some(family) = addresses {
        columns.extend(ADDRESSES[family]);
        columns.extend(NAMES);
    }
    columns.extend(own.iter().copied().flatten());
    columns.sort_by_key(|column| column.2);
    Some(columns)
}

/// The template of a record; `None` if the set has none for it.
fn template_of(record: &dyn Record) -> Option<u16> {
    let (named, schema) = (Named(record), record.schema());
    let has_ipv6 = || match named.get("source") {
        Value::Address(address) => Some(u16::from(address.is_ipv6())),
        _ => None,
    };
    match schema.kind {
        "profile" if named.get("mptcp_token") == Value::Missing => Some(47_561 + has_ipv6()?),
        "profile" => Some(47_564 + has_ipv6()?),
        "profile_mptcp" => Some(47_563),
        "profile_dns" => Some(47_566 + has_ipv6()?),
        _ => None,
    }
}

/// A record whose values are asked for by name.
struct Named<'a>(&'a dyn Record);

impl<'a> Named<'a> {
    fn get(&self, name: &str) -> Value<'a> {
        let schema: &Schema = self.0.schema();
        let position = schema.position(name);
        position.map_or(Value::Missing, |index| self.0.value(index))
    }

    fn number(&self, name: &str) -> u64 {
        number(self.get(name)).unwrap_or(0)
    }
}

/// Writes profiles by Flowcorder's templates.
#[derive(Debug, Default)]
pub(super) struct Flowcorder {
    announced: Vec<u16>,
}

impl Flowcorder {
    /// Writes a record into `body`, and gives its template when it is the first of it; `None` if
    /// the set has no template for the record.
    pub(super) fn encode(
        &mut self,
        record: &dyn Record,
        body: &mut Body,
        counts: &mut ExporterCounts,
    ) -> Option<Needs> {
        body.template = template_of(record)?;
        body.values.clear();
        let columns = columns(body.template)?;
        for column in &columns {
            write(&Named(record), *column, &mut body.values, counts);
        }
        if self.announced.contains(&body.template) {
            return Some(Needs::default());
        }
        self.announced.push(body.template);
        let fields = columns
            .iter()
            .map(|&(is_own, element, length, _)| FieldSpecifier {
                enterprise: is_own.then_some(ENTERPRISE),
                element,
                length,
            });
        let template = Template {
            id: body.template,
            scope_fields: 0,
            fields: fields.collect(),
        };
        Some(Needs {
            new_kind: None,
            new_template: Some(template),
        })
    }
}

fn write(
    record: &Named<'_>,
    (is_own, element, length, source): Column,
    out: &mut Vec<u8>,
    counts: &mut ExporterCounts,
) {
    debug_assert!(is_own || has_length(element, length), "element {element}");
    let number = match source {
        Source::Number(name) => record.number(name),
        Source::Sum(one, other) => record.number(one).saturating_add(record.number(other)),
        Source::Milliseconds(name) => record.number(name) / 1_000_000,
        Source::State(name) => match record.get(name) {
            Value::Text(state) => STATES
                .iter()
                .position(|known| *known == state)
                .map_or(0, |index| index as u64 + 1),
            _ => 0,
        },
        Source::Time(name) => match record.get(name) {
            Value::Time(ns) => date_time_microseconds(ns),
            _ => 0,
        },
        Source::Connection => record.number("connection") & (u64::MAX >> 1),
        Source::Subflows => record.number("additional_subflows") + 1,
        Source::FlowHash => flow_hash(record),
        Source::Zero => 0,
        Source::Address(name) => return write_address(record.get(name), length, out),
        Source::Text(name) => {
            let text = match record.get(name) {
                Value::Text(text) => text,
                _ => "",
            };
            return write_text(out, start_of(text, LONGEST_TEXT_BYTES).as_bytes());
        }
        Source::Process => {
            let name = match record.get("process") {
                Value::Text(name) => name,
                _ => "",
            };
            let text = format!("{name}/{}", record.number("pid"));
            return write_text(out, start_of(&text, LONGEST_TEXT_BYTES).as_bytes());
        }
    };
    write_unsigned(out, number, length, counts);
}

/// Whether IANA's element is of this many bytes.
fn has_length(element: u16, length: u16) -> bool {
    element::row(element)
        .is_some_and(|row| DataType::bytes(row.2).unwrap_or(VARIABLE_LENGTH) == length)
}

fn write_address(value: Value<'_>, length: u16, out: &mut Vec<u8>) {
    match (value, length) {
        (Value::Address(IpAddr::V4(address)), 4) => out.extend(address.octets()),
        (Value::Address(IpAddr::V6(address)), 16) => out.extend(address.octets()),
        (Value::Address(IpAddr::V4(address)), 16) => {
            out.extend(address.to_ipv6_mapped().octets());
        }
        _ => out.extend(std::iter::repeat_n(0, usize::from(length))),
    }
}

/// FNV-1a of the flow and the time it began, in 63 bits.
fn flow_hash(record: &Named<'_>) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for name in ["source", "destination"] {
        if let Value::Address(address) = record.get(name) {
            match address {
                IpAddr::V4(address) => add(&address.octets()),
                IpAddr::V6(address) => add(&address.octets()),
            }
        }
    }
    for name in ["protocol", "source_port", "destination_port"] {
        add(&record.number(name).to_be_bytes());
    }
    if let Value::Time(start_ns) = record.get("start_time") {
        add(&start_ns.to_be_bytes());
    }
    hash & (u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_lengths_of_their_elements() {
        for template in 47_561..=47_567 {
            let columns = columns(template).unwrap();
            assert!(columns.is_sorted_by_key(|column| column.2));
            for (is_own, element, length, _) in columns {
                assert!(is_own || has_length(element, length), "{element}");
                assert!(!is_own || (1..=19).contains(&element), "{element}");
            }
        }
        assert!(columns(47_568).is_none());
    }
}
