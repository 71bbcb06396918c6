//! Records of exporters that are not fathom's: the table `ipfix`.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, ListArray, RecordBatch, StringArray, StringBuilder, StructArray,
    TimestampNanosecondArray, UInt64Array,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use fathom_ipfix::Collected;
use fathom_ipfix::wire::DataValue;
use fathom_store::Batch;

/// Rows, column by column.
#[derive(Default)]
pub(super) struct Foreign {
    times: Vec<i64>,
    exporters: StringBuilder,
    domains: Vec<u64>,
    templates: Vec<u64>,
    /// Of the elements of all records, one after the other, and where those of each record end.
    elements: StringBuilder,
    values: StringBuilder,
    ends: Vec<i32>,
    count: i32,
}

impl Foreign {
    /// Takes a record.
    pub(super) fn put(&mut self, record: &Collected<'_>) {
        let header = record.header;
        self.times
            .push(i64::from(header.export_time) * 1_000_000_000);
        let exporter = record.session.exporter.ip().to_canonical();
        append(&mut self.exporters, &exporter);
        self.domains.push(header.domain.into());
        self.templates.push(record.record.template.id.into());
        for field in record.fields() {
            self.elements.append_value(&field.name);
            match field.value {
                DataValue::Text(text) => self.values.append_value(text),
                value => append(&mut self.values, &value),
            }
            self.count += 1;
        }
        self.ends.push(self.count);
    }

    /// What was taken, if there is something.
    pub(super) fn take(&mut self) -> Option<Batch> {
        if self.times.is_empty() {
            return None;
        }
        let mut all = std::mem::take(self);
        let rows = all.times.len();
        let exporters: StringArray = all.exporters.finish();
        let times = TimestampNanosecondArray::from(all.times).with_timezone("UTC");
        let fields = Fields::from(vec![
            Field::new("element", DataType::Utf8, false),
            Field::new("value", DataType::Utf8, false),
        ]);
        let texts: Vec<ArrayRef> = vec![
            Arc::new(all.elements.finish()),
            Arc::new(all.values.finish()),
        ];
        let item = Arc::new(Field::new("item", DataType::Struct(fields.clone()), true));
        let offsets = std::iter::once(0).chain(all.ends).collect::<Vec<_>>();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let values = Arc::new(StructArray::new(fields, texts, None));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("host", Arc::new(exporters.clone())),
            ("time", Arc::new(times)),
            ("exporter", Arc::new(exporters)),
            (
                "observation_domain",
                Arc::new(UInt64Array::from(all.domains)),
            ),
            ("template", Arc::new(UInt64Array::from(all.templates))),
            (
                "fields",
                Arc::new(ListArray::new(item, offsets, values, None)),
            ),
        ];
        debug_assert!(columns.iter().all(|(_, column)| column.len() == rows));
        let rows = RecordBatch::try_from_iter(columns);
        Some(Batch::new(
            "ipfix",
            rows.expect("each row has a value in each column"),
        ))
    }
}

fn append(column: &mut StringBuilder, shown: &dyn std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(column, "{shown}");
    column.append_value("");
}
