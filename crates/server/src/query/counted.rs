//! Groups that footers of segments count.
//!
//! Most segments of a host have one value in columns such as `host`. Where rows are grouped by such
//! columns, all rows of the segment are one group. How many they are, and the least and the
//! greatest value of a column, is in the footer: such a segment is not read.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::union::UnionExec;

use super::slices::files_apart;

/// Takes what footers say of groups, in place of the rows.
#[derive(Debug)]
pub(super) struct Counted;

impl PhysicalOptimizerRule for Counted {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let counted = |plan: Arc<dyn ExecutionPlan>| {
            let counted = plan.downcast_ref().map(counted).transpose()?.flatten();
            Ok(counted.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(counted).data()
    }

    fn name(&self) -> &'static str {
        "counted_by_footers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The same groups; `None`: all rows have to be read.
fn counted(groups: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(told) = Told::of(groups) else {
        return Ok(None);
    };
    let input = groups.input();
    let inputs = input.downcast_ref::<UnionExec>();
    let inputs = inputs.map_or_else(|| vec![Arc::clone(input)], |union| union.inputs().clone());
    let (mut rows, mut others) = (Vec::new(), Vec::new());
    for input in inputs {
        let row = |columns: &Schema, statistics: &Statistics| {
            told.row(&FileColumns {
                columns,
                statistics,
            })
        };
        match files_apart(&input, row) {
            Some(apart) => {
                rows.extend(apart.told);
                others.extend(apart.rest);
            }
            None => others.push(input),
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let schema = groups.schema();
    let columns = schema.fields().iter().enumerate().map(|(column, field)| {
        let values = rows
            .iter()
            .map(|row| row[column].cast_to(field.data_type()));
        ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
    });
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_>>()?)?;
    let rows: Arc<dyn ExecutionPlan> =
        MemorySourceConfig::try_new_exec(&[vec![rows]], schema, None)?;
    if others.is_empty() {
        return Ok(Some(rows));
    }
    let others = match others.len() {
        1 => others.swap_remove(0),
        _ => UnionExec::try_new(others)?,
    };
    let others = Arc::new(groups.clone()).with_new_children(vec![others])?;
    Ok(Some(UnionExec::try_new(vec![rows, others])?))
}

/// What is asked of each group, as far as a footer can tell it.
struct Told {
    groups: Vec<Column>,
    values: Vec<Value>,
}

/// A value of a group.
enum Value {
    Rows,
    /// Rows in which the column is not empty.
    Present(Column),
    Least(Column),
    Greatest(Column),
}

impl Told {
    /// `None`: footers do not tell all of it.
    fn of(groups: &AggregateExec) -> Option<Self> {
        let by = groups.group_expr();
        let is_plain = *groups.mode() == AggregateMode::Partial
            && by.is_single()
            && !by.is_empty()
            && groups.limit_options().is_none()
            && groups.filter_expr().iter().all(Option::is_none);
        if !is_plain {
            return None;
        }
        let columns = by.expr().iter().map(|(column, _)| column_of(column));
        let values = groups.aggr_expr().iter().map(|value| Value::of(value));
        Some(Self {
            groups: columns.collect::<Option<_>>()?,
            values: values.collect::<Option<_>>()?,
        })
    }

    /// What the aggregate would make of all rows of a file; `None`: its footer does not say that.
    fn row(&self, file: &FileColumns<'_>) -> Option<Vec<ScalarValue>> {
        let groups = self.groups.iter().map(|column| file.only(column));
        let values = self.values.iter().map(|value| value.of_file(file));
        groups.chain(values).collect()
    }
}

impl Value {
    fn of(asked: &AggregateFunctionExpr) -> Option<Self> {
        let arguments = asked.expressions();
        let [argument] = arguments.as_slice() else {
            return None;
        };
        if asked.is_distinct() || !asked.order_bys().is_empty() {
            return None;
        }
        if asked.fun().name() == "count" {
            let is_there = argument.downcast_ref::<Literal>();
            let is_there = is_there.is_some_and(|literal| !literal.value().is_null());
            let rows = is_there.then_some(Self::Rows);
            return rows.or_else(|| column_of(argument).map(Self::Present));
        }
        // What footers say of floating-point numbers leaves out those that are none.
        if asked.field().data_type().is_floating() {
            return None;
        }
        match asked.fun().name() {
            "min" => column_of(argument).map(Self::Least),
            "max" => column_of(argument).map(Self::Greatest),
            _ => None,
        }
    }

    fn of_file(&self, file: &FileColumns<'_>) -> Option<ScalarValue> {
        match self {
            Self::Rows => count(*exact(&file.statistics.num_rows)?),
            Self::Present(column) => {
                let empty = exact(&file.of(column)?.null_count)?;
                count(exact(&file.statistics.num_rows)?.checked_sub(*empty)?)
            }
            Self::Least(column) => exact(&file.of(column)?.min_value).cloned(),
            Self::Greatest(column) => exact(&file.of(column)?.max_value).cloned(),
        }
    }
}

/// What the footer of a file says of its columns.
struct FileColumns<'a> {
    columns: &'a Schema,
    statistics: &'a Statistics,
}

impl FileColumns<'_> {
    fn of(&self, column: &Column) -> Option<&ColumnStatistics> {
        let index = self.columns.index_of(column.name()).ok()?;
        self.statistics.column_statistics.get(index)
    }

    /// The one value that the column has in all rows.
    fn only(&self, column: &Column) -> Option<ScalarValue> {
        let told = self.of(column)?;
        let (least, greatest) = (exact(&told.min_value)?, exact(&told.max_value)?);
        let is_only = least == greatest && !least.is_null() && exact(&told.null_count)? == &0;
        is_only.then(|| least.clone())
    }
}

fn exact<T>(told: &Precision<T>) -> Option<&T>
where
    T: std::fmt::Debug + Clone + PartialEq + Eq + PartialOrd,
{
    match told {
        Precision::Exact(told) => Some(told),
        _ => None,
    }
}

fn count(rows: usize) -> Option<ScalarValue> {
    Some(ScalarValue::Int64(Some(i64::try_from(rows).ok()?)))
}

fn column_of(expression: &Arc<dyn PhysicalExpr>) -> Option<Column> {
    expression.downcast_ref::<Column>().cloned()
}
