//! Which parts of plans treat rows of different times apart.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use super::leaf;

/// Columns that are, in each row, the time of all records that it was made of.
type Times = BTreeSet<usize>;

/// If each of the plan's rows is made of records of one time: which columns have it, as far as that
/// is known. Then the rows of some times are those that the plan makes of the records of these
/// times.
pub(super) fn times(plan: &Arc<dyn ExecutionPlan>) -> Option<Times> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(projected(
            times(filter.input())?,
            filter.projection().as_deref(),
        ));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let before = times(projection.input())?;
        let columns = projection.expr().iter().map(|column| &column.expr);
        return Some(having(&before, columns));
    }
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let all = union.inputs().iter().map(times);
        let all = all.collect::<Option<Vec<_>>>()?;
        return all.into_iter().reduce(|one, other| &one & &other);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_join(join);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let before = times(aggregate.input())?;
        let groups = aggregate.group_expr();
        let columns = groups.expr().iter().map(|(column, _)| column);
        let grouped = having(&before, columns);
        return (groups.is_single() && !grouped.is_empty()).then_some(grouped);
    }
    leaf::time_of(plan).map(|time| BTreeSet::from([time]))
}

/// Which of these columns have the time, if those of the input are known that have it.
fn having<'a>(before: &Times, columns: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Times {
    let is_time = |column: &Arc<dyn PhysicalExpr>| is_one_of(before, column);
    let columns = columns.enumerate().filter(|(_, column)| is_time(column));
    columns.map(|(index, _)| index).collect()
}

fn is_one_of(times: &Times, column: &Arc<dyn PhysicalExpr>) -> bool {
    let column = column.downcast_ref::<Column>();
    column.is_some_and(|column| times.contains(&column.index()))
}

fn projected(before: Times, columns: Option<&[usize]>) -> Times {
    let Some(columns) = columns else {
        return before;
    };
    let columns = columns.iter().enumerate();
    let columns = columns.filter(|(_, column)| before.contains(column));
    columns.map(|(index, _)| index).collect()
}

/// Of a join by time. Where a side has no row, its time is absent, so only the other one's counts.
fn of_join(join: &HashJoinExec) -> Option<Times> {
    let (left, right) = (times(join.left())?, times(join.right())?);
    let by_time = |(one, other): &(_, _)| is_one_of(&left, one) && is_one_of(&right, other);
    if join.null_aware || !join.on().iter().any(by_time) {
        return None;
    }
    let (from_left, from_right) = match join.join_type() {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (true, false)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (false, true)
        }
        JoinType::Full => (false, false),
    };
    let columns = column_sides(join);
    let columns = columns.into_iter().enumerate();
    let columns = columns.filter(|(_, (side, column))| match side {
        JoinSide::Left => from_left && left.contains(column),
        JoinSide::Right => from_right && right.contains(column),
        JoinSide::None => false,
    });
    let all = columns.map(|(index, _)| index).collect();
    Some(projected(all, join.projection.as_deref()))
}

/// Of which side each column of a join is, and which one it is there.
fn column_sides(join: &HashJoinExec) -> Vec<(JoinSide, usize)> {
    let side = |side, plan: &Arc<dyn ExecutionPlan>| {
        let columns = 0..plan.schema().fields().len();
        columns.map(move |column| (side, column))
    };
    let left = side(JoinSide::Left, join.left());
    let right = side(JoinSide::Right, join.right());
    let mark = [(JoinSide::None, 0)];
    match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => left.collect(),
        JoinType::RightSemi | JoinType::RightAnti => right.collect(),
        JoinType::LeftMark => left.chain(mark).collect(),
        JoinType::RightMark => right.chain(mark).collect(),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            left.chain(right).collect()
        }
    }
}
