//! Groups by many columns, as groups by one.
//!
//! A group by fourteen columns, as that of the view `processes`, holds the texts of all of them for
//! each group, and compares each: most of its time, and half a gigabyte for two million groups. So
//! rows are grouped by 128 bits that are made of these columns, and a group keeps the values that
//! its first row has in those columns that are asked for.

mod first;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use ahash::RandomState as FastState;
use datafusion::arrow::array::{ArrayRef, Decimal128Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, ColumnarValue, Expr, LogicalPlan, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use first::First;

use super::slices::TIME;

/// Fewer are grouped as they are.
const LEAST_COLUMNS: usize = 8;

/// Finds such groups. What is not asked for, a later rule of DataFusion's leaves out.
#[derive(Debug)]
pub(super) struct ByFingerprint {
    fingerprint: ScalarUDF,
    first: AggregateUDF,
}

impl ByFingerprint {
    pub(super) fn new() -> Self {
        Self {
            fingerprint: ScalarUDF::from(Fingerprint::new()),
            first: AggregateUDF::from(First::new()),
        }
    }

    /// The same columns of the same groups.
    fn rewritten(&self, groups: Aggregate) -> Result<LogicalPlan> {
        let Aggregate {
            input,
            group_expr: by,
            aggr_expr: mut values,
            schema,
            ..
        } = groups;
        let firsts = by
            .iter()
            .map(|column| self.first.call(vec![column.clone()]));
        let values_before = values.len();
        values.extend(firsts);
        let columns = by.len();
        let fingerprint = self.fingerprint.call(by);
        let groups = Aggregate::try_new(input, vec![fingerprint], values)?;
        let columns = (0..schema.fields().len()).map(|column| {
            let place = match column.checked_sub(columns) {
                Some(value) => 1 + value,
                None => 1 + values_before + column,
            };
            let found = Expr::Column(Column::from(groups.schema.qualified_field(place)));
            let (qualifier, field) = schema.qualified_field(column);
            found.alias_qualified(qualifier.cloned(), field.name())
        });
        let columns = columns.collect();
        let groups = Arc::new(LogicalPlan::Aggregate(groups));
        Projection::try_new(columns, groups).map(LogicalPlan::Projection)
    }
}

impl OptimizerRule for ByFingerprint {
    fn name(&self) -> &'static str {
        "by_fingerprint"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(groups) if is_worth_it(&groups) => {
                self.rewritten(groups).map(Transformed::yes)
            }
            plan => Ok(Transformed::no(plan)),
        }
    }
}

/// Groups by many columns; those by time go by slices. Where nothing but groups is asked for, some
/// of them may be enough, which DataFusion knows.
fn is_worth_it(groups: &Aggregate) -> bool {
    let is_plain = |column: &Expr| matches!(column, Expr::Column(column) if column.name != TIME);
    let fields = groups.schema.fields().iter().take(groups.group_expr.len());
    let fields: Vec<_> = fields
        .map(|field| SortField::new(field.data_type().clone()))
        .collect();
    groups.group_expr.len() >= LEAST_COLUMNS
        && !groups.aggr_expr.is_empty()
        && groups.group_expr.iter().all(is_plain)
        && RowConverter::supports_fields(&fields)
}

/// 128 bits of the values of a row: rows with the same values have the same, and others have
/// others, but for chance: of a billion groups, one in 10^20 that any two do. Each process has keys
/// of its own, so that nobody can choose values that have the same.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fingerprint {
    signature: Signature,
    keys: [[u64; 4]; 2],
}

impl Fingerprint {
    fn new() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
            keys: [(); 2].map(|()| [0_u64, 1, 2, 3].map(|key| RandomState::new().hash_one(key))),
        }
    }
}

impl ScalarUDFImpl for Fingerprint {
    fn name(&self) -> &'static str {
        "fingerprint"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// What has 128 bits and is grouped fast.
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let states = (self.keys).map(|[a, b, c, d]| FastState::with_seeds(a, b, c, d));
        let fields = columns
            .iter()
            .map(|column| SortField::new(column.data_type().clone()));
        let rows = RowConverter::new(fields.collect())?.convert_columns(&columns)?;
        let fingerprints = rows.iter().map(|row| {
            let [one, other] = states.each_ref().map(|state| state.hash_one(row.data()));
            ((u128::from(one) << 64) | u128::from(other)).cast_signed()
        });
        let fingerprints = Decimal128Array::from_iter_values(fingerprints)
            .with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?;
        Ok(ColumnarValue::Array(Arc::new(fingerprints) as ArrayRef))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::prelude::SessionContext;

    use super::super::engine::empty_context as context;
    use datafusion::execution::cache::cache_manager::CacheManagerConfig;

    /// Rows of which seven columns are texts, numbers and nothing, in 8,580 groups.
    const ROWS: &str = "(SELECT value, value % 3 AS a, 'b' || (value % 5) AS b,
        CASE WHEN value % 7 > 2 THEN 'same' END AS c, CASE WHEN value % 7 <= 2 THEN 'same' END AS d,
        CAST(value % 11 AS SMALLINT) AS e, to_timestamp(value % 13) AS f, '' AS g, NULL AS h,
        value % 2 = 0 AS i FROM generate_series(1, 90000))";

    fn told(context: &SessionContext, question: &str) -> String {
        let question = question.replace("ROWS", ROWS);
        let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        let rows = async { context.sql(&question).await?.collect().await };
        let rows = runtime.block_on(rows).unwrap();
        pretty_format_batches(&rows).unwrap().to_string()
    }

    #[test]
    fn groups_are_the_same() {
        const BY: &str = "a, b, c, d, e, f, g, h, i";
        let question = format!(
            "SELECT {BY}, count(*), min(value), max(value) FROM ROWS GROUP BY {BY} ORDER BY 11"
        );
        let own = told(
            &context(64, CacheManagerConfig::default()).unwrap(),
            &question,
        );
        assert_eq!(own.lines().count(), 8_580 + 4);
        assert_eq!(own, told(&SessionContext::new(), &question));
    }

    #[test]
    fn a_group_keeps_what_is_asked_for() {
        let context = context(64, CacheManagerConfig::default()).unwrap();
        let question = "EXPLAIN SELECT b, max(value) FROM ROWS GROUP BY a, b, c, d, e, f, g, h, i";
        let plan = told(&context, question);
        assert!(
            plan.contains("fingerprint(") && plan.contains("first("),
            "{plan}"
        );
        for other in ["a", "c", "i"] {
            assert!(!plan.contains(&format!("first({other})")), "{plan}");
        }
    }

    #[test]
    fn groups_that_do_not_fit_are_the_same() {
        let question = "SELECT count(*), sum(length(long)), sum(rows) FROM (
            SELECT value, long, count(*) AS rows FROM (
                SELECT value, repeat('x', value % 200) AS long,
                    1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS e, value AS f
                FROM generate_series(1, 200000))
            GROUP BY value, long, a, b, c, d, e, f)";
        let rows = told(
            &context(16, CacheManagerConfig::default()).unwrap(),
            question,
        );
        assert!(rows.contains("| 200000   | 19900000"), "{rows}");
    }
}
