//! Records as lines of text, JSON and CSV.
//!
//! The writers know no measurement by name: all they print derives from [`Schema`](crate::Schema).
//! They prepare what is constant of a kind of record at its first one, and keep what they made of
//! recent flows: little is allocated for the records that follow.

mod address;
mod clock;
mod csv;
mod duration;
mod flows;
mod json;
mod line;
mod plain;
mod prepared;
mod text;
mod value_text;

use std::str::FromStr;

pub use csv::CsvWriter;
pub use duration::display_duration;
pub use json::JsonWriter;
pub use text::TextWriter;
pub use value_text::ValueText;

use crate::{Error, Record};

/// Local time: seconds that are to be added to UTC at this second since 1970.
pub type OffsetAt = fn(u64) -> i32;

/// Something that turns records into bytes.
pub trait Sink {
    /// Appends one record to `out`, as whole lines.
    fn write(&mut self, record: &dyn Record, out: &mut Vec<u8>);
}

/// The formats there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Lines for people; see [`TextWriter`].
    Text,
    /// An object a line; see [`JsonWriter`].
    Json,
    /// Comma-separated values; see [`CsvWriter`].
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Csv];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }

    /// A new writer of this format, which tells no host, and times as UTC.
    pub fn sink(self) -> Box<dyn Sink + Send> {
        match self {
            Self::Text => Box::new(TextWriter::default()),
            Self::Json => Box::new(JsonWriter::default()),
            Self::Csv => Box::new(CsvWriter::default()),
        }
    }

    /// A new writer of this format: data have the name of the host that observed them and are in
    /// UTC, text for people has local time.
    pub fn sink_of(self, host: &str, offset_at: OffsetAt) -> Box<dyn Sink + Send> {
        match self {
            Self::Text => Box::new(TextWriter::of_zone(offset_at)),
            Self::Json => Box::new(JsonWriter::of_host(host)),
            Self::Csv => Box::new(CsvWriter::of_host(host)),
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    /// Reads a [`Format::name`]; [`Error::Format`] for anything else.
    fn from_str(text: &str) -> Result<Self, Error> {
        let named = Self::ALL.into_iter().find(|format| format.name() == text);
        named.ok_or_else(|| Error::Format {
            text: text.to_owned(),
        })
    }
}
