//! How exporters of fathom's tell kinds of records and their fields, and how values come back.

use fathom_record::{Protocol, Type, Value};

use crate::DataType;
use crate::element::{self, Units, text_of_code};
use crate::wire::{DataValue, FieldSpecifier};

/// The names of the elements that tell it.
pub(crate) const RECORD_KIND: &str = "record_kind";
pub(crate) const COLUMN: &str = "record_column";
pub(crate) const COLUMN_TYPE: &str = "record_column_type";

const TYPES: [(Type, &str); 11] = [
    (Type::Unsigned, "unsigned"),
    (Type::Float, "float"),
    (Type::Boolean, "boolean"),
    (Type::Text, "text"),
    (Type::Time, "time"),
    (Type::Duration, "duration"),
    (Type::Address, "address"),
    (Type::Port, "port"),
    (Type::Protocol, "protocol"),
    (Type::Network, "network"),
    (Type::CommunityId, "community_id"),
];

pub(crate) fn name_of(kind: Type) -> &'static str {
    let found = TYPES.iter().find(|(one, _)| *one == kind);
    found.map_or("", |(_, name)| name)
}

pub(crate) fn type_of(name: &str) -> Option<Type> {
    let found = TYPES.iter().find(|(_, one)| *one == name);
    found.map(|(kind, _)| *kind)
}

/// The value that a field of this type had before it was sent in this element.
pub(crate) fn value_of<'a>(
    kind: Type,
    specifier: &FieldSpecifier,
    data_type: DataType,
    bytes: &'a [u8],
) -> Value<'a> {
    match (kind, DataValue::read(data_type, bytes)) {
        (Type::Unsigned, DataValue::Unsigned(number)) => Value::Unsigned(number),
        (Type::Duration, DataValue::Unsigned(number)) => {
            Value::Duration(number.saturating_mul(nanoseconds(specifier)))
        }
        (Type::Float, DataValue::Unsigned(number)) => Value::Float(number as f64),
        (Type::Float, DataValue::Float(number)) => Value::Float(number),
        (Type::Boolean, DataValue::Boolean(answer)) => Value::Boolean(answer),
        (Type::Time, DataValue::Time(ns)) => Value::Time(ns),
        (Type::Address, DataValue::Address(address)) => Value::Address(address.to_canonical()),
        (Type::Port, DataValue::Unsigned(port)) => {
            u16::try_from(port).map_or(Value::Missing, Value::Port)
        }
        (Type::Protocol, DataValue::Unsigned(number)) => {
            let number = u8::try_from(number);
            number.map_or(Value::Missing, |it| Value::Protocol(Protocol(it)))
        }
        // Networks and Community IDs are texts in tables, too.
        (Type::Text | Type::Network | Type::CommunityId, DataValue::Text(text)) => {
            Value::Text(text)
        }
        (Type::Text, DataValue::Unsigned(code)) => {
            let text = text_of_code(specifier.element, code);
            text.map_or(Value::Missing, Value::Text)
        }
        _ => Value::Missing,
    }
}

/// How many nanoseconds the unit of an element is; fathom's own have nanoseconds.
fn nanoseconds(specifier: &FieldSpecifier) -> u64 {
    let is_own = specifier
        .enterprise
        .is_some_and(|it| it != element::REVERSE_ENTERPRISE);
    let row = element::row(specifier.element).filter(|_| !is_own);
    match row.map(|&(.., units)| units) {
        Some(Units::Seconds) => 1_000_000_000,
        Some(Units::Milliseconds) => 1_000_000,
        Some(Units::Microseconds) => 1_000,
        _ => 1,
    }
}
