//! The answer for people: a row for each group with its distribution, and a row for each pair.
#![expect(
    clippy::cast_sign_loss,
    reason = "counts and durations are not negative"
)]

use std::io::{self, Write};

use fathom_record::format::display_duration;

use super::Answer;
use super::comparison::{Comparison, Tested};
use super::grouping::Grouping;
use super::metric::Kind;
use super::plot::Axis;
use super::sessions::Group;
use super::statistics::{LEAST_SESSIONS, quantile, share_interval};

/// Longer names of groups are cut.
const MOST_LABEL: usize = 40;

/// Prints it.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(answer: &Answer<'_>, output: &mut dyn Write) -> io::Result<()> {
    head(answer, output)?;
    let groups = &answer.sessions.groups;
    let width = groups
        .iter()
        .map(|group| name(answer, group).chars().count());
    let width = width.max().unwrap_or(0).max("group".len());
    match answer.question.kind() {
        Kind::Duration => durations(answer, width, output)?,
        Kind::Share => shares(answer, width, output)?,
        Kind::Count => counts(answer, width, output)?,
    }
    notes(answer, output)?;
    comparisons(answer, width, output)
}

fn head(answer: &Answer<'_>, output: &mut dyn Write) -> io::Result<()> {
    let question = answer.question;
    let titles: Vec<_> = question.metrics.iter().map(|it| it.title().0).collect();
    let by: Vec<_> = question.groupings.iter().map(Grouping::title).collect();
    let (since, until) = (question.since, question.until);
    writeln!(
        output,
        "{}, by {}\n{since:.0} to {until:.0}\n",
        titles.join(" and "),
        by.join(" and "),
    )
}

/// What a group is called; with its metric where there are several.
fn name(answer: &Answer<'_>, group: &Group) -> String {
    let mut label: String = group.label.chars().take(MOST_LABEL).collect();
    if label.len() < group.label.len() {
        label.push('…');
    }
    if answer.question.metrics.len() > 1 {
        label = format!("{label}, {}", group.metric.name());
    }
    label
}

fn duration(ns: f64) -> String {
    display_duration(ns.round() as u64).to_string()
}

fn durations(answer: &Answer<'_>, width: usize, output: &mut dyn Write) -> io::Result<()> {
    let groups = &answer.sessions.groups;
    let axis = Axis::of(groups.iter().map(|group| &group.values[..]));
    writeln!(
        output,
        "{:width$}  {:>9}  {:>9}  {:>21}  {:>9}  distribution",
        "group", "sessions", "median", "half of them within", "p95"
    )?;
    for group in groups {
        let at = |part| quantile(&group.values, part).map_or_else(String::new, duration);
        let middle = format!("{} … {}", at(0.25), at(0.75));
        let bars = axis.map_or_else(String::new, |axis| axis.bars(&group.values));
        let line = format!(
            "{:width$}  {:>9}  {:>9}  {middle:>21}  {:>9}  {bars}",
            name(answer, group),
            group.sessions,
            at(0.5),
            at(0.95),
        );
        writeln!(output, "{}", line.trim_end())?;
    }
    if let Some(axis) = axis {
        let margin = width + 58;
        writeln!(output, "{:margin$}{}", "", axis.marks())?;
    }
    Ok(())
}

fn shares(answer: &Answer<'_>, width: usize, output: &mut dyn Write) -> io::Result<()> {
    let title = ["group", "sessions", "of them", "share"];
    writeln!(
        output,
        "{:width$}  {:>9}  {:>9}  {:>8}  at 95 %",
        title[0], title[1], title[2], title[3]
    )?;
    for group in &answer.sessions.groups {
        let share = group.happened as f64 / group.sessions as f64;
        let (low, high) = share_interval(group.happened, group.sessions);
        writeln!(
            output,
            "{:width$}  {:>9}  {:>9}  {:>6.2} %  {:.2} to {:.2} %",
            name(answer, group),
            group.sessions,
            group.happened,
            100.0 * share,
            100.0 * low,
            100.0 * high,
        )?;
    }
    Ok(())
}

fn counts(answer: &Answer<'_>, width: usize, output: &mut dyn Write) -> io::Result<()> {
    const LONGEST: f64 = 40.0;
    let sessions = &answer.sessions;
    let all: u64 = sessions.groups.iter().map(|group| group.sessions).sum();
    let all = all + sessions.left_out.1;
    let most = sessions.groups.first().map_or(1, |group| group.sessions);
    writeln!(
        output,
        "{:width$}  {:>9}  {:>8}",
        "group", "sessions", "of all"
    )?;
    for group in &sessions.groups {
        let length = LONGEST * group.sessions as f64 / most as f64;
        writeln!(
            output,
            "{:width$}  {:>9}  {:>6.1} %  {}",
            name(answer, group),
            group.sessions,
            100.0 * group.sessions as f64 / all as f64,
            "█".repeat(length.ceil() as usize),
        )?;
    }
    Ok(())
}

fn notes(answer: &Answer<'_>, output: &mut dyn Write) -> io::Result<()> {
    let sessions = &answer.sessions;
    let (groups, left_out) = sessions.left_out;
    if groups > 0 {
        let all = groups + sessions.groups.len();
        writeln!(
            output,
            "left out: {groups} of {all} groups, with {left_out} sessions; --groups shows more"
        )?;
    }
    if sessions.without_group > 0 {
        writeln!(
            output,
            "left out: {} sessions without {}",
            sessions.without_group,
            answer.question.by()
        )?;
    }
    for group in sessions.groups.iter().filter(|group| group.is_sampled()) {
        writeln!(
            output,
            "{} of {} sessions of {} stand for all",
            group.values.len(),
            group.sessions,
            name(answer, group)
        )?;
    }
    Ok(())
}

fn comparisons(answer: &Answer<'_>, width: usize, output: &mut dyn Write) -> io::Result<()> {
    let tests = answer.comparisons.iter().filter(|it| it.tested.is_some());
    let kind = answer.question.kind();
    if answer.comparisons.is_empty() {
        return Ok(());
    }
    let test = match kind {
        Kind::Share => "Fisher's exact test",
        Kind::Duration | Kind::Count => "Mann-Whitney",
    };
    let correction = match tests.count() {
        0 | 1 => String::new(),
        count => format!(", p corrected for {count} comparisons (Holm)"),
    };
    writeln!(output, "\n{test}{correction}")?;
    for comparison in &answer.comparisons {
        let said = match comparison.tested {
            Some(tested) => verdict(comparison, tested, kind),
            None => format!("not tested: fewer than {LEAST_SESSIONS} sessions"),
        };
        writeln!(
            output,
            "{:width$} against {:width$}  {said}",
            name(answer, comparison.first),
            name(answer, comparison.second),
        )?;
    }
    Ok(())
}

fn verdict(comparison: &Comparison<'_>, tested: Tested, kind: Kind) -> String {
    let p = match tested.corrected_p {
        p if p < 0.0001 => "p < 0.0001".to_owned(),
        p => format!("p = {p:.4}"),
    };
    let found = tested.difference;
    let magnitude = if tested.is_believed() {
        format!("a {} difference", found.magnitude.name())
    } else {
        "no difference shown".to_owned()
    };
    let (low, high) = found.interval;
    if kind == Kind::Share {
        return format!(
            "{:>+7.2} points ({:+.2} to {:+.2})  {magnitude}, {p}",
            100.0 * found.effect,
            100.0 * low,
            100.0 * high,
        );
    }
    let difference = comparison.median_difference().unwrap_or(0.0);
    let sign = if difference < 0.0 { '-' } else { '+' };
    // Of pairs that are equal, half count as greater.
    let percent = |delta: f64| 50.0 * (delta + 1.0);
    format!(
        "median {sign}{:<9}  greater in {:>3.0} % of pairs ({:.0} to {:.0} %)  {magnitude}, {p}",
        duration(difference.abs()),
        percent(found.effect),
        percent(low),
        percent(high),
    )
}
