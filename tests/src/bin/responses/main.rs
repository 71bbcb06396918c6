//! How far response latencies are from what clients waited, for each workload and estimator.

mod http3;
mod programs;
mod wireguard;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use fathom_lab::summary::{Row, conclude};
use fathom_tests::responses::{Errors, Judged, cases, judge, thinking_cases};

use programs::PROGRAMS;

/// The default first.
const ESTIMATORS: [&str; 5] = ["timestamps", "acknowledged", "split", "modes", "fixed"];

/// Compares response latencies with what clients waited, for each workload and estimator, and with
/// what programs of others say (needs root).
#[derive(Debug, Parser)]
struct Options {
    /// Workloads and programs whose names have this part; by default all.
    #[arg(long)]
    only: Vec<String>,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Options { only, summary } = Options::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part));
    conclude(&compare_estimators(&is_chosen)?, summary.as_deref())?;
    conclude(&compare_thinking(&is_chosen)?, summary.as_deref())?;
    Ok(conclude(
        &compare_programs(&is_chosen)?,
        summary.as_deref(),
    )?)
}

/// Each estimator with each workload; rows of the default.
fn compare_estimators(is_chosen: &dyn Fn(&str) -> bool) -> Result<Vec<Row>> {
    let mut chosen = cases();
    chosen.retain(|case| is_chosen(case.name));
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    println!(
        "errors in %: bias, median, 90th percentile; epochs with an estimate, of all; of these, sure ones"
    );
    println!(
        "{:24}{}",
        "",
        ESTIMATORS.map(|name| format!("{name:>30}")).concat()
    );
    let mut all = ESTIMATORS.map(|_| Vec::new());
    for case in chosen {
        let options = ESTIMATORS.map(|estimator| ["--estimator", estimator]);
        let (loops, finished) = case.run(&options.each_ref().map(|options| &options[..]))?;
        print!("{:24}", case.name);
        for (finished, all) in finished.iter().zip(&mut all) {
            let judged = judge(&finished.epochs(), &loops)?;
            print!("{:>30}", cell(&judged));
            all.push(judged);
        }
        println!();
    }
    let mut rows = Vec::new();
    for (estimator, workloads) in ESTIMATORS.iter().zip(&all) {
        let figures = Figures::of(workloads);
        println!("{estimator}: {figures}");
        if *estimator == ESTIMATORS[0] {
            rows = figures.rows();
        }
    }
    Ok(rows)
}

/// The default with clients that think before they ask again.
fn compare_thinking(is_chosen: &dyn Fn(&str) -> bool) -> Result<Vec<Row>> {
    let mut all = [Vec::new(), Vec::new()];
    for case in thinking_cases() {
        if !is_chosen(case.name) {
            continue;
        }
        let (loops, finished) = case.run(&[&[]])?;
        let judged = judge(&finished[0].epochs(), &loops)?;
        println!("{:24}{:>30}", case.name, cell(&judged));
        all[usize::from(case.has_timestamps)].push(judged);
    }
    let mut rows = Vec::new();
    for (has_timestamps, workloads) in [false, true].into_iter().zip(&all) {
        if !workloads.is_empty() {
            let figures = Figures::of(workloads);
            println!("clients that think, timestamps {has_timestamps}: {figures}");
            rows.extend(figures.thinking_rows(has_timestamps));
        }
    }
    Ok(rows)
}

/// The default with real programs.
fn compare_programs(is_chosen: &dyn Fn(&str) -> bool) -> Result<Vec<Row>> {
    let mut chosen = PROGRAMS.to_vec();
    chosen.retain(|program| is_chosen(program.name));
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(why) = programs::obstacle() {
        println!("skipped: {why}");
        return Ok(Vec::new());
    }
    println!("real programs:");
    let mut rows = Vec::new();
    for program in chosen {
        let compared = program.run()?;
        println!("{:58} {compared}", program.name);
        rows.push(Row {
            what: format!("response latency, {}", program.name),
            target: String::new(),
            measured: compared.to_string(),
            is_reached: None,
        });
    }
    Ok(rows)
}

fn row(what: &str, target: &str, measured: String, is_reached: bool) -> Row {
    Row {
        what: format!("response latency, {what}"),
        target: target.to_owned(),
        measured,
        is_reached: Some(is_reached),
    }
}

/// How sure estimates were, over all workloads.
struct Figures {
    workloads: usize,
    /// Medians of those that have sure epochs, ascending.
    medians: Vec<f64>,
    /// Of these, how many have nine tenths of their epochs within 15 %.
    tight: usize,
    sure: usize,
    wrong: usize,
}

impl Figures {
    fn of(workloads: &[Vec<Judged>]) -> Self {
        let mut figures = Self {
            workloads: workloads.len(),
            medians: Vec::new(),
            tight: 0,
            sure: 0,
            wrong: 0,
        };
        for judged in workloads {
            if let Some(errors) = Errors::of(judged, true) {
                figures.medians.push(errors.median);
                figures.tight += usize::from(errors.p90 < 0.15);
            }
            let sure = judged.iter().filter(|one| one.is_sure());
            for error in sure.filter_map(Judged::error) {
                figures.sure += 1;
                figures.wrong += usize::from(error.abs() > 0.25);
            }
        }
        figures.medians.sort_by(f64::total_cmp);
        figures
    }

    fn middle(&self) -> f64 {
        let middle = self.medians.get(self.medians.len() / 2);
        middle.map_or(f64::NAN, |median| median * 100.0)
    }

    fn worst(&self) -> f64 {
        self.medians
            .last()
            .map_or(f64::NAN, |median| median * 100.0)
    }

    /// Of the sure epochs, in percent.
    fn wrong(&self) -> f64 {
        self.wrong as f64 * 100.0 / self.sure.max(1) as f64
    }

    /// Rows of the table of the benchmarks, of clients that think; their times are told only where
    /// there are timestamps.
    fn thinking_rows(&self, has_timestamps: bool) -> Vec<Row> {
        let (middle, wrong) = (self.middle(), self.wrong());
        let (title, most) = if has_timestamps {
            ("clients that think, with timestamps", 10.0)
        } else {
            ("clients that think, without timestamps", 0.0)
        };
        let mut rows = vec![row(
            &format!("{title}: sure epochs that are off by more than 25 %"),
            &format!("at most {most} %"),
            format!("{wrong:.1} % of {}", self.sure),
            wrong <= most,
        )];
        if has_timestamps {
            rows.push(row(
                &format!("{title}: median error over workloads"),
                "at most 3 %",
                format!("{middle:.2} %"),
                middle <= 3.0,
            ));
        }
        rows
    }

    /// Rows of the table of the benchmarks.
    fn rows(&self) -> Vec<Row> {
        let (middle, worst, wrong) = (self.middle(), self.worst(), self.wrong());
        vec![
            row(
                "median error over workloads",
                "at most 0.63 %",
                format!("{middle:.2} %"),
                middle <= 0.63,
            ),
            row(
                "worst workload's median error, sure epochs",
                "at most 5 %",
                format!("{worst:.2} %"),
                worst <= 5.0,
            ),
            row(
                "workloads with nine tenths of their sure epochs within 15 %",
                "at least 28 of 36",
                format!("{} of {}", self.tight, self.workloads),
                self.tight * 36 >= self.workloads * 28,
            ),
            row(
                "sure epochs that are off by more than 25 %",
                "at most 2 %",
                format!("{wrong:.1} %"),
                wrong <= 2.0,
            ),
        ]
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.medians.is_empty() {
            return formatter.write_str("no sure estimates");
        }
        write!(
            formatter,
            "{} of {} workloads with sure epochs: median of medians {:.2} %, worst {:.2} %, p90 below 15 % in {}; {} of {} sure epochs off by more than 25 %",
            self.medians.len(),
            self.workloads,
            self.middle(),
            self.worst(),
            self.tight,
            self.wrong,
            self.sure,
        )
    }
}

fn cell(judged: &[Judged]) -> String {
    let sure = judged.iter().filter(|one| one.is_sure()).count();
    match Errors::of(judged, false) {
        None => format!("none of {}", judged.len()),
        Some(errors) => format!(
            "{:+.1} {:.2} {:.1} {:>3}/{} {sure}",
            errors.bias * 100.0,
            errors.median * 100.0,
            errors.p90 * 100.0,
            errors.estimated,
            judged.len(),
        ),
    }
}
