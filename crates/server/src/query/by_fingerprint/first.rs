//! The aggregate `first(column)`: the value that the first row of a group has in it. All rows of a
//! group have the same where groups are by this column.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

/// `first(column)`, where there are groups.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct First {
    signature: Signature,
}

impl First {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let kind = arguments.return_field.data_type().clone();
        Ok(vec![Arc::new(Field::new(arguments.name, kind, true))])
    }

    fn accumulator(&self, _arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        internal_err!("only groups have a first row")
    }

    fn groups_accumulator_supported(&self, _arguments: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = arguments.return_field.data_type().clone();
        Ok(Box::new(Firsts::new(kind)))
    }
}

/// The values of groups, one after the other, as columns: texts take no more than their bytes.
#[derive(Debug)]
struct Firsts {
    kind: DataType,
    parts: Vec<ArrayRef>,
    groups: usize,
    bytes: usize,
}

impl Firsts {
    fn new(kind: DataType) -> Self {
        Self {
            kind,
            parts: Vec::new(),
            groups: 0,
            bytes: 0,
        }
    }

    fn put(&mut self, part: ArrayRef) {
        self.groups += part.len();
        self.bytes += part.get_array_memory_size();
        self.parts.push(part);
    }
}

impl GroupsAccumulator for Firsts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        if filter.is_some() {
            return internal_err!("the first row of a group is no matter of a filter");
        }
        let mut rows: Vec<Option<u32>> = vec![None; group_count - self.groups];
        for (row, &group) in groups.iter().enumerate() {
            if let Some(new) = group.checked_sub(self.groups) {
                rows[new].get_or_insert(row as u32);
            }
        }
        if !rows.is_empty() {
            self.put(take(&values[0], &UInt32Array::from(rows), None)?);
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
        let parts = std::mem::take(&mut self.parts);
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let all = match parts.as_slice() {
            [] => new_empty_array(&self.kind),
            parts => concat(parts)?,
        };
        (self.groups, self.bytes) = (0, 0);
        Ok(match emitted {
            EmitTo::All => all,
            EmitTo::First(groups) => {
                self.put(all.slice(groups, all.len() - groups));
                all.slice(0, groups)
            }
        })
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emitted)?])
    }

    /// Each row is a group.
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        _filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(values.to_vec())
    }

    fn supports_convert_to_state(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes
    }
}
