//! Which type each column has: records of other versions of fathom may say otherwise.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field as Column};

use crate::layout::Layout;
use crate::segment::columns_of;
use crate::{Batch, Error};

/// Which type the columns of each kind have in a store.
#[derive(Debug, Default)]
pub(crate) struct Types {
    kinds: HashMap<Arc<str>, HashMap<String, DataType>>,
}

impl Types {
    /// Makes sure that the columns of a batch have the types that they had before.
    ///
    /// # Errors
    /// [`Error::Column`] for one that has another.
    pub(crate) fn check(&mut self, layout: &Layout, batch: &Batch) -> Result<(), Error> {
        if !self.kinds.contains_key(&batch.kind) {
            self.kinds
                .insert(batch.kind.clone(), newest(layout, &batch.kind)?);
        }
        let known = self.kinds.entry(batch.kind.clone()).or_default();
        let columns = batch.rows.schema_ref().fields();
        let is_other = |column: &&Arc<Column>| {
            let before = known.get(column.name());
            before.is_some_and(|before| before != column.data_type())
        };
        if let Some(column) = columns.iter().find(is_other) {
            return Err(Error::Column {
                kind: batch.kind.to_string(),
                column: column.name().clone(),
                found: column.data_type().to_string(),
                before: known[column.name()].to_string(),
            });
        }
        for column in columns {
            if !known.contains_key(column.name()) {
                known.insert(column.name().clone(), column.data_type().clone());
            }
        }
        Ok(())
    }
}

/// The types in the newest segment.
fn newest(layout: &Layout, kind: &str) -> Result<HashMap<String, DataType>, Error> {
    let _held = layout.hold();
    let segments = layout.segments(kind)?;
    let Some(segment) = segments.last() else {
        return Ok(HashMap::new());
    };
    let columns = columns_of(segment)?;
    let types = columns
        .fields()
        .iter()
        .map(|column| (column.name().clone(), column.data_type().clone()));
    Ok(types.collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};

    use super::*;

    fn numbers(name: &str, numbers: &[u64]) -> RecordBatch {
        let column = Arc::new(UInt64Array::from(numbers.to_vec())) as ArrayRef;
        RecordBatch::try_from_iter([(name, column)]).unwrap()
    }

    #[test]
    fn a_column_keeps_its_type() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let mut types = Types::default();
        let batch = |rows| Batch::new("rtt", rows);
        types
            .check(&layout, &batch(numbers("count", &[1])))
            .unwrap();
        let texts = Arc::new(StringArray::from(vec!["many"])) as ArrayRef;
        let texts = RecordBatch::try_from_iter([("count", texts)]).unwrap();
        let error = types.check(&layout, &batch(texts)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "records of the kind rtt have the column count as Utf8, which was UInt64 before"
        );
    }
}
