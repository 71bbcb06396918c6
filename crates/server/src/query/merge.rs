//! The aggregate `merge(histogram)`: one histogram with the samples of all.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use fathom_record::Histogram;
use fathom_store::{Histograms, histogram_type};

use super::functions::histograms;

/// `merge(histogram)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Merge {
    signature: Signature,
}

impl Merge {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::exact(vec![histogram_type()], Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Merge {
    fn name(&self) -> &'static str {
        "merge"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(histogram_type())
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}_merged", arguments.name);
        Ok(vec![Arc::new(Field::new(name, histogram_type(), true))])
    }

    fn accumulator(&self, _arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Merged::default()))
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(MergedGroups::default()))
    }
}

/// What all rows have; `None`: none has a histogram.
#[derive(Debug, Default)]
struct Merged {
    histogram: Option<Histogram>,
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let histograms = histograms(&values[0])?;
        for more in (0..values[0].len()).filter_map(|row| histograms.buckets(row)) {
            self.histogram.get_or_insert_default().add_buckets(more);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut column = Histograms::default();
        column.put(self.histogram.as_ref());
        Ok(ScalarValue::List(Arc::new(column.finish())))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.histogram.as_ref().map_or(0, Histogram::heap_bytes)
    }
}

/// The same by group.
#[derive(Debug, Default)]
struct MergedGroups {
    histograms: Vec<Option<Histogram>>,
    /// What they have allocated.
    heap_bytes: usize,
}

impl GroupsAccumulator for MergedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.histograms.resize(group_count, None);
        let histograms = histograms(&values[0])?;
        for (row, &group) in groups.iter().enumerate() {
            let counts = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            let Some(more) = histograms.buckets(row).filter(|_| counts) else {
                continue;
            };
            let histogram = self.histograms[group].get_or_insert_default();
            self.heap_bytes -= histogram.heap_bytes();
            histogram.add_buckets(more);
            self.heap_bytes += histogram.heap_bytes();
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, filter, group_count)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        let mut column = Histograms::default();
        for histogram in emitted.take_needed(&mut self.histograms) {
            column.put(histogram.as_ref());
            self.heap_bytes -= histogram.as_ref().map_or(0, Histogram::heap_bytes);
        }
        Ok(Arc::new(column.finish()))
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emitted)?])
    }

    fn size(&self) -> usize {
        self.histograms.capacity() * size_of::<Option<Histogram>>() + self.heap_bytes
    }
}
