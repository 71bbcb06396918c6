//! What a field of a record may hold.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::{CommunityId, Histogram, Network, Protocol, Type, Unit};

/// A point in time: nanoseconds since the Unix epoch, UTC, leap seconds not counted (as in
/// `CLOCK_REALTIME`). Reaches the year 2554.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// By this host's wall clock.
    pub fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(Nanoseconds::from(since_1970.unwrap_or_default()).0)
    }
}

/// A duration in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanoseconds(pub u64);

impl From<Duration> for Nanoseconds {
    /// 584 years at most.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A transport port in host byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// The content of one field of one record, as outputs see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// This record has nothing to say here.
    Missing,
    /// A number in the field's [`Unit`].
    Unsigned(u64),
    /// A number in the field's [`Unit`]; NaN and infinities are possible and become null or empty
    /// in outputs that cannot say them.
    Float(f64),
    /// Yes or no.
    Boolean(bool),
    /// A name or a text, possibly taken from a packet: outputs escape what could do harm.
    Text(&'a str),
    /// Nanoseconds since the Unix epoch, UTC.
    Time(u64),
    /// Nanoseconds.
    Duration(u64),
    /// An IP address.
    Address(IpAddr),
    /// A transport port in host byte order.
    Port(u16),
    /// An IP protocol.
    Protocol(Protocol),
    /// An address prefix.
    Network(Network),
    /// The hash of a flow.
    CommunityId(CommunityId),
    /// How durations are distributed.
    Histogram(&'a Histogram),
}

/// A Rust type that fills one field of a record. Implement it for a new type by delegating to one
/// of the kinds there are.
///
/// ```
/// use fathom_record::{AsValue, Type, Value};
///
/// enum Direction { Ingress, Egress }
///
/// impl AsValue for Direction {
///     const KIND: Type = Type::Text;
///     fn as_value(&self) -> Value<'_> {
///         Value::Text(match self { Self::Ingress => "ingress", Self::Egress => "egress" })
///     }
/// }
/// assert_eq!(Some(Direction::Egress).as_value(), Value::Text("egress"));
/// ```
pub trait AsValue {
    /// The kind of every value it gives, apart from [`Value::Missing`].
    const KIND: Type;
    /// The unit, where the type alone decides it; a record's declaration may say otherwise.
    const UNIT: Unit = Unit::None;
    /// The value for outputs.
    fn as_value(&self) -> Value<'_>;
}

impl<T: AsValue> AsValue for Option<T> {
    const KIND: Type = T::KIND;
    const UNIT: Unit = T::UNIT;

    #[inline]
    fn as_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Missing, T::as_value)
    }
}

macro_rules! as_value {
    ($($type:ty: $kind:ident $(in $unit:ident)?, $this:ident => $value:expr;)+) => {$(
        impl AsValue for $type {
            const KIND: Type = Type::$kind;
            $(const UNIT: Unit = Unit::$unit;)?

            #[inline]
            fn as_value(&self) -> Value<'_> {
                let $this = self;
                Value::$kind($value)
            }
        }
    )+};
}

as_value! {
    u64: Unsigned, number => *number;
    u32: Unsigned, number => u64::from(*number);
    u16: Unsigned, number => u64::from(*number);
    u8: Unsigned, number => u64::from(*number);
    f64: Float, number => *number;
    bool: Boolean, answer => *answer;
    &'static str: Text, text => text;
    String: Text, text => text;
    Arc<str>: Text, text => text;
    Time: Time, time => time.0;
    Nanoseconds: Duration in Nanoseconds, duration => duration.0;
    IpAddr: Address, address => *address;
    Port: Port, port => port.0;
    Protocol: Protocol, protocol => *protocol;
    Network: Network, network => *network;
    CommunityId: CommunityId, id => *id;
    Histogram: Histogram, histogram => histogram;
}
