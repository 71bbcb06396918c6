//! What the bytes of a field say (RFC 7011, sections 6.1 and 6.2).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use super::time;
use crate::DataType;

/// The value of a field, of whichever length it was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DataValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A number that may have a fraction.
    Float(f64),
    /// Yes or no.
    Boolean(bool),
    /// A text.
    Text(&'a str),
    /// Nanoseconds since the Unix epoch, UTC.
    Time(u64),
    /// An IP address.
    Address(IpAddr),
    /// A hardware address.
    HardwareAddress([u8; 6]),
    /// Bytes: those of unknown elements and of lists, and whatever does not fit the type of its
    /// element.
    Octets(&'a [u8]),
}

impl<'a> DataValue<'a> {
    /// Reads the value of an element of this type.
    pub fn read(data_type: DataType, bytes: &'a [u8]) -> Self {
        Self::typed(data_type, bytes).unwrap_or(Self::Octets(bytes))
    }

    fn typed(data_type: DataType, bytes: &'a [u8]) -> Option<Self> {
        use DataType as T;
        Some(match data_type {
            T::Unsigned8 | T::Unsigned16 | T::Unsigned32 | T::Unsigned64 => {
                Self::Unsigned(unsigned(bytes)?)
            }
            T::Signed8 | T::Signed16 | T::Signed32 | T::Signed64 => {
                let unused_bits = 64 - 8 * bytes.len().min(8) as u32;
                let number = unsigned(bytes)?.cast_signed();
                Self::Signed(number << unused_bits >> unused_bits)
            }
            T::Float32 | T::Float64 => Self::Float(match *bytes {
                [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
                _ => f64::from_be_bytes(bytes.try_into().ok()?),
            }),
            T::Boolean => match *bytes {
                [1] => Self::Boolean(true),
                [2] => Self::Boolean(false),
                _ => return None,
            },
            T::MacAddress => Self::HardwareAddress(bytes.try_into().ok()?),
            // A text shorter than the length of its template is filled up with zeros.
            T::Text => Self::Text(std::str::from_utf8(bytes).ok()?.trim_end_matches('\0')),
            T::DateTimeSeconds => Self::Time(unsigned(bytes)?.checked_mul(1_000_000_000)?),
            T::DateTimeMilliseconds => Self::Time(unsigned(bytes)?.checked_mul(1_000_000)?),
            T::DateTimeMicroseconds | T::DateTimeNanoseconds => {
                let ntp = u64::from_be_bytes(bytes.try_into().ok()?);
                Self::Time(time::unix_ns(ntp)?)
            }
            T::Ipv4Address => {
                let octets: [u8; 4] = bytes.try_into().ok()?;
                Self::Address(Ipv4Addr::from(octets).into())
            }
            T::Ipv6Address => {
                let octets: [u8; 16] = bytes.try_into().ok()?;
                Self::Address(Ipv6Addr::from(octets).into())
            }
            T::OctetArray
            | T::BasicList
            | T::SubTemplateList
            | T::SubTemplateMultiList
            | T::Unsigned256 => return None,
        })
    }
}

impl fmt::Display for DataValue<'_> {
    /// As people read it. Texts come from the network: there is nothing in them that a terminal
    /// would obey.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(number) => write!(formatter, "{number}"),
            Self::Signed(number) => write!(formatter, "{number}"),
            Self::Float(number) => write!(formatter, "{number}"),
            Self::Boolean(answer) => write!(formatter, "{answer}"),
            Self::Text(text) => write!(formatter, "{}", text.escape_debug()),
            Self::Time(ns) => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(*ns);
                write!(formatter, "{}", humantime::format_rfc3339_nanos(time))
            }
            Self::Address(address) => write!(formatter, "{address}"),
            Self::HardwareAddress(octets) => {
                let octets = octets.map(|octet| format!("{octet:02x}"));
                formatter.write_str(&octets.join(":"))
            }
            Self::Octets(bytes) => {
                formatter.write_str("0x")?;
                bytes
                    .iter()
                    .try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }
    }
}

/// A number of 1 to 8 bytes: any may be sent shorter than its type is (section 6.2).
fn unsigned(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let number = bytes.iter();
    Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shortened_numbers_are_read() {
        let negative = (-7_i64).to_be_bytes();
        let fraction = 1.5_f32.to_be_bytes();
        for (data_type, bytes, value) in [
            (DataType::Unsigned64, &[1, 0][..], DataValue::Unsigned(256)),
            (DataType::Signed64, &[0xff, 0xfe], DataValue::Signed(-2)),
            (DataType::Signed64, &negative, DataValue::Signed(-7)),
            (DataType::Float64, &fraction, DataValue::Float(1.5)),
        ] {
            assert_eq!(DataValue::read(data_type, bytes), value);
        }
    }

    #[test]
    fn what_does_not_fit_stays_bytes() {
        for (data_type, bytes) in [
            (DataType::Unsigned64, &[0; 9][..]),
            (DataType::Unsigned8, &[]),
            (DataType::Boolean, &[0]),
            (DataType::Text, &[0xff]),
            (DataType::Ipv4Address, &[1, 2, 3]),
            (DataType::DateTimeMilliseconds, &[0xff; 8]),
            (DataType::DateTimeNanoseconds, &[0x80, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(DataValue::read(data_type, bytes), DataValue::Octets(bytes));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_value(number in 0..24_u64, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            DataValue::read(DataType::from_number(number).unwrap(), &bytes);
        }
    }
}
