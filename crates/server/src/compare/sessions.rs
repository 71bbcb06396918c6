//! Sessions of a store, by group.
#![expect(
    clippy::cast_sign_loss,
    reason = "counts and durations are not negative"
)]

use std::collections::HashMap;

use anyhow::bail;
use datafusion::arrow::array::{
    Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::scalar::ScalarValue;
use serde::Deserialize;

use super::grouping::{FAMILY, Grouping};
use super::metric::{Kind, Metric};
use super::question::Question;
use super::towards::Towards;
use crate::query::{Engine, EngineArguments};

/// Of a group with more sessions, so many stand for all: in the order of their values, the same
/// number of sessions is left out between one and the next.
const MOST_VALUES: i64 = 100_000;

/// Sessions that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) metric: Metric,
    /// What they have in common.
    pub(super) label: String,
    /// How many there are.
    pub(super) sessions: u64,
    /// Of how many of them it happened, where that is the metric.
    pub(super) happened: u64,
    /// Their values, sorted: of all, or of some that stand for them.
    pub(super) values: Vec<f64>,
}

impl Group {
    /// Do some sessions stand for all?
    pub(super) fn is_sampled(&self) -> bool {
        !self.values.is_empty() && (self.values.len() as u64) < self.sessions
    }
}

/// What a store has.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Those with most sessions, in the order of their number.
    pub(super) groups: Vec<Group>,
    /// How many groups are left out, and their sessions.
    pub(super) left_out: (usize, u64),
    /// Sessions of which the group is not known.
    pub(super) without_group: u64,
}

#[derive(Deserialize)]
struct Counted {
    label: Option<String>,
    sessions: u64,
    total: f64,
}

/// Sessions of a store by group: of each metric for itself.
///
/// # Errors
/// When there is no store, it cannot be read, or a file that is needed was not named.
pub(super) async fn of_store(
    engine: &Engine,
    files: &EngineArguments,
    question: &Question,
) -> anyhow::Result<Sessions> {
    let parameters = parameters(question);
    let mut sessions = Sessions::default();
    for metric in &question.metrics {
        let labelled = labelled(*metric, files, question)?;
        let statement = format!("{labelled} {COUNTS}");
        let counted = engine.ask::<Counted>(&statement, &parameters).await?;
        let first = sessions.groups.len();
        sessions.add(*metric, counted, question.most_groups);
        let groups = &mut sessions.groups[first..];
        if metric.kind() == Kind::Duration && !groups.is_empty() {
            let statement = format!("{labelled}, {VALUES}");
            let rows = engine.rows(&statement, &parameters).await?;
            take_values(groups, &rows)?;
        }
    }
    Ok(sessions)
}

impl Sessions {
    /// Adds the first groups of a metric, and counts the others.
    fn add(&mut self, metric: Metric, counted: Vec<Counted>, most_groups: usize) {
        let mut groups = 0;
        for row in counted {
            let Some(label) = row.label else {
                self.without_group += row.sessions;
                continue;
            };
            groups += 1;
            if groups > most_groups {
                self.left_out.0 += 1;
                self.left_out.1 += row.sessions;
                continue;
            }
            self.groups.push(Group {
                metric,
                label,
                sessions: row.sessions,
                happened: row.total as u64,
                values: Vec::new(),
            });
        }
    }
}

const COUNTS: &str = "
    SELECT label, count(*) AS sessions, sum(value) AS total
    FROM labelled GROUP BY label ORDER BY sessions DESC, label";

/// `$5` is of how many groups, and `$6` how many values of each at most.
const VALUES: &str = "
    counted AS (
      SELECT label, sessions, row_number() OVER (ORDER BY sessions DESC, label) AS place
      FROM (SELECT label, count(*) AS sessions
            FROM labelled WHERE label IS NOT NULL GROUP BY label)),
    shown AS (
      SELECT label, sessions, (sessions + $6 - 1) / $6 AS step FROM counted WHERE place <= $5),
    ordered AS (
      SELECT label, value, row_number() OVER (PARTITION BY label ORDER BY value) - 1 AS place
      FROM labelled WHERE label IS NOT NULL)
    SELECT o.label, o.value, s.sessions
    FROM ordered o JOIN shown s ON s.label = o.label
    WHERE CAST(o.place AS BIGINT) % s.step = s.step / 2";

/// The numbers of the parameters of `--towards` and of labels.
const TOWARDS: usize = 7;
const FIRST_LABEL: usize = 9;

/// A table of the sessions of a metric with their group and value.
fn labelled(
    metric: Metric,
    files: &EngineArguments,
    question: &Question,
) -> anyhow::Result<String> {
    let mut labels = 0;
    let groups = question.groupings.iter().map(|grouping| {
        let parameter = FIRST_LABEL + labels;
        labels += usize::from(grouping.label().is_some());
        grouping.expression(files.has_network_names(), parameter)
    });
    let groups: Vec<_> = groups.collect();
    let filter = match question.towards {
        None => String::new(),
        Some(Towards::Network(_)) => {
            format!("WHERE prefix(remote, ${TOWARDS}) = ${}", TOWARDS + 1)
        }
        Some(Towards::DualStack) => dual_stack(files)?,
    };
    Ok(format!(
        "WITH sessions AS ({}), labelled AS (SELECT {} AS label, value FROM sessions {filter})",
        metric.sessions(),
        groups.join(" || ', ' || "),
    ))
}

fn dual_stack(files: &EngineArguments) -> anyhow::Result<String> {
    let system = if files.has_systems() {
        "asn(remote)"
    } else if files.has_network_names() {
        "network_name(remote)"
    } else {
        bail!(
            "--towards dual-stack needs to know which addresses are of one network: name a file with --asn or --networks"
        )
    };
    Ok(format!(
        "WHERE {system} IN (SELECT {system} FROM sessions GROUP BY 1 HAVING count(DISTINCT {FAMILY}) = 2)"
    ))
}

fn parameters(question: &Question) -> Vec<ScalarValue> {
    let time = |time: jiff::Timestamp| {
        let ns = i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX);
        ScalarValue::TimestampNanosecond(Some(ns), Some("UTC".into()))
    };
    let (bits, network) = match question.towards {
        Some(Towards::Network(network)) => {
            (i64::from(network.prefix_length()), network.to_string())
        }
        _ => (0, String::new()),
    };
    let mut parameters = vec![
        time(question.since),
        time(question.until),
        ScalarValue::from(question.role.name()),
        ScalarValue::from(question.groupings.contains(&Grouping::Interface)),
        ScalarValue::from(i64::try_from(question.most_groups).unwrap_or(i64::MAX)),
        ScalarValue::from(MOST_VALUES),
        ScalarValue::from(bits),
        ScalarValue::from(network.as_str()),
    ];
    let labels = question.groupings.iter().filter_map(Grouping::label);
    parameters.extend(labels.map(ScalarValue::from));
    parameters
}

/// Gives groups their values, sorted. A group that has appeared since they were counted has none.
fn take_values(groups: &mut [Group], rows: &[RecordBatch]) -> anyhow::Result<()> {
    let places = groups.iter().enumerate();
    let places = places.map(|(place, group)| (group.label.clone(), place));
    let places: HashMap<_, _> = places.collect();
    for batch in rows {
        let labels = cast(batch.column(0), &DataType::Utf8)?;
        let labels: &StringArray = labels.as_string();
        let values: &Float64Array = batch.column(1).as_primitive::<Float64Type>();
        let counts = cast(batch.column(2), &DataType::Int64)?;
        let counts: &Int64Array = counts.as_primitive::<Int64Type>();
        for row in (0..batch.num_rows()).filter(|&row| values.is_valid(row)) {
            if let Some(&place) = places.get(labels.value(row)) {
                groups[place].sessions = counts.value(row).unsigned_abs();
                groups[place].values.push(values.value(row));
            }
        }
    }
    for group in groups {
        group.values.sort_unstable_by(f64::total_cmp);
    }
    Ok(())
}
