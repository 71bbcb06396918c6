//! Joins and groups by time, a slice of time after the other.
//!
//! Rows of different times do not meet in a join by time, nor in a group by time. So such a part of
//! a plan is carried out for the records of one slice of time, then for those of the next, as many
//! slices at once as there are processors. Tables of a slice are small: they stay in the caches of
//! a processor, and in the memory that a question may take, however many records a store has.

mod cut;
mod leaf;
mod plan;
mod separable;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::counted::Counted;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
pub(super) use leaf::{TIME, files_apart};
use plan::SlicedExec;

/// How plans are optimised: by slices first, then by what footers tell, then as usual.
pub(super) fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.splice(0..0, [Arc::new(BySlices) as _, Arc::new(Counted) as _]);
    rules
}

/// Finds the parts of a plan that can go by slices.
#[derive(Debug)]
struct BySlices;

impl PhysicalOptimizerRule for BySlices {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if separable::times(&plan).is_some() && meets(&plan) {
            return sliced(plan, options);
        }
        let children = plan.children();
        if children.is_empty() {
            return Ok(plan);
        }
        let children = children.into_iter().cloned();
        let children = children.map(|child| self.optimize(child, options));
        let children = children.collect::<Result<_>>()?;
        plan.with_new_children(children)
    }

    fn name(&self) -> &'static str {
        "by_slices"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Do rows meet others in it? Where they do not, nothing is gained.
fn meets(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let here = plan.is::<HashJoinExec>() || plan.is::<AggregateExec>();
    here || plan.children().into_iter().any(meets)
}

/// The same rows, by slices. What is left of the plan is optimised as usual, for one processor.
fn sliced(plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = plan.schema();
    let mut alone = options.clone();
    alone.execution.target_partitions = 1;
    // What one slice tells of its rows holds for no other.
    alone.optimizer.enable_dynamic_filter_pushdown = false;
    alone.optimizer.enable_topk_dynamic_filter_pushdown = false;
    alone.optimizer.enable_join_dynamic_filter_pushdown = false;
    alone.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let mut plan = plan.transform_up(in_one_part).data()?;
    for rule in PhysicalOptimizer::new().rules {
        plan = rule.optimize(plan, &alone)?;
    }
    let slices = cut::slices(leaf::pieces(&plan));
    let parts = options.execution.target_partitions.min(slices.len());
    Ok(Arc::new(SlicedExec::new(
        plan,
        schema,
        slices,
        parts.max(1),
    )))
}

/// Files one after the other, and joins with a table of all rows of one side.
fn in_one_part(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let join = join
            .builder()
            .with_partition_mode(PartitionMode::CollectLeft);
        return Ok(Transformed::yes(join.build_exec()?));
    }
    Ok(match leaf::in_one_part(&plan) {
        Some(leaf) => Transformed::yes(leaf),
        None => Transformed::no(plan),
    })
}

/// Is it one stream of rows?
fn is_one(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() == 1
}
