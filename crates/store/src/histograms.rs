//! Histograms as a column: lists of buckets, each of which says where it begins. Any engine can
//! read that, and add histograms up.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, ListArray, StructArray, UInt64Array};
use arrow_buffer::{ArrowNativeType as _, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Field as Column, FieldRef, Fields};
use fathom_record::Histogram;

/// The shortest duration that counts in a bucket, in nanoseconds; of the first bucket, 0.
const BEGIN: &str = "from_ns";
/// How many samples a bucket has.
const COUNT: &str = "count";

/// The type of the column.
pub fn histogram_type() -> DataType {
    DataType::List(bucket())
}

fn bucket() -> FieldRef {
    Arc::new(Column::new(
        "item",
        DataType::Struct(bucket_fields()),
        false,
    ))
}

fn bucket_fields() -> Fields {
    let field = |name| Column::new(name, DataType::UInt64, false);
    Fields::from(vec![field(BEGIN), field(COUNT)])
}

/// Such a column, to be read.
#[derive(Debug, Clone, Copy)]
pub struct HistogramColumn<'a> {
    column: &'a ListArray,
    begins: &'a [u64],
    counts: &'a [u64],
}

impl<'a> HistogramColumn<'a> {
    /// `None`: it is another column.
    pub fn of(column: &'a ListArray) -> Option<Self> {
        let buckets = column.values().as_struct_opt()?;
        let numbers = |name| {
            let numbers = buckets.column_by_name(name)?;
            numbers.as_primitive_opt::<UInt64Type>()
        };
        Some(Self {
            column,
            begins: numbers(BEGIN)?.values(),
            counts: numbers(COUNT)?.values(),
        })
    }

    /// The buckets of a row: where each begins, in nanoseconds, and how many samples it has.
    /// `None`: there is no histogram.
    pub fn buckets(&self, row: usize) -> Option<impl Iterator<Item = (u64, u64)> + use<'a>> {
        if self.column.is_null(row) {
            return None;
        }
        let offsets = self.column.value_offsets();
        let range = offsets[row].as_usize()..offsets[row + 1].as_usize();
        let (begins, counts) = (&self.begins[range.clone()], &self.counts[range]);
        Some(begins.iter().copied().zip(counts.iter().copied()))
    }

    /// The histogram of a row; `None`: there is none.
    pub fn histogram(&self, row: usize) -> Option<Histogram> {
        self.buckets(row).map(Histogram::of_buckets)
    }
}

/// Such a column, which grows.
pub struct Histograms {
    begins: Vec<u64>,
    counts: Vec<u64>,
    lengths: Vec<usize>,
    present: NullBufferBuilder,
}

impl Default for Histograms {
    fn default() -> Self {
        Self {
            begins: Vec::new(),
            counts: Vec::new(),
            lengths: Vec::new(),
            present: NullBufferBuilder::new(0),
        }
    }
}

impl Histograms {
    /// Adds a row.
    pub fn put(&mut self, histogram: Option<&Histogram>) {
        let before = self.begins.len();
        for (bucket, count) in histogram.into_iter().flat_map(Histogram::buckets) {
            self.begins.push(*Histogram::bucket_bounds(bucket).start());
            self.counts.push(count);
        }
        self.lengths.push(self.begins.len() - before);
        self.present.append(histogram.is_some());
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.lengths.len()
    }

    /// The column.
    pub fn finish(mut self) -> ListArray {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.begins)),
            Arc::new(UInt64Array::from(self.counts)),
        ];
        let buckets = StructArray::new(bucket_fields(), columns, None);
        ListArray::new(
            bucket(),
            OffsetBuffer::from_lengths(self.lengths),
            Arc::new(buckets),
            self.present.finish(),
        )
    }
}
