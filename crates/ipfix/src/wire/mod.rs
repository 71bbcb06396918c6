//! The bytes of RFC 7011: messages of sets of records, templates that describe the records, and the
//! values in them.

mod read;
mod record;
mod template;
mod time;
mod value;
mod write;

pub use read::{Header, Message, Set, Sets};
pub use record::{DataRecord, DataRecords};
pub use template::{FieldSpecifier, Template, TemplateChange, VARIABLE_LENGTH};
pub use value::DataValue;
pub use write::{Encoded, MessageWriter, write_text};

pub(crate) use time::{date_time_microseconds, date_time_nanoseconds};

/// The version of IPFIX in every message header.
const VERSION: u16 = 10;
/// Bytes of a message header.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of a set header.
pub(crate) const SET_HEADER_BYTES: usize = 4;
/// The set of templates.
pub(crate) const TEMPLATE_SET: u16 = 2;
/// The set of options templates.
pub(crate) const OPTIONS_TEMPLATE_SET: u16 = 3;
/// The lowest number of a template, and of a set of data.
pub(crate) const FIRST_TEMPLATE: u16 = 256;
/// The bit of an element's number that says that an enterprise number follows.
const ENTERPRISE_BIT: u16 = 0x8000;

/// The two bytes at `offset`, if there are so many.
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let two = bytes.get(offset..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*two))
}

/// The four bytes at `offset`, if there are so many.
fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let four = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*four))
}
