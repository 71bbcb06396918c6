//! Faults by what was said of them.

use std::collections::BTreeMap;
use std::fmt;

use fathom_lab::summary::Row;
use fathom_tests::explained::{Case, Fault, Told};

/// What must be reached, in percent.
const RIGHT: f64 = 90.0;
const SURELY_WRONG: f64 = 2.0;
const PAIRS_RIGHT: f64 = 70.0;

/// How often what was right.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    right: usize,
    surely_wrong: usize,
    invented: usize,
}

/// Verdicts by fault.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    verdicts: BTreeMap<Option<Fault>, BTreeMap<String, usize>>,
    single: Tally,
    healthy: Tally,
    pairs: Tally,
}

/// A run in a line.
pub(crate) fn line(case: &Case, told: &Told) -> String {
    let right = if case.is_right(told) {
        "right"
    } else {
        "WRONG"
    };
    let sure = if told.is_sure { "sure" } else { "not sure" };
    format!(
        "seed {}: {}: {right}, {sure}: {}",
        case.seed,
        name(case),
        told.text
    )
}

fn name(case: &Case) -> String {
    let names: Vec<String> = case.faults.iter().map(ToString::to_string).collect();
    match names[..] {
        [] => "none".to_owned(),
        _ => names.join(" and "),
    }
}

impl Matrix {
    pub(crate) fn add(&mut self, case: &Case, told: &Told) {
        let tally = match case.faults.len() {
            0 => &mut self.healthy,
            1 => &mut self.single,
            _ => &mut self.pairs,
        };
        tally.runs += 1;
        tally.right += usize::from(case.is_right(told));
        tally.surely_wrong += usize::from(case.is_surely_wrong(told));
        tally.invented += usize::from(case.has_invented(told));
        if case.faults.len() < 2 {
            let verdict = told.cause.clone().unwrap_or_else(|| "nothing".to_owned());
            let row = self
                .verdicts
                .entry(case.faults.first().copied())
                .or_default();
            *row.entry(verdict).or_default() += 1;
        }
    }

    /// Rows of the table of all benchmarks.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let part = |count: usize, of: usize| 100.0 * count as f64 / of.max(1) as f64;
        let row = |what: &str, target: String, count, of, is_reached| Row {
            what: format!("explain, {what}"),
            target,
            measured: format!("{count} of {of} runs"),
            is_reached,
        };
        let mut rows = Vec::new();
        let Self {
            single,
            healthy,
            pairs,
            ..
        } = self;
        if single.runs > 0 {
            let reached = part(single.right, single.runs) >= RIGHT;
            let target = format!("at least {RIGHT} %");
            rows.push(row(
                "one fault, the right cause",
                target,
                single.right,
                single.runs,
                Some(reached),
            ));
        }
        if healthy.runs > 0 {
            let reached = healthy.right == healthy.runs;
            let target = "always".to_owned();
            rows.push(row(
                "no fault, nothing told",
                target,
                healthy.right,
                healthy.runs,
                Some(reached),
            ));
        }
        if pairs.runs > 0 {
            let reached = part(pairs.right, pairs.runs) >= PAIRS_RIGHT;
            let target = format!("at least {PAIRS_RIGHT} %");
            let what = "two faults, both or that it is not all";
            rows.push(row(what, target, pairs.right, pairs.runs, Some(reached)));
        }
        let all = [single, healthy, pairs];
        let wrong = all.iter().map(|tally| tally.surely_wrong).sum();
        let runs: usize = all.iter().map(|tally| tally.runs).sum();
        let reached = part(wrong, runs) <= SURELY_WRONG;
        rows.push(row(
            "sure and wrong",
            format!("at most {SURELY_WRONG} %"),
            wrong,
            runs,
            Some(reached),
        ));
        let invented = all.iter().map(|tally| tally.invented).sum();
        let what = "a cause named, first or beside others, that was not there";
        rows.push(row(what, String::new(), invented, runs, None));
        rows
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fault, verdicts) in &self.verdicts {
            let fault = fault.map_or_else(|| "none".to_owned(), |fault| fault.to_string());
            let mut told: Vec<_> = verdicts.iter().collect();
            told.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let told = told
                .iter()
                .map(|(verdict, count)| format!("{verdict} {count}"));
            writeln!(to, "{fault:28} {}", told.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}
