//! The text format of Prometheus, version 0.0.4, with classic histograms.

use fathom_record::Histogram;
use prometheus::TextEncoder;
use prometheus::proto::{
    self, Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType,
};

use super::exponential;
use super::family::{Family, FamilyKind, Figure, Series};

/// Bounds of the buckets, in ms.
const BOUNDS_MS: [f64; 16] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0,
    10_000.0,
];

/// Where buckets end, in seconds, and how many durations are not longer; those of the bucket of
/// fathom's histogram in which the end is, 3 % of it at most, count as shorter.
pub(super) fn cumulative(histogram: &Histogram) -> impl Iterator<Item = (f64, u64)> {
    let mut buckets = histogram.buckets().peekable();
    let mut passed = 0;
    BOUNDS_MS.iter().map(move |bound| {
        let is_below = |bucket: &(u16, u64)| {
            (*Histogram::bucket_bounds(bucket.0).start() as f64) < bound * 1e6
        };
        while let Some((_, count)) = buckets.next_if(is_below) {
            passed += count;
        }
        (bound / 1e3, passed)
    })
}

/// The page.
///
/// # Errors
/// When a family breaks a rule of the format.
pub(super) fn page(families: &[Family]) -> anyhow::Result<Vec<u8>> {
    let families: Vec<_> = families.iter().map(encoded).collect();
    let mut page = String::new();
    TextEncoder::new().encode_utf8(&families, &mut page)?;
    Ok(page.into_bytes())
}

fn encoded(family: &Family) -> MetricFamily {
    let about = &family.about;
    let mut encoded = MetricFamily::default();
    encoded.set_name(about.name.clone());
    encoded.set_help(about.help.clone());
    encoded.set_field_type(match about.kind {
        FamilyKind::Counter => MetricType::COUNTER,
        FamilyKind::Gauge => MetricType::GAUGE,
        FamilyKind::Histogram => MetricType::HISTOGRAM,
    });
    let series = family.series.iter();
    encoded.set_metric(series.map(|one| metric(about.kind, one)).collect());
    encoded
}

fn metric(kind: FamilyKind, series: &Series) -> Metric {
    let labels = series.labels.iter().map(|(name, value)| {
        let mut label = LabelPair::default();
        label.set_name(name.to_string());
        label.set_value(value.clone());
        label
    });
    let mut metric = Metric::from_label(labels.collect());
    match &series.figure {
        Figure::Durations(histogram) => metric.set_histogram(classic(histogram)),
        Figure::Number(number) if kind == FamilyKind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(*number);
            metric.set_counter(counter);
        }
        Figure::Number(number) => {
            let mut gauge = Gauge::default();
            gauge.set_value(*number);
            metric.set_gauge(gauge);
        }
    }
    metric
}

fn classic(histogram: &Histogram) -> proto::Histogram {
    let buckets = cumulative(histogram).map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    let mut classic = proto::Histogram::default();
    classic.set_bucket(buckets.collect());
    classic.set_sample_count(histogram.count());
    classic.set_sample_sum(exponential::sum(histogram));
    classic
}
