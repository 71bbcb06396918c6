//! Information elements: what a field means, and how its bytes are read (RFC 7011, section 3.2; RFC
//! 5610).

use std::borrow::Cow;

use crate::iana;

/// An abstract data type, with its number in RFC 5610, section 3.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the registry's")]
pub enum DataType {
    OctetArray = 0,
    Unsigned8 = 1,
    Unsigned16 = 2,
    Unsigned32 = 3,
    Unsigned64 = 4,
    Signed8 = 5,
    Signed16 = 6,
    Signed32 = 7,
    Signed64 = 8,
    Float32 = 9,
    Float64 = 10,
    Boolean = 11,
    MacAddress = 12,
    /// `string` in the registry.
    Text = 13,
    DateTimeSeconds = 14,
    DateTimeMilliseconds = 15,
    DateTimeMicroseconds = 16,
    DateTimeNanoseconds = 17,
    Ipv4Address = 18,
    Ipv6Address = 19,
    BasicList = 20,
    SubTemplateList = 21,
    SubTemplateMultiList = 22,
    Unsigned256 = 23,
}

impl DataType {
    const ALL: [Self; 24] = [
        Self::OctetArray,
        Self::Unsigned8,
        Self::Unsigned16,
        Self::Unsigned32,
        Self::Unsigned64,
        Self::Signed8,
        Self::Signed16,
        Self::Signed32,
        Self::Signed64,
        Self::Float32,
        Self::Float64,
        Self::Boolean,
        Self::MacAddress,
        Self::Text,
        Self::DateTimeSeconds,
        Self::DateTimeMilliseconds,
        Self::DateTimeMicroseconds,
        Self::DateTimeNanoseconds,
        Self::Ipv4Address,
        Self::Ipv6Address,
        Self::BasicList,
        Self::SubTemplateList,
        Self::SubTemplateMultiList,
        Self::Unsigned256,
    ];

    /// The type of this number in RFC 5610, section 3.1.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Bytes of a value that is not reduced in size; `None` where the length varies.
    pub const fn bytes(self) -> Option<u16> {
        Some(match self {
            Self::Unsigned8 | Self::Signed8 | Self::Boolean => 1,
            Self::Unsigned16 | Self::Signed16 => 2,
            Self::Unsigned32
            | Self::Signed32
            | Self::Float32
            | Self::DateTimeSeconds
            | Self::Ipv4Address => 4,
            Self::MacAddress => 6,
            Self::Unsigned64
            | Self::Signed64
            | Self::Float64
            | Self::DateTimeMilliseconds
            | Self::DateTimeMicroseconds
            | Self::DateTimeNanoseconds => 8,
            Self::Ipv6Address => 16,
            Self::Unsigned256 => 32,
            Self::OctetArray
            | Self::Text
            | Self::BasicList
            | Self::SubTemplateList
            | Self::SubTemplateMultiList => return None,
        })
    }
}

/// What kind of quantity a number is, with its number in RFC 5610, section 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the registry's")]
pub enum Semantics {
    Default = 0,
    Quantity = 1,
    TotalCounter = 2,
    DeltaCounter = 3,
    Identifier = 4,
    Flags = 5,
    List = 6,
    SnmpCounter = 7,
    SnmpGauge = 8,
}

/// What a number counts, with its number in RFC 5610, section 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are the registry's")]
pub enum Units {
    None = 0,
    Bits = 1,
    Octets = 2,
    Packets = 3,
    Flows = 4,
    Seconds = 5,
    Milliseconds = 6,
    Microseconds = 7,
    Nanoseconds = 8,
    /// Words of four octets.
    Words = 9,
    Messages = 10,
    Hops = 11,
    Entries = 12,
    Frames = 13,
    Ports = 14,
    /// By another element.
    Inferred = 15,
}

/// The enterprise number under which IANA's elements are those of the other direction (RFC 5103,
/// section 6.1).
pub(crate) const REVERSE_ENTERPRISE: u32 = 29_305;

/// Elements of IANA's that are numbers for what records say in words: the element, the text, the
/// number.
const CODES: [(u16, &str, u8); 6] = [
    // flowEndReason
    (136, "active timeout", 2),
    (136, "end of flow", 3),
    (136, "forced end", 4),
    (136, "lack of resources", 5),
    // biflowDirection: whether the source of the record is the end that began the flow
    (239, "client", 1),
    (239, "server", 2),
];

/// Whether an element has numbers for texts.
pub(crate) fn has_codes(element: u16) -> bool {
    CODES.iter().any(|(own, ..)| *own == element)
}

/// The number that the element has for a text.
pub(crate) fn code_of(element: u16, text: &str) -> Option<u8> {
    let found = CODES.iter().find(|row| (row.0, row.1) == (element, text));
    found.map(|row| row.2)
}

/// The text that the element has a number for.
pub(crate) fn text_of_code(element: u16, code: u64) -> Option<&'static str> {
    let found = CODES
        .iter()
        .find(|row| row.0 == element && u64::from(row.2) == code);
    found.map(|row| row.1)
}

/// What is known of an information element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its name: IANA's, or the one its owner tells.
    pub name: Cow<'static, str>,
    /// How its bytes are read.
    pub data_type: DataType,
}

/// The name and type of an element of IANA's registry.
///
/// ```
/// use fathom_ipfix::{DataType, iana_element};
///
/// let port = iana_element(7).unwrap();
/// assert_eq!((port.name.as_ref(), port.data_type), ("sourceTransportPort", DataType::Unsigned16));
/// ```
pub fn iana_element(number: u16) -> Option<Element> {
    row(number).map(|&(_, name, data_type, ..)| Element {
        name: Cow::Borrowed(name),
        data_type,
    })
}

/// The same of the other direction: the name of RFC 5103, section 6.1.
pub(crate) fn reverse_element(number: u16) -> Option<Element> {
    let element = iana_element(number)?;
    let (first, rest) = element.name.split_at_checked(1)?;
    let name = format!("reverse{}{rest}", first.to_ascii_uppercase());
    Some(Element {
        name: Cow::Owned(name),
        ..element
    })
}

/// The whole row of an element of IANA's registry.
pub(crate) fn row(number: u16) -> Option<&'static iana::Row> {
    let found = iana::ELEMENTS.binary_search_by_key(&number, |row| row.0);
    found.ok().map(|index| &iana::ELEMENTS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_sorted() {
        assert!(iana::ELEMENTS.is_sorted_by_key(|row| row.0));
        assert!(iana::ELEMENTS.len() > 490);
        assert_eq!(iana_element(8).unwrap().data_type, DataType::Ipv4Address);
        assert_eq!(iana_element(0), None);
        assert_eq!(iana_element(32_767), None);
    }

    #[test]
    fn the_other_direction_has_names() {
        let reverse = reverse_element(1).unwrap();
        assert_eq!(reverse.name, "reverseOctetDeltaCount");
        assert_eq!(reverse.data_type, DataType::Unsigned64);
        assert_eq!(reverse_element(0), None);
    }

    #[test]
    fn types_have_their_numbers() {
        for (number, data_type) in DataType::ALL.into_iter().enumerate() {
            assert_eq!(data_type as usize, number);
            assert_eq!(DataType::from_number(number as u64), Some(data_type));
        }
        assert_eq!(DataType::from_number(24), None);
        assert_eq!(DataType::from_number(u64::MAX), None);
    }
}
