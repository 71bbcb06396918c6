//! How the values of a field become bytes: the element that carries them, and its type.

use std::net::IpAddr;

use fathom_record::{Field, Ipfix, Registry, Schema, Type, Value};

use crate::element::{self, DataType, REVERSE_ENTERPRISE, Semantics, Units, code_of, has_codes};
use crate::export::ExporterCounts;
use crate::wire::{
    FieldSpecifier, VARIABLE_LENGTH, date_time_microseconds, date_time_nanoseconds, write_text,
};

/// The longest text that is sent; the rest is cut, and counted.
pub(super) const LONGEST_TEXT_BYTES: usize = 1024;

/// How the values of one field are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    /// The element; the one for IPv4 where there are two.
    pub(super) specifier: FieldSpecifier,
    /// The element for an IPv6 address in place of an IPv4 one.
    pub(super) ipv6: Option<FieldSpecifier>,
    /// The type of the element.
    pub(super) data_type: DataType,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// A number divided by so much, in as many bytes as the element has.
    Unsigned {
        divisor: u64,
    },
    Float,
    Boolean,
    Text,
    /// The number that the element has for a text.
    Code,
    Time,
    /// An address of the element's family.
    Address,
    /// IPv4 as `::ffff:a.b.c.d`, since the element is for IPv6.
    MappedAddress,
}

/// What a value was written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// The element of the plan.
    Plain,
    /// The plan's element for IPv6.
    Ipv6,
    /// Nothing: the value has no form that the element can carry.
    Nothing,
}

impl Plan {
    /// The plan for a field; `None` if it declares no element, or one that cannot carry it.
    pub(super) fn new(field: &Field, enterprise: u32) -> Option<Self> {
        let ipfix = field.ipfix?;
        match ipfix.registry {
            Registry::Own => Self::own(ipfix, field.kind, enterprise),
            Registry::Iana => Self::iana(ipfix, field.kind, None),
            Registry::Reverse => Self::iana(ipfix, field.kind, Some(REVERSE_ENTERPRISE)),
        }
    }

    fn own(ipfix: Ipfix, kind: Type, enterprise: u32) -> Option<Self> {
        let data_type = own_type(kind);
        let form = match kind {
            Type::Unsigned | Type::Duration | Type::Port | Type::Protocol => {
                Form::Unsigned { divisor: 1 }
            }
            Type::Float => Form::Float,
            Type::Boolean => Form::Boolean,
            Type::Text | Type::Network | Type::CommunityId => Form::Text,
            Type::Time => Form::Time,
            Type::Address => Form::MappedAddress,
            Type::Histogram => return None,
        };
        (1..0x8000).contains(&ipfix.element).then_some(Self {
            specifier: FieldSpecifier {
                enterprise: Some(enterprise),
                element: ipfix.element,
                length: data_type.bytes().unwrap_or(VARIABLE_LENGTH),
            },
            ipv6: None,
            data_type,
            form,
        })
    }

    /// `enterprise`: the one under which IANA's elements have another meaning.
    fn iana(ipfix: Ipfix, kind: Type, enterprise: Option<u32>) -> Option<Self> {
        use DataType as T;
        let &(_, _, data_type, _, units) = element::row(ipfix.element)?;
        let form = match (kind, data_type) {
            (
                Type::Unsigned | Type::Float | Type::Port | Type::Protocol,
                T::Unsigned8 | T::Unsigned16 | T::Unsigned32 | T::Unsigned64,
            ) => Form::Unsigned { divisor: 1 },
            (Type::Duration, T::Unsigned8 | T::Unsigned16 | T::Unsigned32 | T::Unsigned64) => {
                let divisor = match units {
                    Units::Seconds => 1_000_000_000,
                    Units::Milliseconds => 1_000_000,
                    Units::Microseconds => 1_000,
                    _ => 1,
                };
                Form::Unsigned { divisor }
            }
            (Type::Float, T::Float64) => Form::Float,
            (Type::Boolean, T::Boolean) => Form::Boolean,
            (Type::Text | Type::Network | Type::CommunityId, T::Text) => Form::Text,
            (Type::Text, T::Unsigned8) if has_codes(ipfix.element) => Form::Code,
            (
                Type::Time,
                T::DateTimeSeconds
                | T::DateTimeMilliseconds
                | T::DateTimeMicroseconds
                | T::DateTimeNanoseconds,
            ) => Form::Time,
            (Type::Address, T::Ipv4Address) => Form::Address,
            (Type::Address, T::Ipv6Address) => Form::MappedAddress,
            _ => return None,
        };
        let specifier = |element, data_type: DataType| FieldSpecifier {
            enterprise,
            element,
            length: data_type.bytes().unwrap_or(VARIABLE_LENGTH),
        };
        let twin = ipfix.for_ipv6().element;
        let has_twin = form == Form::Address && twin != ipfix.element;
        Some(Self {
            specifier: specifier(ipfix.element, data_type),
            ipv6: has_twin.then(|| specifier(twin, T::Ipv6Address)),
            data_type,
            form,
        })
    }

    /// The same, with texts in so many bytes if that is told.
    pub(super) fn with_texts_of(mut self, text_bytes: Option<u16>) -> Self {
        if let (Form::Text, Some(bytes)) = (self.form, text_bytes) {
            self.specifier.length = bytes.clamp(1, LONGEST_TEXT_BYTES as u16);
        }
        self
    }

    /// Appends a value.
    pub(super) fn write(
        &self,
        value: Value<'_>,
        out: &mut Vec<u8>,
        counts: &mut ExporterCounts,
    ) -> Written {
        match (self.form, value) {
            (Form::Unsigned { divisor }, value) => {
                let Some(number) = number(value) else {
                    return Written::Nothing;
                };
                write_unsigned(out, number / divisor, self.specifier.length, counts);
            }
            (Form::Float, Value::Float(number)) if number.is_finite() => {
                out.extend(number.to_be_bytes());
            }
            (Form::Boolean, Value::Boolean(is_true)) => out.push(if is_true { 1 } else { 2 }),
            (Form::Text, Value::Text(text)) => self.write_text(text, out, counts),
            (Form::Text, Value::Network(network)) => {
                self.write_text(&network.to_string(), out, counts);
            }
            (Form::Code, Value::Text(text)) => match code_of(self.specifier.element, text) {
                Some(code) => out.push(code),
                None => return Written::Nothing,
            },
            (Form::Text, Value::CommunityId(id)) => {
                self.write_text(&id.to_string(), out, counts);
            }
            (Form::Time, Value::Time(ns)) => write_time(out, self.data_type, ns),
            (Form::Address, Value::Address(IpAddr::V4(address))) => out.extend(address.octets()),
            (Form::Address, Value::Address(IpAddr::V6(address))) if self.ipv6.is_some() => {
                out.extend(address.octets());
                return Written::Ipv6;
            }
            (Form::MappedAddress, Value::Address(address)) => {
                let address = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                out.extend(address.octets());
            }
            _ => return Written::Nothing,
        }
        Written::Plain
    }

    /// Appends a text, with its length or filled up with zeros.
    fn write_text(&self, text: &str, out: &mut Vec<u8>, counts: &mut ExporterCounts) {
        let is_variable = self.specifier.length == VARIABLE_LENGTH;
        let most_bytes = if is_variable {
            LONGEST_TEXT_BYTES
        } else {
            usize::from(self.specifier.length)
        };
        let start = start_of(text, most_bytes);
        counts.shortened_texts += u64::from(start.len() < text.len());
        if is_variable {
            write_text(out, start.as_bytes());
        } else {
            out.extend(start.as_bytes());
            out.extend(std::iter::repeat_n(0, most_bytes - start.len()));
        }
    }
}

/// The type of an own element that carries such values.
const fn own_type(kind: Type) -> DataType {
    match kind {
        Type::Unsigned | Type::Duration => DataType::Unsigned64,
        Type::Float => DataType::Float64,
        Type::Boolean => DataType::Boolean,
        Type::Text | Type::Network | Type::CommunityId | Type::Histogram => DataType::Text,
        Type::Time => DataType::DateTimeNanoseconds,
        Type::Address => DataType::Ipv6Address,
        Type::Port => DataType::Unsigned16,
        Type::Protocol => DataType::Unsigned8,
    }
}

/// What kind of quantity an own element is: fathom does not say whether a number is a counter.
pub(super) const fn own_semantics(field: &Field) -> Semantics {
    match field.kind {
        Type::Float | Type::Duration => Semantics::Quantity,
        Type::Unsigned if !matches!(field.unit, fathom_record::Unit::None) => Semantics::Quantity,
        Type::Unsigned | Type::Port | Type::Protocol => Semantics::Identifier,
        _ => Semantics::Default,
    }
}

/// What an own element counts.
pub(super) const fn own_units(field: &Field) -> Units {
    use fathom_record::Unit;
    match field.unit {
        Unit::None | Unit::Count => Units::None,
        Unit::Nanoseconds => Units::Nanoseconds,
        Unit::Bytes => Units::Octets,
        Unit::Packets => Units::Packets,
    }
}

/// As many whole characters of a text as fit into `most_bytes`.
pub(super) fn start_of(text: &str, most_bytes: usize) -> &str {
    let mut end = text.len().min(most_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A value as a number that is not negative.
pub(super) fn number(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Unsigned(number) | Value::Duration(number) => Some(number),
        Value::Port(port) => Some(port.into()),
        Value::Protocol(protocol) => Some(protocol.0.into()),
        #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
        Value::Float(number) if number.is_finite() && number >= 0.0 => Some(number.round() as u64),
        _ => None,
    }
}

/// Appends the last `length` bytes of a number; the greatest there is if it needs more.
pub(super) fn write_unsigned(
    out: &mut Vec<u8>,
    number: u64,
    length: u16,
    counts: &mut ExporterCounts,
) {
    let length = usize::from(length.clamp(1, 8));
    let greatest = u64::MAX >> (64 - 8 * length as u32);
    counts.saturated_values += u64::from(number > greatest);
    out.extend(&number.min(greatest).to_be_bytes()[8 - length..]);
}

fn write_time(out: &mut Vec<u8>, data_type: DataType, ns: u64) {
    match data_type {
        DataType::DateTimeSeconds => out.extend(((ns / 1_000_000_000) as u32).to_be_bytes()),
        DataType::DateTimeMilliseconds => out.extend((ns / 1_000_000).to_be_bytes()),
        DataType::DateTimeMicroseconds => out.extend(date_time_microseconds(ns).to_be_bytes()),
        _ => out.extend(date_time_nanoseconds(ns).to_be_bytes()),
    }
}

/// The names of the fields that IPFIX does not carry: those that declare no element, and those
/// whose element cannot hold their type.
///
/// ```
/// use fathom_ipfix::fields_without_element;
/// use fathom_record::{Nanoseconds, Time, record};
///
/// record! {
///     /// An answer.
///     #[record = "answer"]
///     pub struct Answer {
///         /// When.
///         #[field(ipfix = 325)]
///         pub time: Time,
///         /// How late.
///         pub rtt_ns: Nanoseconds,
///     }
/// }
/// assert_eq!(fields_without_element(Answer::SCHEMA), ["rtt_ns"]);
/// ```
pub fn fields_without_element(schema: &Schema) -> Vec<&'static str> {
    let fields = schema.scalars().iter();
    fields
        .filter(|field| Plan::new(field, 0).is_none())
        .map(|field| field.name)
        .collect()
}

/// The own elements that two fields use for different things, as sentences: there should be none.
///
/// Fields mean the same if their names, types and units are equal.
pub fn conflicting_elements(schemas: &[&'static Schema]) -> Vec<String> {
    let mut seen: Vec<(u16, &'static str, &'static Field)> = Vec::new();
    let mut conflicts = Vec::new();
    for schema in schemas {
        for field in schema.fields {
            let Some(Ipfix {
                registry: Registry::Own,
                element,
            }) = field.ipfix
            else {
                continue;
            };
            match seen.iter().find(|(number, ..)| *number == element) {
                Some((_, kind, first)) => {
                    let shape = |field: &Field| (field.name, field.kind, field.unit);
                    if shape(first) != shape(field) {
                        conflicts.push(format!(
                            "own element {element} is {kind}.{} and {}.{}",
                            first.name, schema.kind, field.name
                        ));
                    }
                }
                None => seen.push((element, schema.kind, field)),
            }
        }
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_record::Unit;

    fn write(field: &Field, value: Value<'_>) -> (Written, Vec<u8>, ExporterCounts) {
        let mut out = Vec::new();
        let mut counts = ExporterCounts::default();
        let written = Plan::new(field, 9)
            .unwrap()
            .write(value, &mut out, &mut counts);
        (written, out, counts)
    }

    #[test]
    fn elements_of_iana_keep_their_size_and_unit() {
        let port = Field::new("port", Type::Port, Unit::None, "").ipfix(7);
        assert_eq!(write(&port, Value::Port(443)).1, [1, 187]);
        let jitter = Field::new("jitter_ns", Type::Duration, Unit::Nanoseconds, "").ipfix(386);
        assert_eq!(write(&jitter, Value::Duration(1_999_999)).1, [0, 0, 7, 207]);
        let (_, bytes, counts) = write(&jitter, Value::Duration(u64::MAX));
        assert_eq!((bytes, counts.saturated_values), (vec![0xff; 4], 1));
        let text = Field::new("time", Type::Text, Unit::None, "").ipfix(325);
        assert!(Plan::new(&text, 9).is_none());
    }

    #[test]
    fn the_other_direction_has_an_enterprise_number_of_its_own() {
        let bytes = Field::new("reverse_bytes", Type::Unsigned, Unit::Bytes, "").reverse_ipfix(1);
        let plan = Plan::new(&bytes, 9).unwrap();
        let specifier = FieldSpecifier {
            enterprise: Some(29_305),
            element: 1,
            length: 8,
        };
        assert_eq!(plan.specifier, specifier);
        assert_eq!(write(&bytes, Value::Unsigned(7)).1, 7_u64.to_be_bytes());
    }

    #[test]
    fn texts_have_the_codes_of_their_element() {
        let role = Field::new("role", Type::Text, Unit::None, "").ipfix(239);
        assert_eq!(write(&role, Value::Text("client")).1, [1]);
        assert_eq!(write(&role, Value::Text("server")).1, [2]);
        assert_eq!(write(&role, Value::Text("judge")).0, Written::Nothing);
        let name = Field::new("name", Type::Text, Unit::None, "").ipfix(5);
        assert!(Plan::new(&name, 9).is_none());
    }

    #[test]
    fn addresses_choose_their_element() {
        let source = Field::new("source", Type::Address, Unit::None, "").ipfix(8);
        let (ipv4, ipv6) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        assert_eq!(write(&source, Value::Address(ipv4)).0, Written::Plain);
        let (written, bytes, _) = write(&source, Value::Address(ipv6));
        assert_eq!((written, bytes.len()), (Written::Ipv6, 16));
        let own = Field::new("router", Type::Address, Unit::None, "").own_ipfix(5);
        let (written, bytes, _) = write(&own, Value::Address(ipv4));
        assert_eq!(written, Written::Plain);
        assert_eq!(bytes[10..], [0xff, 0xff, 10, 0, 0, 1]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let name = Field::new("name", Type::Text, Unit::None, "").own_ipfix(1);
        let text = format!("x{}", "é".repeat(LONGEST_TEXT_BYTES));
        let (_, bytes, counts) = write(&name, Value::Text(&text));
        assert_eq!((bytes.len(), counts.shortened_texts), (3 + 1023, 1));
        assert!(std::str::from_utf8(&bytes[3..]).is_ok());
    }

    #[test]
    fn texts_of_fixed_length_are_filled_up() {
        let name = Field::new("name", Type::Text, Unit::None, "").own_ipfix(1);
        let plan = Plan::new(&name, 9).unwrap().with_texts_of(Some(4));
        assert_eq!(plan.specifier.length, 4);
        let mut counts = ExporterCounts::default();
        let mut out = Vec::new();
        for text in ["", "eth0", "é", "éèê"] {
            plan.write(Value::Text(text), &mut out, &mut counts);
        }
        assert_eq!(out, "\0\0\0\0eth0é\0\0éè".as_bytes());
        assert_eq!(counts.shortened_texts, 1);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let load = Field::new("load", Type::Float, Unit::None, "").own_ipfix(1);
        assert_eq!(write(&load, Value::Float(f64::NAN)).0, Written::Nothing);
        assert_eq!(write(&load, Value::Missing).0, Written::Nothing);
    }
}
