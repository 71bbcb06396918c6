//! Printed samples against the truth of the same two packets.

use std::collections::HashMap;
use std::fmt;

use crate::{Flow, Method, Pair, Sample};

/// How far apart the tool and the lab may see the same packet: much more than they do, much less
/// than the gap that would confuse pairs, as a candidate must also fit the time of the measured
/// packet best.
const TOLERANCE_NS: u64 = 20_000_000;

/// A sample and the pair of packets it was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// The truth.
    pub pair: Pair,
    /// The printed round trip, in ns.
    pub rtt_ns: u64,
}

impl Match {
    /// What the tool says too much, in ns.
    pub fn error_ns(&self) -> i64 {
        self.rtt_ns.cast_signed() - self.pair.rtt_ns().cast_signed()
    }

    /// Whether it is off by at most 1 ms and 2 %.
    pub fn is_close(&self) -> bool {
        self.error_ns().unsigned_abs() <= 1_000_000 + self.pair.rtt_ns() / 50
    }
}

/// The samples of a run with their truth.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Samples with their own packets.
    pub matches: Vec<Match>,
    /// Samples that no pair of packets explains.
    pub unexplained: Vec<Sample>,
    /// Pairs of packets that gave no sample.
    pub missed: Vec<Pair>,
}

impl Comparison {
    /// Finds for each sample the pair of packets it was made from; no pair makes two.
    pub fn new(samples: &[Sample], pairs: &[Pair]) -> Self {
        let mut by_flow: HashMap<(Method, Flow), Vec<(Pair, bool)>> = HashMap::new();
        for pair in pairs {
            let pairs = by_flow.entry((pair.method, pair.flow)).or_default();
            pairs.push((*pair, false));
        }
        for pairs in by_flow.values_mut() {
            pairs.sort_by_key(|(pair, _)| pair.answer_ns);
        }
        let mut comparison = Self::default();
        for sample in samples {
            let own = by_flow.get_mut(&(sample.method, sample.flow));
            match own.and_then(|pairs| take_nearest(pairs, sample)) {
                Some(pair) => comparison.matches.push(Match {
                    pair,
                    rtt_ns: sample.rtt_ns,
                }),
                None => comparison.unexplained.push(sample.clone()),
            }
        }
        let rest = by_flow.into_values().flatten();
        comparison.missed = rest
            .filter(|(_, is_taken)| !is_taken)
            .map(|(pair, _)| pair)
            .collect();
        comparison
    }

    /// Without what is left over since `time_ns`: near the end of a measurement, one side may have
    /// seen a packet that the other has not.
    #[must_use]
    pub fn settled(mut self, time_ns: u64) -> Self {
        self.unexplained.retain(|sample| sample.time_ns < time_ns);
        self.missed.retain(|pair| pair.answer_ns < time_ns);
        self
    }

    /// Errors of the samples of `method`.
    pub fn figures(&self, method: Method) -> Figures {
        self.figures_of(|pair| pair.method == method)
    }

    /// Errors of the samples that `select` picks.
    pub fn figures_of(&self, select: impl Fn(&Pair) -> bool) -> Figures {
        let selected = self.matches.iter().filter(|one| select(&one.pair));
        let mut errors_ns: Vec<i64> = selected.clone().map(Match::error_ns).collect();
        let bias_ns = median(&mut errors_ns);
        let mut sizes_ns: Vec<u64> = errors_ns.into_iter().map(i64::unsigned_abs).collect();
        let mut truth_ns: Vec<u64> = selected.clone().map(|one| one.pair.rtt_ns()).collect();
        let mut rtt_ns: Vec<u64> = selected.map(|one| one.rtt_ns).collect();
        let median_ns = median(&mut sizes_ns);
        Figures {
            samples: sizes_ns.len(),
            missed: self.missed.iter().filter(|pair| select(pair)).count(),
            median_rtt_ns: median(&mut rtt_ns),
            median_truth_ns: median(&mut truth_ns),
            bias_ns,
            median_ns,
            p99_ns: sizes_ns
                .get(sizes_ns.len() * 99 / 100)
                .copied()
                .unwrap_or_default(),
            maximum_ns: sizes_ns.last().copied().unwrap_or_default(),
        }
    }
}

/// Sorts and gives the middle, zero of nothing.
fn median<T: Ord + Copy + Default>(values: &mut [T]) -> T {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Of the free pairs near the sample the one whose two times fit best.
fn take_nearest(pairs: &mut [(Pair, bool)], sample: &Sample) -> Option<Pair> {
    let earliest = sample.time_ns.saturating_sub(TOLERANCE_NS);
    let latest = sample.time_ns + TOLERANCE_NS;
    let start = pairs.partition_point(|(pair, _)| pair.answer_ns < earliest);
    let near = pairs[start..].iter_mut();
    let sent_ns = sample.time_ns.saturating_sub(sample.rtt_ns);
    let (pair, is_taken) = near
        .take_while(|(pair, _)| pair.answer_ns <= latest)
        .filter(|(_, is_taken)| !is_taken)
        .min_by_key(|(pair, _)| {
            pair.answer_ns.abs_diff(sample.time_ns) + pair.packet_ns.abs_diff(sent_ns)
        })?;
    *is_taken = true;
    Some(*pair)
}

/// Errors of some samples against their own packets, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Samples compared.
    pub samples: usize,
    /// Pairs of packets without a sample.
    pub missed: usize,
    /// Median of what was printed.
    pub median_rtt_ns: u64,
    /// Median of the truth.
    pub median_truth_ns: u64,
    /// Median of the errors with their sign: what the tool says too much.
    pub bias_ns: i64,
    /// Median size of the errors.
    pub median_ns: u64,
    /// 99th percentile of the sizes.
    pub p99_ns: u64,
    /// Greatest size.
    pub maximum_ns: u64,
}

impl Figures {
    /// Whether the median error is at most 100 us and 0.5 %.
    pub fn is_accurate(&self) -> bool {
        self.median_ns <= 100_000 + self.median_truth_ns / 200
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} samples of {:.3} ms (truth {:.3} ms), error median {:+} us, of sizes {} us, p99 {} us, max {} us, {} pairs without",
            self.samples,
            self.median_rtt_ns as f64 / 1e6,
            self.median_truth_ns as f64 / 1e6,
            self.bias_ns / 1_000,
            self.median_ns / 1_000,
            self.p99_ns / 1_000,
            self.maximum_ns / 1_000,
            self.missed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow {
            protocol: 6,
            source: [10, 0, 0, 1].into(),
            source_port: 1,
            destination: [10, 0, 0, 2].into(),
            destination_port: 2,
        }
    }

    fn pair(packet_ns: u64, answer_ns: u64) -> Pair {
        Pair {
            flow: flow(),
            method: Method::Timestamp,
            packet_ns,
            answer_ns,
            is_overtaken: false,
        }
    }

    fn sample(time_ns: u64, rtt_ns: u64) -> Sample {
        Sample {
            time_ns,
            flow: flow(),
            method: Method::Timestamp,
            rtt_ns,
            interface: "wan0".to_owned(),
        }
    }

    #[test]
    fn samples_find_their_own_packets() {
        let pairs = [
            pair(1_000_000, 41_000_000),
            pair(2_000_000, 41_100_000),
            pair(3_000_000, 43_000_000),
        ];
        let samples = [
            sample(41_090_000, 39_080_000),
            sample(43_050_000, 40_060_000),
            sample(900_000_000, 5),
        ];
        let comparison = Comparison::new(&samples, &pairs);
        let errors: Vec<i64> = comparison.matches.iter().map(Match::error_ns).collect();
        assert_eq!(errors, [-20_000, 60_000]);
        assert_eq!(comparison.unexplained, samples[2..]);
        assert_eq!(comparison.missed, pairs[..1]);
        let figures = comparison.figures(Method::Timestamp);
        assert_eq!(
            (figures.samples, figures.maximum_ns, figures.missed),
            (2, 60_000, 1)
        );
        assert!(figures.is_accurate());
    }
}
