//! Rows of short intervals become rows of a longer one, as the fields of their records say
//! ([`fathom_record::Fold`]).

mod column;
mod key;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field as Column, SchemaRef};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use fathom_record::Fold;

use column::Folded;
use key::{encode, is_key};

/// Where the metadata of a column says how it is folded.
pub(crate) const METADATA: &str = "fold";

const NS: u64 = 1_000_000_000;

/// Puts rows of one interval together.
pub(crate) struct Folder {
    columns: SchemaRef,
    folded: Vec<Folded>,
    /// Which columns rows must have in common.
    keys: Vec<usize>,
    /// The column with the length of a row's interval.
    length: usize,
    interval_ns: u64,
    /// Only rows of this part are taken, of so many parts.
    part: (u64, u64),
    /// By what the rows have in common.
    groups: HashMap<Vec<u8>, u32>,
}

/// The end of the interval of this length, in seconds, in which something happened that ended then.
pub(crate) fn interval_end(time_ns: i64, interval_s: u32) -> i64 {
    let length = i64::from(interval_s) * NS.cast_signed();
    let whole = time_ns.div_euclid(length);
    let is_end = time_ns.rem_euclid(length) == 0;
    whole
        .saturating_add(i64::from(!is_end))
        .saturating_mul(length)
}

fn fold_of(column: &Column) -> Option<Fold<'_>> {
    let text = column.metadata().get(METADATA)?;
    // Of a way that only a newer fathom knows nothing can be said.
    Some(Fold::parse(text).unwrap_or(Fold::Absent))
}

impl Folder {
    /// For rows with such columns, and intervals of so many seconds. `None`: their kind is not one
    /// of intervals.
    pub(crate) fn new(columns: &SchemaRef, interval_s: u32) -> Option<Self> {
        let fields = columns.fields().iter();
        let is_length = |column: &&Column| {
            fold_of(column) == Some(Fold::Length) && *column.data_type() == DataType::UInt64
        };
        let length = fields
            .clone()
            .map(AsRef::as_ref)
            .position(|it| is_length(&it))?;
        let folded: Option<Vec<_>> = fields
            .clone()
            .map(|column| Folded::new(column, fold_of(column), columns))
            .collect();
        let keys = fields.enumerate();
        let keys = keys.filter(|(_, column)| fold_of(column).is_none());
        let keys: Vec<_> = keys.map(|(index, _)| index).collect();
        keys.iter()
            .all(|&index| is_key(columns.field(index).data_type()))
            .then_some(Self {
                columns: columns.clone(),
                folded: folded?,
                keys,
                length,
                interval_ns: u64::from(interval_s) * NS,
                part: (0, 1),
                groups: HashMap::new(),
            })
    }

    /// For a part of the rows alone: those that have the same in common are in one part.
    pub(crate) fn of_part(self, part: u64, parts: u64) -> Self {
        Self {
            part: (part, parts),
            ..self
        }
    }

    /// How many rows there will be.
    pub(crate) fn rows(&self) -> usize {
        self.groups.len()
    }

    /// Takes rows, all of one interval. Returns those that are as long or longer: they stay as they
    /// are.
    ///
    /// # Errors
    /// When the rows are others than those that it was made for.
    pub(crate) fn take(&mut self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let lengths: &UInt64Array = rows.column(self.length).as_primitive::<UInt64Type>();
        let interval_ns = self.interval_ns;
        let is_long = |length: Option<u64>| Some(length.is_some_and(|it| it >= interval_ns));
        let is_long: BooleanArray = lengths.iter().map(is_long).collect();
        let long = filter_record_batch(rows, &is_long)?;
        if long.num_rows() == 0 {
            self.take_short(rows)?;
            return Ok(long);
        }
        let is_short = is_long.iter().map(|it| it.map(|it| !it)).collect();
        self.take_short(&filter_record_batch(rows, &is_short)?)?;
        Ok(long)
    }

    fn take_short(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let keys: Vec<&dyn Array> = self.keys.iter().map(|&it| &**batch.column(it)).collect();
        let (mut taken, mut groups, mut first) = (Vec::new(), Vec::new(), Vec::new());
        let mut key = Vec::new();
        for row in 0..batch.num_rows() {
            key.clear();
            for column in &keys {
                encode(*column, row, &mut key);
            }
            if !is_of(&key, self.part) {
                continue;
            }
            let known = self.groups.get(&key).copied();
            let group = known.unwrap_or_else(|| {
                let group = self.groups.len() as u32;
                self.groups.insert(key.clone(), group);
                first.push(row as u32);
                group
            });
            taken.push(row);
            groups.push(group as usize);
        }
        let first = UInt32Array::from(first);
        let lengths = batch.column(self.length).as_primitive::<UInt64Type>();
        for (index, folded) in self.folded.iter_mut().enumerate() {
            let column = batch.column(index);
            if let Folded::Key(pieces) = folded {
                pieces.push(take(column, &first, None)?);
            } else {
                let rows = taken.iter().copied().zip(groups.iter().copied());
                folded.take(column, rows, batch, lengths);
            }
        }
        Ok(())
    }

    /// The rows of the interval that ends then; and it begins anew.
    ///
    /// # Errors
    /// When they do not fit their columns, which they do.
    pub(crate) fn finish(&mut self, end_ns: i64) -> Result<RecordBatch, ArrowError> {
        let rows = self.groups.len();
        self.groups.clear();
        let histograms = self.folded.iter().find_map(Folded::histograms);
        // Those are of all others the last that is needed.
        let mut percentiles: Vec<Option<ArrayRef>> = Vec::new();
        for folded in &self.folded {
            percentiles.push(folded.percentiles(histograms, rows));
        }
        let interval_ns = self.interval_ns;
        let columns = self
            .folded
            .iter_mut()
            .zip(self.columns.fields())
            .zip(percentiles);
        let columns = columns.map(|((folded, column), percentiles)| match percentiles {
            Some(percentiles) => Ok(percentiles),
            None => folded.finish(column.data_type(), rows, end_ns, interval_ns),
        });
        let columns: Result<Vec<_>, _> = columns.collect();
        RecordBatch::try_new(self.columns.clone(), columns?)
    }
}

/// Is what rows have in common of this part?
fn is_of(key: &[u8], (part, parts): (u64, u64)) -> bool {
    if parts == 1 {
        return true;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish() % parts == part
}
