//! Columns of a kind of record as several versions of fathom wrote them.

use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{ArrowError, Field as Column, Schema as Columns, SchemaRef};

/// The columns of all, the newest of which is the last: its own first, then those that only older
/// ones have. `None`: two have a column of one name and two types.
pub(crate) fn united(all: &[SchemaRef]) -> Option<SchemaRef> {
    let newest = all.last()?;
    if all.iter().all(|one| one == newest) {
        return Some(newest.clone());
    }
    let mut columns: Vec<_> = newest.fields().iter().cloned().collect();
    for column in all.iter().rev().flat_map(|one| one.fields()) {
        match columns.iter_mut().find(|it| it.name() == column.name()) {
            Some(known) if known.data_type() != column.data_type() => return None,
            // What came by IPFIX has names and types alone.
            Some(known) if !is_told(known) && is_told(column) => {
                let told = known.as_ref().clone();
                *known = Arc::new(told.with_metadata(column.metadata().clone()));
            }
            Some(_) => {}
            None => columns.push(column.clone()),
        }
    }
    // What one of them lacks is empty there.
    let is_everywhere = |name: &str| all.iter().all(|one| one.column_with_name(name).is_some());
    let columns = columns.into_iter().map(|column| {
        let is_nullable = column.is_nullable() || !is_everywhere(column.name());
        Arc::new(column.as_ref().clone().with_nullable(is_nullable))
    });
    let columns: Vec<_> = columns.collect();
    let united = Columns::new(columns).with_metadata(newest.metadata().clone());
    Some(Arc::new(united))
}

/// Does it say what it is?
fn is_told(column: &Column) -> bool {
    let about = column.metadata().get("about");
    about.is_some_and(|about| !about.is_empty())
}

/// Rows with these columns: those that they lack are empty.
///
/// # Errors
/// When a column is of another type.
pub fn fitted(rows: &RecordBatch, columns: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if rows.schema_ref() == columns {
        return Ok(rows.clone());
    }
    let fitted = columns.fields().iter().map(|field| {
        let column = rows.column_by_name(field.name()).cloned();
        column.unwrap_or_else(|| new_null_array(field.data_type(), rows.num_rows()))
    });
    RecordBatch::try_new(columns.clone(), fitted.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_schema::DataType;

    use super::*;

    fn columns(metadata: &[(&str, &str)]) -> SchemaRef {
        let metadata = metadata
            .iter()
            .map(|&(key, value)| (key.into(), value.into()));
        let column = Column::new("bytes", DataType::UInt64, true);
        let column = column.with_metadata(metadata.collect::<HashMap<_, _>>());
        Arc::new(Columns::new(vec![column]))
    }

    #[test]
    fn columns_are_told_by_whichever_tells_of_them() {
        let told = columns(&[("about", "How much."), ("unit", "bytes"), ("fold", "sum")]);
        for bare in [columns(&[]), columns(&[("about", "")])] {
            for all in [[told.clone(), bare.clone()], [bare, told.clone()]] {
                assert_eq!(united(&all).as_ref(), Some(&told));
            }
        }
    }
}
