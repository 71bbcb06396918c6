//! The answer for programs: a row for each group, then one for each comparison.
#![expect(
    clippy::cast_sign_loss,
    reason = "counts and durations are not negative"
)]

use std::io::Write;

use serde::Serialize;

use super::Answer;
use super::comparison::Comparison;
use super::metric::Kind;
use super::sessions::Group;
use super::statistics::{quantile, share_interval};

/// A row; CSV has all columns, JSON those that are there.
#[derive(Debug, Default, Serialize)]
struct Row<'a> {
    /// `group` or `comparison`.
    kind: &'static str,
    /// The end of the period.
    time: String,
    since: String,
    metric: String,
    by: String,
    group: &'a str,
    sessions: u64,
    is_sampled: bool,
    p25_ns: Option<u64>,
    median_ns: Option<u64>,
    p75_ns: Option<u64>,
    p95_ns: Option<u64>,
    share: Option<f64>,
    share_low: Option<f64>,
    share_high: Option<f64>,
    other_metric: Option<String>,
    other_group: Option<&'a str>,
    other_sessions: Option<u64>,
    median_difference_ns: Option<i64>,
    test: Option<&'static str>,
    effect: Option<f64>,
    effect_low: Option<f64>,
    effect_high: Option<f64>,
    magnitude: Option<&'static str>,
    p: Option<f64>,
    corrected_p: Option<f64>,
}

fn rows<'a>(answer: &'a Answer<'_>) -> Vec<Row<'a>> {
    let groups = answer.sessions.groups.iter();
    let groups = groups.map(|group| of_group(answer, group));
    let comparisons = answer.comparisons.iter();
    let comparisons = comparisons.map(|it| of_comparison(answer, it));
    groups.chain(comparisons).collect()
}

fn begin<'a>(answer: &Answer<'_>, kind: &'static str, group: &'a Group) -> Row<'a> {
    let question = answer.question;
    Row {
        kind,
        time: format!("{:.9}", question.until),
        since: format!("{:.9}", question.since),
        metric: group.metric.name(),
        by: question.by(),
        group: &group.label,
        sessions: group.sessions,
        is_sampled: group.is_sampled(),
        ..Row::default()
    }
}

fn of_group<'a>(answer: &Answer<'_>, group: &'a Group) -> Row<'a> {
    let mut row = begin(answer, "group", group);
    let ns = |part| quantile(&group.values, part).map(|ns| ns.round() as u64);
    (row.p25_ns, row.median_ns) = (ns(0.25), ns(0.5));
    (row.p75_ns, row.p95_ns) = (ns(0.75), ns(0.95));
    if answer.question.kind() == Kind::Share {
        let (low, high) = share_interval(group.happened, group.sessions);
        row.share = Some(group.happened as f64 / group.sessions as f64);
        (row.share_low, row.share_high) = (Some(low), Some(high));
    }
    row
}

fn of_comparison<'a>(answer: &Answer<'_>, comparison: &Comparison<'a>) -> Row<'a> {
    let mut row = begin(answer, "comparison", comparison.first);
    let second = comparison.second;
    row.is_sampled |= second.is_sampled();
    row.other_metric = Some(second.metric.name());
    row.other_group = Some(&second.label);
    row.other_sessions = Some(second.sessions);
    let difference = comparison.median_difference();
    row.median_difference_ns = difference.map(|ns| ns.round() as i64);
    if let Some(tested) = comparison.tested {
        row.test = Some(match answer.question.kind() {
            Kind::Share => "Fisher",
            Kind::Duration | Kind::Count => "Mann-Whitney",
        });
        let found = tested.difference;
        row.effect = Some(found.effect);
        (row.effect_low, row.effect_high) = (Some(found.interval.0), Some(found.interval.1));
        row.magnitude = Some(found.magnitude.name());
        (row.p, row.corrected_p) = (Some(found.p), Some(tested.corrected_p));
    }
    row
}

/// Prints an object a line.
///
/// # Errors
/// When they cannot be written.
pub(super) fn json(answer: &Answer<'_>, output: &mut dyn Write) -> anyhow::Result<()> {
    for row in rows(answer) {
        let mut row = serde_json::to_value(row)?;
        if let Some(fields) = row.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        writeln!(output, "{row}")?;
    }
    Ok(())
}

/// Prints comma-separated values.
///
/// # Errors
/// When they cannot be written.
pub(super) fn csv(answer: &Answer<'_>, output: &mut dyn Write) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    for row in rows(answer) {
        writer.serialize(row)?;
    }
    Ok(writer.flush()?)
}
