//! The same families as requests of OTLP, in protobuf.

use fathom_record::{Histogram, Time};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as PointValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::exponential::{Exponential, SCHEMA};
use super::family::{Family, FamilyKind, Figure, Series};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who tells: this host, with its labels.
pub(super) fn resource(host: &str, labels: &[(String, String)]) -> Resource {
    let own = [
        ("service.name", "fathom"),
        ("service.version", VERSION),
        ("host.name", host),
    ];
    let labels = labels.iter().map(|(name, value)| (&**name, &**value));
    let all = own.into_iter().chain(labels);
    Resource {
        attributes: all.map(|(key, value)| attribute(key, value)).collect(),
        ..Default::default()
    }
}

/// All families, as they stand at this time. What does not say since when it counts does so since
/// fathom has `begun`.
pub(super) fn request(
    families: &[Family],
    resource: Resource,
    begun: Time,
    now: Time,
) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope {
        name: "fathom".to_owned(),
        version: VERSION.to_owned(),
        ..Default::default()
    };
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope),
                metrics: families
                    .iter()
                    .map(|family| metric(family, Moments { begun, now }))
                    .collect(),
                ..Default::default()
            }],
            ..Default::default()
        }],
    }
}

#[derive(Clone, Copy)]
struct Moments {
    begun: Time,
    now: Time,
}

impl Moments {
    /// Not after now, where the clock was set back.
    fn since(self, series: &Series) -> u64 {
        let since = match series.since {
            0 => self.begun.0,
            since => since,
        };
        since.min(self.now.0)
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..Default::default()
    }
}

fn metric(family: &Family, at: Moments) -> Metric {
    let about = &family.about;
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match about.kind {
        FamilyKind::Counter => Data::Sum(Sum {
            data_points: numbers(family, at),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        FamilyKind::Gauge => Data::Gauge(Gauge {
            data_points: numbers(family, at),
        }),
        FamilyKind::Histogram => Data::ExponentialHistogram(ExponentialHistogram {
            data_points: distributions(family, at),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: about.name.clone(),
        description: about.help.clone(),
        unit: about.unit.to_owned(),
        data: Some(data),
        ..Default::default()
    }
}

fn attributes(series: &Series) -> Vec<KeyValue> {
    let labels = series.labels.iter();
    labels.map(|(name, value)| attribute(name, value)).collect()
}

fn numbers(family: &Family, at: Moments) -> Vec<NumberDataPoint> {
    let points = family.series.iter().filter_map(|series| {
        let Figure::Number(number) = series.figure else {
            return None;
        };
        Some(NumberDataPoint {
            attributes: attributes(series),
            start_time_unix_nano: at.since(series),
            time_unix_nano: at.now.0,
            value: Some(PointValue::AsDouble(number)),
            ..Default::default()
        })
    });
    points.collect()
}

fn distributions(family: &Family, at: Moments) -> Vec<ExponentialHistogramDataPoint> {
    let points = family.series.iter().filter_map(|series| {
        let Figure::Durations(histogram) = &series.figure else {
            return None;
        };
        Some(ExponentialHistogramDataPoint {
            attributes: attributes(series),
            start_time_unix_nano: at.since(series),
            time_unix_nano: at.now.0,
            ..distribution(histogram)
        })
    });
    points.collect()
}

fn distribution(histogram: &Histogram) -> ExponentialHistogramDataPoint {
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e9);
    let exponential = Exponential::of(histogram);
    ExponentialHistogramDataPoint {
        count: exponential.count,
        sum: Some(exponential.sum),
        scale: SCHEMA,
        zero_count: exponential.zero_count,
        zero_threshold: exponential.zero_threshold,
        positive: Some(dense(&exponential.buckets)),
        min: seconds(histogram.min()),
        max: seconds(histogram.max()),
        ..Default::default()
    }
}

/// All buckets from the first to the last. OTLP numbers a bucket by where it begins.
fn dense(buckets: &[(i32, u64)]) -> Buckets {
    let (Some(&(first, _)), Some(&(last, _))) = (buckets.first(), buckets.last()) else {
        return Buckets::default();
    };
    let mut bucket_counts = vec![0; (last - first).unsigned_abs() as usize + 1];
    for &(index, count) in buckets {
        bucket_counts[(index - first).unsigned_abs() as usize] = count;
    }
    Buckets {
        offset: first - 1,
        bucket_counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_in_a_row_have_empty_ones_between() {
        let dense = dense(&[(-3, 5), (-1, 7)]);
        assert_eq!((dense.offset, dense.bucket_counts), (-4, vec![5, 0, 7]));
    }
}
