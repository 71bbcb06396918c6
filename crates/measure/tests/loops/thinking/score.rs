//! How good estimates are, of one workload or of many.

use fathom_measure::response::{Confidence, Estimator};

use super::simulation::{Run, Turn};
use super::workload::{Stamps, Workload};
use crate::judge::{Judged, judge};

/// What was told of epochs in which clients waited.
#[derive(Debug, Clone, Default)]
pub(super) struct Score {
    pub(super) epochs: usize,
    /// Of each estimate, relative to the truth, without its sign.
    errors: Vec<f64>,
    /// The same of those that are sure.
    sure: Vec<f64>,
    medium: usize,
    low: usize,
    /// Of what an estimate would be that knew all clocks and ways.
    ideal: Vec<f64>,
}

impl Score {
    pub(super) fn of(workload: &Workload, run: &Run) -> Self {
        let mut score = Self::default();
        for one in judge(&run.trace, Estimator::Timestamps) {
            score.add(&one);
            score.ideal.extend(ideal_error(workload, &run.turns, &one));
        }
        score
    }

    fn add(&mut self, judged: &Judged) {
        self.epochs += 1;
        self.errors.extend(judged.error().map(f64::abs));
        self.sure.extend(judged.sure_error().map(f64::abs));
        self.medium += usize::from(judged.epoch.confidence == Confidence::Medium);
        self.low += usize::from(judged.epoch.confidence == Confidence::Low);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.epochs += other.epochs;
        self.errors.extend(&other.errors);
        self.sure.extend(&other.sure);
        self.medium += other.medium;
        self.low += other.low;
        self.ideal.extend(&other.ideal);
    }

    /// Of all epochs with an estimate; of none it is infinite.
    pub(super) fn median(&self) -> f64 {
        median(&self.errors)
    }

    /// Of what an estimate could be.
    pub(super) fn ideal(&self) -> f64 {
        median(&self.ideal)
    }

    /// How many are sure, and off by more than a quarter.
    pub(super) fn sure_and_wrong(&self) -> usize {
        self.sure.iter().filter(|error| **error > 0.25).count()
    }

    /// How many are sure.
    pub(super) fn sure(&self) -> usize {
        self.sure.len()
    }

    /// Of all epochs, those that are sure or nearly so.
    pub(super) fn trusted(&self) -> f64 {
        (self.sure.len() + self.medium) as f64 / self.epochs.max(1) as f64
    }

    pub(super) fn print_header(title: &str) {
        println!(
            "\n{title:100}  epochs estimated   median within 25 % |   high (right) medium    low |  ideal"
        );
    }

    pub(super) fn print(&self, name: &str) {
        let part = |count: usize, all: usize| count as f64 * 100.0 / all.max(1) as f64;
        let within = self.errors.iter().filter(|error| **error <= 0.25).count();
        let right = self.sure.len() - self.sure_and_wrong();
        println!(
            "{name:100} {:7} {:7.1} % {:6.2} % {:9.1} % | {:4.1} % ({:5.1}) {:4.1} % {:4.1} % | {}",
            self.epochs,
            part(self.errors.len(), self.epochs),
            self.median() * 100.0,
            part(within, self.errors.len()),
            part(self.sure.len(), self.epochs),
            part(right, self.sure.len()),
            part(self.medium, self.epochs),
            part(self.low, self.epochs),
            match self.ideal() {
                ideal if ideal.is_finite() => format!("{:5.2} %", ideal * 100.0),
                _ => "-".to_owned(),
            },
        );
    }
}

fn median(errors: &[f64]) -> f64 {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    errors
        .get(errors.len() / 2)
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// With the ways and the clock's ticks known, from the same gaps: what a client thought is known to
/// a tick.
fn ideal_error(workload: &Workload, turns: &[Turn], judged: &Judged) -> Option<f64> {
    let Stamps::Ticks(tick) = workload.stamps else {
        return None;
    };
    let epoch = &judged.epoch;
    let time = epoch.time.0 - epoch.duration_ns.0..epoch.time.0;
    let (mut count, mut sum_ns) = (0.0, 0.0);
    for turn in turns {
        if turn.wait.port == epoch.flow.source_port && time.contains(&turn.wait.told_ns) {
            sum_ns += turn.gap_ns as f64 - turn.thought_ns + tick.as_nanos() as f64 / 2.0;
            count += 1.0;
        }
    }
    Some((sum_ns / count / judged.truth_ns - 1.0).abs())
}
