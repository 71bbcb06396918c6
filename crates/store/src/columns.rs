//! What the fields of records are as columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    ArrayBuilder as _, BooleanBuilder, Float64Builder, StringBuilder, TimestampNanosecondBuilder,
    UInt16Builder, UInt64Builder,
};
use arrow_schema::{DataType, Field as Column, Schema as Columns, TimeUnit};
use fathom_record::format::ValueText;
use fathom_record::{Field, Schema, Type, Unit, Value};

use crate::fold;
use crate::histograms::{Histograms, histogram_type};

/// The columns of a kind of record: `host`, then its fields. What a field is, its unit, and what
/// becomes of it over longer intervals are metadata of its column.
pub(crate) fn columns_of(schema: &Schema) -> Columns {
    let host = Column::new("host", DataType::Utf8, false).with_metadata(HashMap::from([(
        "about".to_owned(),
        "Who observed.".to_owned(),
    )]));
    let fields = schema.fields.iter().map(|field| {
        let column = Column::new(field.name, type_of(field.kind), true);
        column.with_metadata(metadata(field))
    });
    let about = ("about".to_owned(), schema.about.to_owned());
    let all: Vec<_> = [host].into_iter().chain(fields).collect();
    Columns::new(all).with_metadata(HashMap::from([about]))
}

fn metadata(field: &Field) -> HashMap<String, String> {
    let unit = match field.unit {
        Unit::None | Unit::Count => None,
        Unit::Nanoseconds => Some("ns"),
        Unit::Bytes => Some("bytes"),
        Unit::Packets => Some("packets"),
    };
    let unit = unit.map(|unit| ("unit".to_owned(), unit.to_owned()));
    let about = ("about".to_owned(), field.about.to_owned());
    let fold = field
        .fold
        .map(|fold| (fold::METADATA.to_owned(), fold.to_string()));
    [about].into_iter().chain(unit).chain(fold).collect()
}

fn type_of(kind: Type) -> DataType {
    match kind {
        Type::Unsigned | Type::Duration => DataType::UInt64,
        Type::Float => DataType::Float64,
        Type::Boolean => DataType::Boolean,
        Type::Text | Type::Address | Type::Protocol | Type::Network | Type::CommunityId => {
            DataType::Utf8
        }
        Type::Time => time_type(),
        Type::Port => DataType::UInt16,
        Type::Histogram => histogram_type(),
    }
}

/// Nanoseconds since the Unix epoch, UTC.
pub(crate) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// Of a text, about: an address, a name.
const TEXT_BYTES: usize = 16;

/// A column that grows.
pub(crate) enum Growing {
    Unsigned(UInt64Builder),
    Port(UInt16Builder),
    Float(Float64Builder),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
    Time(TimestampNanosecondBuilder),
    Histogram(Histograms),
}

impl Growing {
    /// An empty one, with room for so many rows.
    pub(crate) fn new(kind: &DataType, rows: usize) -> Self {
        match kind {
            DataType::UInt16 => Self::Port(UInt16Builder::with_capacity(rows)),
            DataType::Float64 => Self::Float(Float64Builder::with_capacity(rows)),
            DataType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Utf8 => Self::Text(StringBuilder::with_capacity(rows, rows * TEXT_BYTES)),
            DataType::Timestamp(..) => {
                let column = TimestampNanosecondBuilder::with_capacity(rows);
                Self::Time(column.with_data_type(time_type()))
            }
            DataType::List(_) => Self::Histogram(Histograms::default()),
            _ => Self::Unsigned(UInt64Builder::with_capacity(rows)),
        }
    }

    /// Adds the value of a row, behind those that it has; rows that are passed over have none.
    /// `text` makes texts of values.
    pub(crate) fn put(&mut self, row: usize, value: Value<'_>, text: &mut ValueText) {
        if matches!(value, Value::Missing) {
            return;
        }
        self.pass_over(row);
        match (self, value) {
            (Self::Unsigned(column), Value::Unsigned(number) | Value::Duration(number)) => {
                column.append_value(number);
            }
            (Self::Port(column), Value::Port(port)) => column.append_value(port),
            (Self::Float(column), Value::Float(number)) => column.append_value(number),
            (Self::Boolean(column), Value::Boolean(answer)) => column.append_value(answer),
            (Self::Time(column), Value::Time(ns)) => {
                column.append_value(i64::try_from(ns).unwrap_or(i64::MAX));
            }
            (Self::Text(column), Value::Text(text)) => column.append_value(text),
            (
                Self::Text(column),
                Value::Address(_) | Value::Protocol(_) | Value::Network(_) | Value::CommunityId(_),
            ) => column.append_value(text.of(value)),
            (Self::Histogram(column), Value::Histogram(histogram)) => column.put(Some(histogram)),
            // No value of its type.
            _ => {}
        }
    }

    /// The next value is that of this row.
    fn pass_over(&mut self, row: usize) {
        let rows = row - self.rows();
        if rows == 0 {
            return;
        }
        match self {
            Self::Unsigned(column) => column.append_nulls(rows),
            Self::Port(column) => column.append_nulls(rows),
            Self::Float(column) => column.append_nulls(rows),
            Self::Boolean(column) => column.append_nulls(rows),
            Self::Text(column) => column.append_nulls(rows),
            Self::Time(column) => column.append_nulls(rows),
            Self::Histogram(column) => (0..rows).for_each(|_| column.put(None)),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::Unsigned(column) => column.len(),
            Self::Port(column) => column.len(),
            Self::Float(column) => column.len(),
            Self::Boolean(column) => column.len(),
            Self::Text(column) => column.len(),
            Self::Time(column) => column.len(),
            Self::Histogram(column) => column.rows(),
        }
    }

    /// What it has, of so many rows.
    pub(crate) fn finish(mut self, rows: usize) -> ArrayRef {
        self.pass_over(rows);
        match self {
            Self::Unsigned(mut column) => Arc::new(column.finish()),
            Self::Port(mut column) => Arc::new(column.finish()),
            Self::Float(mut column) => Arc::new(column.finish()),
            Self::Boolean(mut column) => Arc::new(column.finish()),
            Self::Text(mut column) => Arc::new(column.finish()),
            Self::Time(mut column) => Arc::new(column.finish()),
            Self::Histogram(column) => Arc::new(column.finish()),
        }
    }
}
