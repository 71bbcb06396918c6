//! Records, put together in columns.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::SchemaRef;
use fathom_record::format::ValueText;
use fathom_record::parts::Part as _;
use fathom_record::{FlowKey, Record, Schema, Value, Visitor};

use crate::columns::{Growing, columns_of};
use crate::{Error, frame};

/// Records of one kind, which do not change.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The name of the kind: the table.
    pub kind: Arc<str>,
    /// The records, a row each.
    pub rows: RecordBatch,
    /// What [`Batch::frame`] gave. A store and those who send to others have clones of a batch.
    frame: Arc<Mutex<Option<Arc<[u8]>>>>,
}

impl PartialEq for Batch {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.rows == other.rows
    }
}

impl Batch {
    /// These records.
    pub fn new(kind: impl Into<Arc<str>>, rows: RecordBatch) -> Self {
        Self {
            kind: kind.into(),
            rows,
            frame: Arc::default(),
        }
    }

    /// Its frame, which is made once for all clones.
    ///
    /// # Errors
    /// [`Error::Records`] when it cannot be encoded.
    pub(crate) fn frame(&self) -> Result<Arc<[u8]>, Error> {
        let mut known = self.frame.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(frame) = &*known {
            return Ok(frame.clone());
        }
        let frame: Arc<[u8]> = frame::write(self)?.into();
        *known = Some(frame.clone());
        Ok(frame)
    }

    /// What the rows take of memory.
    pub fn memory_bytes(&self) -> usize {
        self.rows.get_array_memory_size()
    }
}

/// For so many rows there is room in the first batch.
const FIRST_ROWS: usize = 1024;

/// Collects records of all kinds.
pub struct Batches {
    host: String,
    kinds: Vec<Collected>,
}

struct Collected {
    schema: &'static Schema,
    kind: Arc<str>,
    columns: SchemaRef,
    /// Those of the fields, and before them that of the host; none before the first row.
    growing: Vec<Growing>,
    rows: usize,
    /// For so many rows there is room from the first one on: those of the batch before.
    room: usize,
    text: ValueText,
}

impl Batches {
    /// None, of this host.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            kinds: Vec::new(),
        }
    }

    /// Takes a record.
    pub fn put(&mut self, record: &dyn Record) {
        let schema = record.schema();
        let is_same = |one: &Collected| std::ptr::eq(one.schema, schema);
        let index = self.kinds.iter().position(is_same).unwrap_or_else(|| {
            self.kinds.push(Collected::new(schema));
            self.kinds.len() - 1
        });
        self.kinds[index].put(record, &self.host);
    }

    /// How many records there are.
    pub fn rows(&self) -> usize {
        self.kinds.iter().map(|one| one.rows).sum()
    }

    /// What was collected, a batch for each kind of which there is something.
    pub fn take(&mut self) -> Vec<Batch> {
        let some = self.kinds.iter_mut().filter(|one| one.rows > 0);
        some.map(Collected::take).collect()
    }
}

impl Collected {
    fn new(schema: &'static Schema) -> Self {
        Self {
            schema,
            kind: schema.kind.into(),
            columns: Arc::new(columns_of(schema)),
            growing: Vec::new(),
            rows: 0,
            room: FIRST_ROWS,
            text: ValueText::default(),
        }
    }

    fn put(&mut self, record: &dyn Record, host: &str) {
        if self.rows == 0 {
            let columns = self.columns.fields().iter();
            let empty = columns.map(|column| Growing::new(column.data_type(), self.room));
            self.growing.extend(empty);
        }
        self.growing[0].put(self.rows, Value::Text(host), &mut self.text);
        record.visit(&mut Row {
            growing: &mut self.growing[1..],
            number: self.rows,
            text: &mut self.text,
        });
        self.rows += 1;
    }

    fn take(&mut self) -> Batch {
        let columns = self.growing.drain(..).map(|column| {
            let mut column = column.finish(self.rows);
            // A batch of a few would keep room for many. To give up a little costs more than it
            // brings.
            if self.room > 2 * self.rows {
                column.shrink_to_fit();
            }
            column
        });
        let columns = columns.collect();
        self.room = std::mem::take(&mut self.rows);
        let rows = RecordBatch::try_new(self.columns.clone(), columns);
        Batch::new(
            self.kind.clone(),
            rows.expect("each row has a value of its type in each column"),
        )
    }
}

/// The row of a record.
struct Row<'a> {
    growing: &'a mut [Growing],
    number: usize,
    text: &'a mut ValueText,
}

impl Visitor for Row<'_> {
    fn value(&mut self, index: usize, value: Value<'_>) {
        self.growing[index].put(self.number, value, self.text);
    }

    fn flow(&mut self, index: usize, flow: &FlowKey) {
        for offset in 0..FlowKey::SHAPE.width() {
            self.value(index + offset, flow.part(offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_record::{Count, Time};

    use super::*;

    #[test]
    fn a_batch_of_one_row_takes_little_memory() {
        let mut batches = Batches::new("host");
        batches.put(&Count::new(Time(1), "rtt", "samples", 1));
        let batch = batches.take().remove(0);
        let columns = batch.rows.num_columns();
        assert!(
            batch.memory_bytes() < 300 * columns,
            "{}",
            batch.memory_bytes()
        );
    }
}
