//! The description of records, from which every output derives.

use std::any::Any;

use crate::parts::Part as _;
use crate::{FlowKey, Fold, Value};

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Not a quantity: names, identifiers, addresses, points in time.
    None,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// A count of whatever the field's name says.
    Count,
}

/// The kind of value a field holds in every record that has it; see the variant of [`Value`] with
/// the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// [`Value::Unsigned`].
    Unsigned,
    /// [`Value::Float`].
    Float,
    /// [`Value::Boolean`].
    Boolean,
    /// [`Value::Text`].
    Text,
    /// [`Value::Time`].
    Time,
    /// [`Value::Duration`].
    Duration,
    /// [`Value::Address`].
    Address,
    /// [`Value::Port`].
    Port,
    /// [`Value::Protocol`].
    Protocol,
    /// [`Value::Network`].
    Network,
    /// [`Value::CommunityId`].
    CommunityId,
    /// [`Value::Histogram`]: kept in stores, and left out of lines and of IPFIX.
    Histogram,
}

/// How a field appears in text for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextForm {
    /// Label, then value: `rtt 20.11 ms`.
    Labelled,
    /// The value alone, where it explains itself: `eth0`.
    Bare,
    /// As labelled, but left out where it is zero: `retransmitted 3`.
    UnlessZero,
    /// Left out: for machines only.
    Absent,
}

/// What a field is where records are served as metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Names the series, as an interface does.
    Label,
    /// Names the series, and the records of each are counted.
    Outcome,
    /// Names all that this process tells: `NAME=VALUE`, with commas between.
    Target,
    /// Names the series by its network: an address, or a network itself.
    Network,
    /// Names the series by its service: the protocol and the ports.
    Service,
    /// Only grows, as a count of packets since the start does.
    Counter,
    /// How much was added to what only grows, since the record before.
    Increase,
    /// Goes up and down.
    Gauge,
    /// One duration of many, whose distribution is served.
    Sample,
    /// The mean of so many durations as the field of this name says.
    Mean(&'static str),
    /// A histogram, which is added to those before.
    Distribution,
}

/// Where the number of an IPFIX element comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Registry {
    /// The IANA registry "IPFIX Information Elements".
    Iana,
    /// The same, of the packets that go the other way (RFC 5103).
    Reverse,
    /// fathom's own, under the private enterprise number that the exporter is configured with.
    Own,
}

/// An IPFIX information element (RFC 7011, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipfix {
    /// Where its number comes from.
    pub registry: Registry,
    /// The element's number. A field that holds addresses of both families names the IPv4 element;
    /// see [`Ipfix::for_ipv6`].
    pub element: u16,
}

impl Ipfix {
    /// The element that carries the IPv6 form of what this one carries as IPv4; itself for elements
    /// without such a twin.
    #[must_use]
    pub const fn for_ipv6(self) -> Self {
        let element = match (self.registry, self.element) {
            (Registry::Iana, SOURCE_IPV4_ADDRESS) => SOURCE_IPV6_ADDRESS,
            (Registry::Iana, DESTINATION_IPV4_ADDRESS) => DESTINATION_IPV6_ADDRESS,
            (Registry::Iana, NEXT_HOP_IPV4_ADDRESS) => NEXT_HOP_IPV6_ADDRESS,
            (_, element) => element,
        };
        Self { element, ..self }
    }
}

pub(crate) const PROTOCOL_IDENTIFIER: u16 = 4;
pub(crate) const SOURCE_TRANSPORT_PORT: u16 = 7;
pub(crate) const SOURCE_IPV4_ADDRESS: u16 = 8;
pub(crate) const DESTINATION_TRANSPORT_PORT: u16 = 11;
pub(crate) const DESTINATION_IPV4_ADDRESS: u16 = 12;
const NEXT_HOP_IPV4_ADDRESS: u16 = 15;
const SOURCE_IPV6_ADDRESS: u16 = 27;
const DESTINATION_IPV6_ADDRESS: u16 = 28;
const NEXT_HOP_IPV6_ADDRESS: u16 = 62;

/// One field of a kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name in JSON, CSV and SQL, with the unit of a raw number in it: `rtt_ns`.
    pub name: &'static str,
    /// The short name for people, where the unit stands beside the number: `rtt`.
    pub label: &'static str,
    /// What the number counts.
    pub unit: Unit,
    /// What values there are.
    pub kind: Type,
    /// How text for people shows it.
    pub text: TextForm,
    /// The IPFIX element that carries it, if there is one.
    pub ipfix: Option<Ipfix>,
    /// What it is among metrics, if it is there.
    pub metric: Option<Metric>,
    /// What becomes of it when records become one of a longer time; without, only records that say
    /// the same here become one.
    pub fold: Option<Fold<'static>>,
    /// One sentence on what it is.
    pub about: &'static str,
}

impl Field {
    /// A labelled field without an IPFIX element; the label is the name without its `_ns` or
    /// `_bytes`. The methods below are the settings of `#[field(...)]` in
    /// [`record!`](crate::record).
    pub const fn new(name: &'static str, kind: Type, unit: Unit, about: &'static str) -> Self {
        let label = without_suffix(without_suffix(name, "_ns"), "_bytes");
        Self {
            name,
            label,
            unit,
            kind,
            text: TextForm::Labelled,
            ipfix: None,
            metric: None,
            fold: None,
            about,
        }
    }

    /// With this label instead of the one made from the name.
    #[must_use]
    pub const fn label(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// With this unit instead of the one its type implies.
    #[must_use]
    pub const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Shown to people as a value without label.
    #[must_use]
    pub const fn bare(self) -> Self {
        Self {
            text: TextForm::Bare,
            ..self
        }
    }

    /// Shown to people only where it is not zero.
    #[must_use]
    pub const fn unless_zero(self) -> Self {
        Self {
            text: TextForm::UnlessZero,
            ..self
        }
    }

    /// Not shown to people.
    #[must_use]
    pub const fn absent(self) -> Self {
        Self {
            text: TextForm::Absent,
            ..self
        }
    }

    /// Served as this among metrics.
    #[must_use]
    pub const fn metric(self, metric: Metric) -> Self {
        Self {
            metric: Some(metric),
            ..self
        }
    }

    /// This becomes of it when records become one.
    #[must_use]
    pub const fn fold(self, fold: Fold<'static>) -> Self {
        Self {
            fold: Some(fold),
            ..self
        }
    }

    /// Carried by this element of the IANA registry.
    #[must_use]
    pub const fn ipfix(self, element: u16) -> Self {
        self.carried(Registry::Iana, element)
    }

    /// Carried by this element of the IANA registry, as it counts what goes from `destination` to
    /// `source` (RFC 5103).
    #[must_use]
    pub const fn reverse_ipfix(self, element: u16) -> Self {
        self.carried(Registry::Reverse, element)
    }

    /// Carried by this element of fathom's own: 1 to 32767, and the same for every field of the
    /// same meaning.
    #[must_use]
    pub const fn own_ipfix(self, element: u16) -> Self {
        self.carried(Registry::Own, element)
    }

    const fn carried(self, registry: Registry, element: u16) -> Self {
        Self {
            ipfix: Some(Ipfix { registry, element }),
            ..self
        }
    }
}

const fn without_suffix(name: &'static str, suffix: &str) -> &'static str {
    if name.len() <= suffix.len() {
        return name;
    }
    let (stem, end) = name.split_at(name.len() - suffix.len());
    if same(end, suffix) { stem } else { name }
}

/// String equality, which the language does not yet offer while compiling.
pub(crate) const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// All there is to know about one kind of record before seeing any.
#[derive(Debug, PartialEq, Eq)]
pub struct Schema {
    /// The name of the kind: the `"kind"` of JSON, the table of SQL.
    pub kind: &'static str,
    /// One sentence on what such a record says.
    pub about: &'static str,
    /// The fields in the order outputs show them. A record about a moment has its time first, and
    /// one with a histogram has it last.
    pub fields: &'static [Field],
}

impl Schema {
    /// The fields of lines and of IPFIX: all but a histogram.
    pub fn scalars(&self) -> &'static [Field] {
        match self.fields.split_last() {
            Some((last, before)) if last.kind == Type::Histogram => before,
            _ => self.fields,
        }
    }

    /// Where the field of this name stands in `fields`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// Something measured, ready for any output. Declared with [`record!`](crate::record).
pub trait Record {
    /// The description, the same one (by address) for every record of the kind.
    fn schema(&self) -> &'static Schema;

    /// The value of the field at `index` of the schema; [`Value::Missing`] past the last one.
    fn value(&self, index: usize) -> Value<'_>;

    /// Hands all values that are not missing to `visitor`, in the order of the schema: faster than
    /// asking for one after the other.
    fn visit(&self, visitor: &mut dyn Visitor);

    /// The record as the type that it is, for those who know more of one kind; `None` where it
    /// stands for another record.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

impl dyn Record + '_ {
    /// The record, if it is of this type.
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.as_any()?.downcast_ref()
    }
}

/// Something that takes the values of a record; see [`Record::visit`].
pub trait Visitor {
    /// Takes the value of the field at `index` of the schema, which is not [`Value::Missing`].
    fn value(&mut self, index: usize, value: Value<'_>);

    /// Takes the values of the fields of a flow, the first of them at `index`: one by one, unless
    /// implemented otherwise.
    fn flow(&mut self, index: usize, flow: &FlowKey) {
        for offset in 0..FlowKey::SHAPE.width() {
            self.value(index + offset, flow.part(offset));
        }
    }
}
