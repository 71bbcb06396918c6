//! Columns while rows become one.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, TimestampNanosecondArray, UInt64Array,
    new_empty_array, new_null_array,
};
use arrow_schema::{ArrowError, DataType, Field as Column, SchemaRef, TimeUnit};
use arrow_select::concat::concat;
use fathom_record::{Fold, Histogram};

use super::fold_of;
use crate::histograms::{HistogramColumn, Histograms};

/// A column of the result. What is listed has an element for each of its rows.
pub(super) enum Folded {
    /// What the rows have in common: of each the first.
    Key(Vec<ArrayRef>),
    End,
    Length,
    Numbers(fn(u64, u64) -> u64, Vec<Option<u64>>),
    /// Of how many there were in all.
    Rate(Vec<Option<f64>>),
    Mean {
        /// The column that says how much each counts,
        weight: usize,
        /// which is so much a second.
        is_rate: bool,
        sums: Vec<Weighted>,
    },
    /// The columns of each row's mean, and of how much it counts.
    Deviation {
        mean: usize,
        weight: usize,
        sums: Vec<Spread>,
    },
    Merge(Vec<Option<Histogram>>),
    Percentile(u8),
    Absent,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Weighted {
    sum: f64,
    weight: f64,
}

/// Of samples: how many there are, their sum, and that of their squares.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn deviation(self) -> Option<u64> {
        let mean = self.sum / self.count;
        let variance = self.squares / self.count - mean * mean;
        #[expect(
            clippy::cast_sign_loss,
            reason = "it is the root of what is not negative"
        )]
        let whole = |deviation: f64| deviation.round() as u64;
        (self.count > 0.0).then(|| whole(variance.max(0.0).sqrt()))
    }
}

impl Folded {
    /// `None`: it cannot be done with such a column.
    pub(super) fn new(column: &Column, fold: Option<Fold<'_>>, all: &SchemaRef) -> Option<Self> {
        let Some(fold) = fold else {
            return Some(Self::Key(Vec::new()));
        };
        let kind = column.data_type();
        let is_number = matches!(kind, DataType::UInt64 | DataType::Float64);
        let (is_unsigned, is_float) = (*kind == DataType::UInt64, *kind == DataType::Float64);
        match fold {
            Fold::End => {
                matches!(kind, DataType::Timestamp(TimeUnit::Nanosecond, _)).then_some(Self::End)
            }
            Fold::Length => is_unsigned.then_some(Self::Length),
            Fold::Sum => is_unsigned.then_some(Self::Numbers(u64::saturating_add, Vec::new())),
            Fold::Least => is_unsigned.then_some(Self::Numbers(u64::min, Vec::new())),
            Fold::Greatest => is_unsigned.then_some(Self::Numbers(u64::max, Vec::new())),
            Fold::Rate => is_float.then_some(Self::Rate(Vec::new())),
            Fold::Mean(weight) => {
                let (weight, by) = all.column_with_name(weight)?;
                let is_weight = matches!(by.data_type(), DataType::UInt64 | DataType::Float64);
                (is_number && is_weight).then_some(Self::Mean {
                    weight,
                    is_rate: fold_of(by) == Some(Fold::Rate),
                    sums: Vec::new(),
                })
            }
            Fold::Deviation { mean, weight } => {
                let is_whole = |name| {
                    let (index, by) = all.column_with_name(name)?;
                    (*by.data_type() == DataType::UInt64).then_some(index)
                };
                let (mean, weight) = is_whole(mean).zip(is_whole(weight))?;
                is_unsigned.then_some(Self::Deviation {
                    mean,
                    weight,
                    sums: Vec::new(),
                })
            }
            Fold::Merge => matches!(kind, DataType::List(_)).then_some(Self::Merge(Vec::new())),
            Fold::Percentile(percent) => is_unsigned.then_some(Self::Percentile(percent)),
            Fold::Absent => Some(Self::Absent),
        }
    }

    /// Takes rows of a column of a batch, each of which belongs to a group. `lengths` are those of
    /// their intervals.
    pub(super) fn take(
        &mut self,
        column: &ArrayRef,
        rows: impl Iterator<Item = (usize, usize)>,
        batch: &RecordBatch,
        lengths: &UInt64Array,
    ) {
        match self {
            Self::Numbers(combine, values) => {
                let numbers = column.as_primitive::<UInt64Type>();
                for (row, group) in rows {
                    let number = numbers.is_valid(row).then(|| numbers.value(row));
                    let value = element(values, group);
                    *value = match (*value, number) {
                        (Some(value), Some(number)) => Some(combine(value, number)),
                        (value, number) => value.or(number),
                    };
                }
            }
            Self::Rate(values) => {
                for (row, group) in rows {
                    let value = element(values, group);
                    if let Some(number) = number_at(column, row) {
                        let count = number * lengths.value(row) as f64;
                        *value = Some(value.unwrap_or(0.0) + count);
                    }
                }
            }
            Self::Mean {
                weight,
                is_rate,
                sums,
            } => {
                let weights = batch.column(*weight);
                for (row, group) in rows {
                    let sum = element(sums, group);
                    let known = number_at(column, row).zip(number_at(weights, row));
                    let Some((number, mut weight)) = known else {
                        continue;
                    };
                    if *is_rate {
                        weight *= lengths.value(row) as f64;
                    }
                    sum.sum += number * weight;
                    sum.weight += weight;
                }
            }
            Self::Deviation { mean, weight, sums } => {
                let (means, weights) = (batch.column(*mean), batch.column(*weight));
                for (row, group) in rows {
                    let sum = element(sums, group);
                    let deviation = number_at(column, row);
                    let known = number_at(means, row).zip(number_at(weights, row));
                    let Some((deviation, (mean, weight))) = deviation.zip(known) else {
                        continue;
                    };
                    sum.count += weight;
                    sum.sum += mean * weight;
                    sum.squares += (deviation * deviation + mean * mean) * weight;
                }
            }
            Self::Merge(merged) => {
                let histograms = HistogramColumn::of(column.as_list());
                for (row, group) in rows {
                    let merged = element(merged, group);
                    if let Some(more) = histograms.and_then(|it| it.buckets(row)) {
                        merged.get_or_insert_default().add_buckets(more);
                    }
                }
            }
            Self::Key(_) | Self::End | Self::Length | Self::Percentile(_) | Self::Absent => {}
        }
    }

    /// What was merged, if it is that column.
    pub(super) fn histograms(&self) -> Option<&[Option<Histogram>]> {
        match self {
            Self::Merge(merged) => Some(merged),
            _ => None,
        }
    }

    /// The column, if it is one of percentiles.
    pub(super) fn percentiles(
        &self,
        histograms: Option<&[Option<Histogram>]>,
        rows: usize,
    ) -> Option<ArrayRef> {
        let Self::Percentile(percent) = self else {
            return None;
        };
        let part = f64::from(*percent) / 100.0;
        let column: UInt64Array = (0..rows)
            .map(|row| histograms?.get(row)?.as_ref()?.quantile(part))
            .collect();
        Some(Arc::new(column))
    }

    /// The column, which begins anew.
    ///
    /// # Errors
    /// When pieces of it do not fit together, which they do.
    pub(super) fn finish(
        &mut self,
        kind: &DataType,
        rows: usize,
        end_ns: i64,
        interval_ns: u64,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Key(pieces) => {
                let pieces = std::mem::take(pieces);
                let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
                if pieces.is_empty() {
                    new_empty_array(kind)
                } else {
                    concat(&pieces)?
                }
            }
            Self::End => {
                let times = TimestampNanosecondArray::from(vec![end_ns; rows]);
                Arc::new(times.with_data_type(kind.clone()))
            }
            Self::Length => Arc::new(UInt64Array::from(vec![interval_ns; rows])),
            Self::Numbers(_, values) => Arc::new(UInt64Array::from(std::mem::take(values))),
            Self::Rate(values) => {
                let values = std::mem::take(values).into_iter();
                let rates = values.map(|value| value.map(|value| value / interval_ns as f64));
                Arc::new(rates.collect::<Float64Array>())
            }
            Self::Mean { sums, .. } => means(&std::mem::take(sums), kind),
            Self::Deviation { sums, .. } => {
                let sums = std::mem::take(sums);
                let deviations = sums.into_iter().map(Spread::deviation);
                Arc::new(deviations.collect::<UInt64Array>())
            }
            Self::Merge(merged) => {
                let mut column = Histograms::default();
                for histogram in std::mem::take(merged) {
                    column.put(histogram.as_ref());
                }
                Arc::new(column.finish())
            }
            Self::Percentile(_) | Self::Absent => new_null_array(kind, rows),
        })
    }
}

fn means(sums: &[Weighted], kind: &DataType) -> ArrayRef {
    let means = sums
        .iter()
        .map(|it| (it.weight > 0.0).then(|| it.sum / it.weight));
    if *kind == DataType::Float64 {
        return Arc::new(means.collect::<Float64Array>());
    }
    #[expect(
        clippy::cast_sign_loss,
        reason = "it is the mean of numbers without a sign"
    )]
    let whole = |mean: Option<f64>| mean.map(|mean| mean.round() as u64);
    Arc::new(means.map(whole).collect::<UInt64Array>())
}

/// That of a group, which may be new.
fn element<T: Default + Clone>(values: &mut Vec<T>, group: usize) -> &mut T {
    if values.len() <= group {
        values.resize(group + 1, T::default());
    }
    &mut values[group]
}

fn number_at(column: &ArrayRef, row: usize) -> Option<f64> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row),
        _ => column.as_primitive::<UInt64Type>().value(row) as f64,
    })
}
