//! The protobuf format of Prometheus, in which native histograms are: `io.prometheus.client`, each
//! family after its length. The crate `prometheus` has an older form of it, without them.

use fathom_record::Histogram;
use prost::Message;

use super::exponential::{Exponential, SCHEMA};
use super::family::{Family, FamilyKind, Figure, Series};
use super::text::cumulative;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "MetricType", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<NativeHistogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// A gauge or a counter.
#[derive(Clone, Copy, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct NativeHistogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    /// Those of a classic one.
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    /// The first count, then differences to the one before.
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

/// Buckets in a row.
#[derive(Clone, Copy, PartialEq, Message)]
struct BucketSpan {
    /// Of the first span the index of its first bucket; then how many are empty before it.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// The page.
pub(super) fn page(families: &[Family]) -> Vec<u8> {
    let mut page = Vec::new();
    for family in families {
        page.extend(encoded(family).encode_length_delimited_to_vec());
    }
    page
}

fn encoded(family: &Family) -> MetricFamily {
    let about = &family.about;
    let kind = match about.kind {
        FamilyKind::Counter => MetricType::Counter,
        FamilyKind::Gauge => MetricType::Gauge,
        FamilyKind::Histogram => MetricType::Histogram,
    };
    let series = family.series.iter();
    MetricFamily {
        name: about.name.clone(),
        help: about.help.clone(),
        kind: kind.into(),
        metric: series.map(|one| metric(kind, one)).collect(),
    }
}

fn metric(kind: MetricType, series: &Series) -> Metric {
    let label = series.labels.iter().map(|(name, value)| LabelPair {
        name: name.to_string(),
        value: value.clone(),
    });
    let mut metric = Metric {
        label: label.collect(),
        ..Metric::default()
    };
    match &series.figure {
        Figure::Durations(histogram) => metric.histogram = Some(native(histogram)),
        Figure::Number(value) if kind == MetricType::Counter => {
            metric.counter = Some(Number { value: *value });
        }
        Figure::Number(value) => metric.gauge = Some(Number { value: *value }),
    }
    metric
}

fn native(histogram: &Histogram) -> NativeHistogram {
    let exponential = Exponential::of(histogram);
    let (positive_span, positive_delta) = spans(&exponential.buckets);
    let classic = cumulative(histogram).map(|(upper_bound, cumulative_count)| Bucket {
        cumulative_count,
        upper_bound,
    });
    NativeHistogram {
        sample_count: exponential.count,
        sample_sum: exponential.sum,
        bucket: classic.collect(),
        schema: SCHEMA,
        zero_threshold: exponential.zero_threshold,
        zero_count: exponential.zero_count,
        positive_span,
        positive_delta,
    }
}

fn spans(buckets: &[(i32, u64)]) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut() {
            Some(span) if index == next => span.length += 1,
            _ => spans.push(BucketSpan {
                offset: index - next,
                length: 1,
            }),
        }
        next = index + 1;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_told_by_spans_and_differences() {
        let (spans, deltas) = spans(&[(-3, 5), (-2, 7), (1, 2)]);
        let spans: Vec<_> = spans.iter().map(|it| (it.offset, it.length)).collect();
        assert_eq!(spans, [(-3, 2), (2, 1)]);
        assert_eq!(deltas, [5, 2, -5]);
    }
}
