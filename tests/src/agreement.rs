//! Live beside replay: the same epochs of the same packets.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use anyhow::Result;
use fathom_lab::stolen_time;
use fathom_lab::traffic::loops::Loop;

use crate::responses::Epoch;

/// Between the time that a capture has of a packet and the clock of the program, which reads it
/// next, when nothing interrupts.
const STAMPS_NS: f64 = 50_000.0;

/// Epochs that begin so near each other are one: they are at least 100 ms long, unless a flow ends.
const SAME_NS: u64 = 50_000_000;

/// How the epochs of a measurement on a live interface are those of a capture that was made there.
#[derive(Debug, Clone, Default)]
pub struct Agreement {
    /// Epochs of both.
    pub epochs: usize,
    /// The largest difference of two latencies, relative to them.
    pub worst: f64,
    /// Epochs that are the same, but not as sure: how near two bounds are is on either side of what
    /// is asked.
    pub labels: usize,
    /// What is not the same.
    pub apart: Vec<String>,
    /// What is not the same, at a time when a processor was away between both looks.
    pub excused: usize,
}

impl Agreement {
    /// Compares them. Both begin epochs with the first request of a flow. A request at the border
    /// of two epochs may be counted in the one or in the other, so that they share one wait more or
    /// less among their gaps.
    pub fn of(live: &[Epoch], replayed: &[Epoch], loops: &[Loop]) -> Result<Self> {
        let mut agreement = Self::default();
        let longest: HashMap<u16, u64> = loops
            .iter()
            .map(|own| {
                let waits = own.turns.iter().map(|turn| turn.latency_ns());
                let longest = waits.filter(|wait| *wait < 180_000_000).max();
                (own.client.port(), longest.unwrap_or_default())
            })
            .collect();
        let mut others = Vec::new();
        for epoch in replayed {
            others.push((epoch, epoch.begin_ns()?));
        }
        for epoch in live {
            // Where they begin: the last one ends with the measurement, or with the capture.
            let begin_ns = epoch.begin_ns()?;
            let same = others.iter().position(|(other, other_ns)| {
                other.source_port == epoch.source_port && other_ns.abs_diff(begin_ns) < SAME_NS
            });
            let Some(place) = same else {
                if epoch.causal_gaps > 0 {
                    agreement.apart.push(format!("only live: {epoch:?}"));
                }
                continue;
            };
            let (other, _) = others.swap_remove(place);
            let longest = longest.get(&epoch.source_port).copied();
            agreement.compare(epoch, other, longest.unwrap_or_default() as f64, begin_ns);
        }
        for (other, _) in others.iter().filter(|(other, _)| other.causal_gaps > 0) {
            agreement.apart.push(format!("only replayed: {other:?}"));
        }
        Ok(agreement)
    }

    fn compare(&mut self, live: &Epoch, replayed: &Epoch, longest_ns: f64, begin_ns: u64) {
        self.epochs += 1;
        let gaps = f64::from(live.causal_gaps.max(1));
        let is_same = match (live.latency_ns, replayed.latency_ns) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                let (one, other) = (one as f64, other as f64);
                self.worst = self.worst.max((one / other - 1.0).abs());
                (one - other).abs() <= 2.0 * longest_ns / gaps + STAMPS_NS.min(one / 10.0)
            }
            _ => false,
        };
        let rounded = |epoch: &Epoch| epoch.concurrency.map(f64::round);
        if is_same && rounded(live) == rounded(replayed) {
            self.labels += usize::from(live.confidence != replayed.confidence);
            return;
        }
        let end_ns = begin_ns + live.duration_ns;
        let is_in_epoch = |gap: &Range<u64>| gap.start < end_ns && begin_ns < gap.end;
        if stolen_time().iter().any(is_in_epoch) {
            self.excused += 1;
        } else {
            self.apart.push(format!("{live:?} {replayed:?}"));
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} epochs, {:.2} % at most between them, {} not as sure, {} apart, {} apart while a processor was away",
            self.epochs,
            self.worst * 100.0,
            self.labels,
            self.apart.len(),
            self.excused
        )?;
        self.apart
            .iter()
            .try_for_each(|one| write!(formatter, "\n  {one}"))
    }
}
