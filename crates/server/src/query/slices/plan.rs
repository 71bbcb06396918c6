//! A part of a plan that is carried out slice by slice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{ArrowNativeType as _, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, PlanProperties, reset_plan_states,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, displayable,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::cut::Slice;
use super::{is_one, leaf};

/// The rows of a plan, slice by slice: each of its streams takes the next slice when it has done
/// one.
#[derive(Debug)]
pub(super) struct SlicedExec {
    template: Arc<Template>,
    next: Arc<AtomicUsize>,
    properties: Arc<PlanProperties>,
}

/// What is carried out for each slice.
#[derive(Debug)]
struct Template {
    /// Reads the records of all times.
    plan: Arc<dyn ExecutionPlan>,
    slices: Vec<Slice>,
}

impl SlicedExec {
    /// Of a plan that treats rows of different times apart, with rows of this schema, as so many
    /// streams.
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        slices: Vec<Slice>,
        streams: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            template: Arc::new(Template { plan, slices }),
            next: Arc::default(),
            properties: Arc::new(properties),
        }
    }
}

impl Template {
    /// For the next slice; `None`: there is no more.
    fn next(&self, next: &AtomicUsize) -> Option<Result<Arc<dyn ExecutionPlan>>> {
        let slice = self.slices.get(next.fetch_add(1, Ordering::Relaxed))?;
        Some(self.of(slice))
    }

    fn of(&self, slice: &Slice) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(&self.plan);
        let plan = plan.transform_up(|plan| match leaf::in_slice(&plan, slice)? {
            Some(leaf) => Ok(Transformed::yes(leaf)),
            None => Ok(simplified(plan)),
        });
        let plan = reset_plan_states(plan.data()?)?;
        Ok(if is_one(&plan) {
            plan
        } else {
            Arc::new(CoalescePartitionsExec::new(plan))
        })
    }
}

/// A plan of which some parts read nothing in a slice.
fn simplified(plan: Arc<dyn ExecutionPlan>) -> Transformed<Arc<dyn ExecutionPlan>> {
    let only = if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let inputs = union.inputs();
        let mut some = inputs.iter().filter(|input| !input.is::<EmptyExec>());
        match (some.next(), some.next()) {
            (Some(only), None) => Some(only),
            (None, _) => inputs.first(),
            _ => None,
        }
    } else if plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() {
        let input = plan.children().into_iter().next();
        input.filter(|input| is_one(input) && is_one(&plan) && plan.fetch().is_none())
    } else {
        None
    };
    match only.filter(|only| only.schema() == plan.schema()).cloned() {
        Some(only) => Transformed::yes(only),
        None => Transformed::no(plan),
    }
}

/// The same rows, with lists of their own. Groups come as parts of one large batch, and each part
/// would count as all of it where it is kept.
fn compact(rows: &RecordBatch) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    for column in &mut columns {
        let Some(lists) = column.as_list_opt::<i32>() else {
            continue;
        };
        let offsets = lists.value_offsets();
        let used = offsets[lists.len()] - offsets[0];
        if used.as_usize() < lists.values().len() / 2 {
            let all = UInt32Array::from_iter_values(0..lists.len() as u32);
            *column = take(lists, &all, None)?;
        }
    }
    // Where rows are only counted, there may be no column that tells how many they are.
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        rows.schema(),
        columns,
        &options,
    )?)
}

impl DisplayAs for SlicedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Template { plan, slices, .. } = &*self.template;
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        write!(f, "SlicedExec: slices={}, each=[", slices.len())?;
        for line in plan.lines() {
            write!(f, "\n    {line}")?;
        }
        write!(f, "]")
    }
}

impl ExecutionPlan for SlicedExec {
    fn name(&self) -> &'static str {
        "SlicedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// None that another rule may change.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            template: Arc::clone(&self.template),
            next: Arc::default(),
            properties: Arc::clone(&self.properties),
        }))
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (template, next) = (Arc::clone(&self.template), Arc::clone(&self.next));
        let plans = std::iter::from_fn(move || template.next(&next));
        let rows = stream::iter(plans)
            .map(move |plan| plan?.execute(0, Arc::clone(&context)))
            .try_flatten()
            .map(|rows| compact(&rows?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        match partition {
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
            None => self.template.plan.partition_statistics(None),
        }
    }
}
