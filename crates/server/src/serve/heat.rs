//! How often which latency was measured when.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::lists::Range;
use crate::lists::flow::{step_end, step_ns};
use crate::query::Engine;

/// Steps of time at most.
const MOST_STEPS: i64 = 120;
/// Bands of latency for each power of ten.
const BANDS_OF_TEN: f64 = 10.0;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Measure {
    /// Round trips of packets.
    Rtt,
    /// What clients waited for responses.
    Latency,
}

/// What is shown.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct HeatAsked {
    /// What is measured.
    #[param(inline)]
    pub(super) measure: Measure,
    /// Only of flows towards this address.
    pub(super) destination: Option<String>,
    /// Only of flows towards this port.
    #[param(maximum = 65535)]
    pub(super) destination_port: Option<u16>,
}

/// How often which latency was measured in each step of time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct Heat {
    /// How long a step is.
    step_ns: i64,
    /// Where bands of latency begin, the shortest first; each ends where the next begins.
    bands_ns: Vec<u64>,
    /// The steps that have samples, the oldest first.
    steps: Vec<Step>,
}

/// A step of time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct Step {
    /// Its end.
    time: String,
    /// The median.
    p50_ns: Option<u64>,
    /// The 99th percentile.
    p99_ns: Option<u64>,
    /// How many samples each band has.
    counts: Vec<u64>,
}

#[derive(Deserialize)]
struct Row {
    time: String,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    #[serde(default)]
    histogram: Vec<Bucket>,
}

#[derive(Deserialize)]
struct Bucket {
    from_ns: u64,
    count: u64,
}

/// Asks the store.
///
/// # Errors
/// When it cannot be read.
pub(super) async fn heat(engine: &Engine, asked: &HeatAsked, range: Range) -> anyhow::Result<Heat> {
    let step_ns = step_ns(range, MOST_STEPS);
    let (table, histogram) = match asked.measure {
        Measure::Rtt => ("rtt_aggregate", "rtt_histogram"),
        Measure::Latency => ("response_aggregate", "latency_histogram"),
    };
    let statement = include_str!("heat.sql")
        .replace("{step}", &step_end(step_ns))
        .replace("{histogram}", histogram)
        .replace("{table}", table);
    let mut parameters = range.parameters();
    parameters.push(asked.destination.as_deref().unwrap_or_default().into());
    parameters.push(asked.destination_port.unwrap_or_default().into());
    let rows: Vec<Row> = engine.ask(&statement, &parameters).await?;
    Ok(banded(&rows, step_ns))
}

#[expect(clippy::cast_sign_loss, reason = "the logarithm of 1 and more")]
fn band_of(ns: u64) -> usize {
    ((ns.max(1) as f64).log10() * BANDS_OF_TEN + 1e-9) as usize
}

#[expect(clippy::cast_sign_loss, reason = "powers are positive")]
fn begin_of(band: usize) -> u64 {
    10f64.powf(band as f64 / BANDS_OF_TEN).round() as u64
}

/// Puts buckets together, which are finer than eyes.
fn banded(rows: &[Row], step_ns: i64) -> Heat {
    let buckets = || rows.iter().flat_map(|row| &row.histogram);
    let bands = || buckets().map(|bucket| band_of(bucket.from_ns));
    let first = bands().min().unwrap_or_default();
    let bands_ns = match bands().max() {
        Some(last) => (first..=last).map(begin_of).collect(),
        None => Vec::new(),
    };
    let steps = rows.iter().map(|row| {
        let mut counts = vec![0; bands_ns.len()];
        for bucket in &row.histogram {
            counts[band_of(bucket.from_ns) - first] += bucket.count;
        }
        Step {
            time: row.time.clone(),
            p50_ns: row.p50_ns,
            p99_ns: row.p99_ns,
            counts,
        }
    });
    Heat {
        step_ns,
        steps: steps.collect(),
        bands_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_become_bands_that_hold_them() {
        let row = |buckets: &[(u64, u64)]| Row {
            time: String::new(),
            p50_ns: None,
            p99_ns: None,
            histogram: buckets
                .iter()
                .map(|&(from_ns, count)| Bucket { from_ns, count })
                .collect(),
        };
        let rows = vec![
            row(&[(1_000_000, 3), (1_010_000, 4)]),
            row(&[(10_000_000, 5)]),
            row(&[]),
        ];
        let heat = banded(&rows, 1);
        assert_eq!(
            (heat.bands_ns.len(), heat.bands_ns[0], heat.bands_ns[10]),
            (11, 1_000_000, 10_000_000)
        );
        let totals: Vec<u64> = heat
            .steps
            .iter()
            .map(|step| step.counts.iter().sum())
            .collect();
        assert_eq!(totals, [7, 5, 0]);
        assert_eq!((heat.steps[0].counts[0], heat.steps[1].counts[10]), (7, 5));
        assert!(banded(&[], 1).bands_ns.is_empty());
    }
}
