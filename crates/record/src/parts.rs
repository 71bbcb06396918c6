//! What [`record!`](crate::record) expands to; not for direct use.

use crate::field::{
    DESTINATION_IPV4_ADDRESS, DESTINATION_TRANSPORT_PORT, PROTOCOL_IDENTIFIER, SOURCE_IPV4_ADDRESS,
    SOURCE_TRANSPORT_PORT, same,
};
use crate::{AsValue, Field, FlowKey, Metric, Type, Unit, Value, Visitor};

/// What one Rust field adds to the fields of a record.
#[derive(Clone, Copy)]
pub enum Shape {
    /// One field, which the declaration of the record describes.
    Single(Type, Unit),
    /// Several fields, which describe themselves.
    Group(&'static [Field]),
}

impl Shape {
    /// How many fields it adds.
    pub const fn width(self) -> usize {
        match self {
            Self::Single(..) => 1,
            Self::Group(fields) => fields.len(),
        }
    }

    /// The description of a single field; of a group, one that goes unused.
    pub const fn describe(self, name: &'static str, about: &'static str) -> Field {
        match self {
            Self::Single(kind, unit) => Field::new(name, kind, unit, about),
            Self::Group(_) => Field::new(name, Type::Text, Unit::None, about),
        }
    }
}

/// A type that may stand in a record.
pub trait Part {
    /// What it adds.
    const SHAPE: Shape;
    /// The value of the field at `index` among those it adds.
    fn part(&self, index: usize) -> Value<'_>;
    /// Hands what it has to `visitor`; the first field it adds stands at `index` of the schema.
    fn visit(&self, index: usize, visitor: &mut dyn Visitor);
}

impl<T: AsValue> Part for T {
    const SHAPE: Shape = Shape::Single(T::KIND, T::UNIT);

    #[inline]
    fn part(&self, _index: usize) -> Value<'_> {
        self.as_value()
    }

    #[inline]
    fn visit(&self, index: usize, visitor: &mut dyn Visitor) {
        match self.as_value() {
            Value::Missing => {}
            value => visitor.value(index, value),
        }
    }
}

static FLOW_FIELDS: [Field; 6] = [
    Field::new(
        "protocol",
        Type::Protocol,
        Unit::None,
        "IP protocol of the flow: a name, or the number of one without.",
    )
    .bare()
    .metric(Metric::Service)
    .ipfix(PROTOCOL_IDENTIFIER),
    Field::new(
        "source",
        Type::Address,
        Unit::None,
        "Address the measured packet came from.",
    )
    .bare()
    .ipfix(SOURCE_IPV4_ADDRESS),
    Field::new(
        "source_port",
        Type::Port,
        Unit::None,
        "Port the measured packet came from; the identifier for ICMP echo.",
    )
    .bare()
    .metric(Metric::Service)
    .ipfix(SOURCE_TRANSPORT_PORT),
    Field::new(
        "destination",
        Type::Address,
        Unit::None,
        "Address the measured packet went to.",
    )
    .bare()
    .metric(Metric::Network)
    .ipfix(DESTINATION_IPV4_ADDRESS),
    Field::new(
        "destination_port",
        Type::Port,
        Unit::None,
        "Port the measured packet went to; the identifier for ICMP echo.",
    )
    .bare()
    .metric(Metric::Service)
    .ipfix(DESTINATION_TRANSPORT_PORT),
    Field::new(
        "community_id",
        Type::CommunityId,
        Unit::None,
        "Community ID of the flow, version 1 with seed 0, as Zeek, Suricata and Wireshark print it; both directions have the same.",
    )
    .absent()
    .own_ipfix(COMMUNITY_ID),
];

/// Fathom's own element.
const COMMUNITY_ID: u16 = 340;

impl Part for FlowKey {
    const SHAPE: Shape = Shape::Group(&FLOW_FIELDS);

    #[inline]
    fn part(&self, index: usize) -> Value<'_> {
        match index {
            0 => Value::Protocol(self.protocol),
            1 => Value::Address(self.source),
            2 => Value::Port(self.source_port),
            3 => Value::Address(self.destination),
            4 => Value::Port(self.destination_port),
            5 => Value::CommunityId(self.community_id()),
            _ => Value::Missing,
        }
    }

    #[inline]
    fn visit(&self, index: usize, visitor: &mut dyn Visitor) {
        visitor.flow(index, self);
    }
}

impl Part for Option<FlowKey> {
    const SHAPE: Shape = FlowKey::SHAPE;

    #[inline]
    fn part(&self, index: usize) -> Value<'_> {
        self.as_ref()
            .map_or(Value::Missing, |flow| flow.part(index))
    }

    #[inline]
    fn visit(&self, index: usize, visitor: &mut dyn Visitor) {
        if let Some(flow) = self {
            visitor.flow(index, flow);
        }
    }
}

/// How many fields the parts make.
pub const fn count(parts: &[(Shape, Field)]) -> usize {
    let mut total = 0;
    let mut index = 0;
    while index < parts.len() {
        total += parts[index].0.width();
        index += 1;
    }
    total
}

/// The fields of all parts in order. Does not compile when two share a name, one is called
/// `kind`, or a histogram is not the last.
pub const fn collect<const COUNT: usize>(parts: &[(Shape, Field)]) -> [Field; COUNT] {
    let mut fields = [parts[0].1; COUNT];
    let mut filled = 0;
    let mut index = 0;
    while index < parts.len() {
        let (shape, described) = parts[index];
        let mut within = 0;
        while within < shape.width() {
            fields[filled] = match shape {
                Shape::Single(..) => described,
                Shape::Group(group) => group[within],
            };
            assert!(
                !same(fields[filled].name, "kind"),
                "`kind` is the name of the kind of record in every output"
            );
            assert!(
                filled + 1 == COUNT || !matches!(fields[filled].kind, Type::Histogram),
                "a histogram is the last field of its record: see `Schema::scalars`"
            );
            let mut earlier = 0;
            while earlier < filled {
                assert!(
                    !same(fields[earlier].name, fields[filled].name),
                    "two fields of a record share a name"
                );
                earlier += 1;
            }
            filled += 1;
            within += 1;
        }
        index += 1;
    }
    fields
}

/// Declares a kind of record once: the Rust struct, its [`Schema`](crate::Schema) as `SCHEMA`, and
/// its [`Record`](crate::Record).
///
/// The name of a Rust field is its name in every output, its doc comment the description there. Any
/// type that implements [`AsValue`](crate::AsValue) may stand in it; a [`FlowKey`](crate::FlowKey)
/// adds the six fields `protocol`, `source`, `source_port`, `destination`, `destination_port` and
/// `community_id`; `Option` makes either one that may be missing. `#[field(...)]` changes what the
/// type implies, by the methods of [`Field`](crate::Field): `label = "min"`, `unit = Unit::Bytes`,
/// `bare`, `unless_zero`, `absent`, `ipfix = 325` (IANA's element), `reverse_ipfix = 1` (the same
/// of the other direction), `own_ipfix = 1` (fathom's own), `fold = Fold::Sum`. The crate's first
/// page has an example.
#[macro_export]
macro_rules! record {
    (
        $(#[doc = $about:literal])+
        #[record = $kind:literal]
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[doc = $field_about:literal])+
                $(#[field($($setting:ident $(= $argument:expr)?),+ $(,)?)])?
                pub $field:ident: $type:ty
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])+
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[doc = $field_about])+ pub $field: $type,)+
        }

        const _: () = {
            const PARTS: &[($crate::parts::Shape, $crate::Field)] = &[$((
                <$type as $crate::parts::Part>::SHAPE,
                <$type as $crate::parts::Part>::SHAPE
                    .describe(stringify!($field), concat!($($field_about),+).trim_ascii())
                    $($(.$setting($($argument)?))+)?,
            )),+];
            static FIELDS: [$crate::Field; $crate::parts::count(PARTS)] = $crate::parts::collect(PARTS);
            static SCHEMA: $crate::Schema =
                $crate::Schema { kind: $kind, about: concat!($($about),+).trim_ascii(), fields: &FIELDS };

            impl $name {
                /// The description of this kind of record.
                $visibility const SCHEMA: &'static $crate::Schema = &SCHEMA;
            }

            impl $crate::Record for $name {
                fn schema(&self) -> &'static $crate::Schema {
                    &SCHEMA
                }

                fn value(&self, mut index: usize) -> $crate::Value<'_> {
                    $(
                        let width = const { <$type as $crate::parts::Part>::SHAPE.width() };
                        if index < width {
                            return $crate::parts::Part::part(&self.$field, index);
                        }
                        index = index.wrapping_sub(width);
                    )+
                    let _past_the_last = index;
                    $crate::Value::Missing
                }

                fn visit(&self, visitor: &mut dyn $crate::Visitor) {
                    let index = 0;
                    $(
                        $crate::parts::Part::visit(&self.$field, index, visitor);
                        let index = index + const { <$type as $crate::parts::Part>::SHAPE.width() };
                    )+
                    let _past_the_last = index;
                }

                fn as_any(&self) -> Option<&dyn ::std::any::Any> {
                    Some(self)
                }
            }
        };
    };
}

#[cfg(test)]
mod tests {
    use crate::{
        Field, FlowKey, Ipfix, Nanoseconds, Protocol, Record, Registry, TextForm, Time, Type, Unit,
        Value,
    };

    record! {
        /// A test of
        /// two lines.
        #[record = "test"]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Example {
            /// When.
            #[field(ipfix = 325)]
            pub time: Time,
            /// Who.
            pub flow: FlowKey,
            /// How long
            /// it took.
            #[field(label = "least")]
            pub rtt_min_ns: Option<Nanoseconds>,
            /// How much.
            #[field(unit = Unit::Bytes, own_ipfix = 1)]
            pub sent_bytes: u64,
            /// Where.
            #[field(bare)]
            pub interface: &'static str,
        }
    }

    fn example() -> Example {
        let flow = FlowKey {
            protocol: Protocol::UDP,
            source: "10.0.0.1".parse().unwrap(),
            source_port: 1,
            destination: "::1".parse().unwrap(),
            destination_port: 2,
        };
        Example {
            time: Time(7),
            flow,
            rtt_min_ns: None,
            sent_bytes: 9,
            interface: "eth0",
        }
    }

    #[test]
    fn the_schema_follows_the_declaration() {
        let names: Vec<_> = Example::SCHEMA
            .fields
            .iter()
            .map(|field| field.name)
            .collect();
        let flow = [
            "protocol",
            "source",
            "source_port",
            "destination",
            "destination_port",
            "community_id",
        ];
        assert_eq!(
            names,
            [
                &["time"][..],
                &flow,
                &["rtt_min_ns", "sent_bytes", "interface"]
            ]
            .concat()
        );
        assert_eq!(
            (Example::SCHEMA.kind, Example::SCHEMA.about),
            ("test", "A test of two lines.")
        );
        assert!(std::ptr::eq(example().schema(), Example::SCHEMA));

        let field = |name| Example::SCHEMA.fields[Example::SCHEMA.position(name).unwrap()];
        let least = Field::new(
            "rtt_min_ns",
            Type::Duration,
            Unit::Nanoseconds,
            "How long it took.",
        )
        .label("least");
        assert_eq!(field("rtt_min_ns"), least);
        let sent = field("sent_bytes");
        assert_eq!((sent.label, sent.unit), ("sent", Unit::Bytes));
        let own = Ipfix {
            registry: Registry::Own,
            element: 1,
        };
        assert_eq!(sent.ipfix, Some(own));
        assert_eq!(own.for_ipv6(), own);
        assert_eq!(field("interface").text, TextForm::Bare);
        assert_eq!(field("time").ipfix.unwrap().element, 325);
        assert_eq!(field("time").ipfix.unwrap().registry, Registry::Iana);
        for (ipv4, ipv6) in [(8, 27), (12, 28), (15, 62)] {
            let (registry, element) = (Registry::Iana, ipv4);
            assert_eq!(Ipfix { registry, element }.for_ipv6().element, ipv6);
        }
    }

    #[test]
    fn values_stand_where_the_schema_says() {
        let record = example();
        let values: Vec<_> = (0..11).map(|index| record.value(index)).collect();
        assert_eq!(
            values,
            [
                Value::Time(7),
                Value::Protocol(Protocol::UDP),
                Value::Address(record.flow.source),
                Value::Port(1),
                Value::Address(record.flow.destination),
                Value::Port(2),
                Value::CommunityId(record.flow.community_id()),
                Value::Missing,
                Value::Unsigned(9),
                Value::Text("eth0"),
                Value::Missing,
            ]
        );
        assert_eq!(record.value(usize::MAX), Value::Missing);
    }
}
