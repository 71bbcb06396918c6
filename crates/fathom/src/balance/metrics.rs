//! Figures for Prometheus: text format 0.0.4, over HTTP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::anyhow;
use fathom_balance::record::{BalanceServer, BalanceService, BalanceWeight};
use fathom_record::{Field, Histogram, Metric as Role, Record, Schema, Value};
use prometheus::TextEncoder;
use prometheus::proto::{
    self, Bucket, Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType,
};
use tiny_http::{Header, Response, Server};

/// Serves the page that was last given.
pub(super) struct Metrics {
    page: Arc<Mutex<String>>,
    server: Arc<Server>,
}

impl Metrics {
    /// Opens the address.
    pub(super) fn serve(address: SocketAddr) -> anyhow::Result<Self> {
        let server = Server::http(address)
            .map_err(|error| anyhow!("cannot serve metrics at {address}: {error}"))?;
        let server = Arc::new(server);
        let page: Arc<Mutex<String>> = Arc::default();
        let (thread_server, pages) = (Arc::clone(&server), Arc::clone(&page));
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                for request in thread_server.incoming_requests() {
                    let is_known = matches!(request.url(), "/metrics" | "/");
                    let page = pages.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let (page, status) = if is_known {
                        (page, 200)
                    } else {
                        (String::new(), 404)
                    };
                    let mut response = Response::from_string(page).with_status_code(status);
                    if let Ok(header) = Header::from_bytes(
                        "Content-Type",
                        "text/plain; version=0.0.4; charset=utf-8",
                    ) {
                        response.add_header(header);
                    }
                    // A client that has gone away needs no answer.
                    let _ = request.respond(response);
                }
            })?;
        Ok(Self { page, server })
    }

    /// Where it is served.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    /// The page from now on.
    pub(super) fn set(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.server.unblock();
    }
}

/// Everything on one page. What is there follows from the records' declarations: a field that says
/// `metric` is a family.
pub(super) fn page(
    services: &[BalanceService],
    servers: &[BalanceServer],
    weights: &[BalanceWeight],
    latencies: &[(String, String, Histogram)],
    counts: &[(&'static str, u64)],
) -> anyhow::Result<String> {
    let mut families = families_of(services);
    families.extend(families_of_servers(servers));
    families.extend(families_of(weights));
    families.push(family(
        "response_seconds",
        MetricType::HISTOGRAM,
        "What clients waited for responses, averaged over epochs of a connection, since the process began.",
        latencies.iter().map(response_seconds),
    ));
    families.push(family(
        "count_total",
        MetricType::COUNTER,
        "What happened to packets and connections, by name.",
        counts
            .iter()
            .map(|(name, count)| counter(vec![label("name", *name)], *count as f64)),
    ));
    families.retain(|family| !family.get_metric().is_empty());
    Ok(TextEncoder::new().encode_to_string(&families)?)
}

fn family(
    name: &str,
    kind: MetricType,
    help: &str,
    metrics: impl Iterator<Item = Metric>,
) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(format!("fathom_balance_{name}"));
    family.set_field_type(kind);
    family.set_help(help.to_owned());
    family.set_metric(metrics.collect());
    family
}

/// The name of the record, but for "balance", and that of the field, in seconds where that is in
/// nanoseconds.
fn family_name(schema: &Schema, field: &Field) -> String {
    let record = schema.kind.trim_start_matches("balance");
    let name = match field.name.strip_suffix("_ns") {
        Some(stem) => format!("{stem}_seconds"),
        None => field.name.to_owned(),
    };
    let end = if field.metric == Some(Role::Counter) {
        "_total"
    } else {
        ""
    };
    format!("{record}_{name}{end}")
        .trim_start_matches('_')
        .to_owned()
}

/// A family for each field of these records that is a metric; its help is what the declaration
/// says.
fn families_of<R: Record>(records: &[R]) -> Vec<MetricFamily> {
    let Some(schema) = records.first().map(Record::schema) else {
        return Vec::new();
    };
    let fields = schema.fields.iter().enumerate();
    let family_of = |(index, field): (usize, &Field)| {
        let (kind, metric): (_, fn(_, _) -> _) = match field.metric? {
            Role::Label => return None,
            Role::Counter => (MetricType::COUNTER, counter),
            Role::Gauge => (MetricType::GAUGE, gauge),
        };
        let values = records.iter().filter_map(|record| {
            let number = match record.value(index) {
                Value::Unsigned(number) => number as f64,
                Value::Float(number) => number,
                Value::Duration(ns) => ns as f64 / 1e9,
                _ => return None,
            };
            Some(metric(labels(record), number))
        });
        Some(family(
            &family_name(schema, field),
            kind,
            field.about,
            values,
        ))
    };
    fields.filter_map(family_of).collect()
}

/// Besides what their records say, whether they are up.
fn families_of_servers(servers: &[BalanceServer]) -> Vec<MetricFamily> {
    let is_up =
        |server: &BalanceServer| gauge(labels(server), f64::from(u8::from(server.state.is_up())));
    let mut families = families_of(servers);
    families.push(family(
        "server_up",
        MetricType::GAUGE,
        "1: it is healthy and can be reached.",
        servers.iter().map(is_up),
    ));
    families
}

/// What names the series of a record.
fn labels<R: Record>(record: &R) -> Vec<LabelPair> {
    let fields = record.schema().fields.iter().enumerate();
    let text = |index| match record.value(index) {
        Value::Text(text) => text.to_owned(),
        Value::Address(address) => address.to_string(),
        _ => String::new(),
    };
    fields
        .filter(|(_, field)| field.metric == Some(Role::Label))
        .map(|(index, field)| label(field.name, text(index)))
        .collect()
}

fn label(name: &str, value: impl Into<String>) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.into());
    label
}

fn counter(labels: Vec<LabelPair>, number: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(number);
    let mut metric = Metric::from_label(labels);
    metric.set_counter(counter);
    metric
}

fn gauge(labels: Vec<LabelPair>, number: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(number);
    let mut metric = Metric::from_label(labels);
    metric.set_gauge(gauge);
    metric
}

/// Bounds of the buckets, in ms.
const BUCKETS_MS: [f64; 14] = [
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0,
];

fn response_seconds((service, server, latencies): &(String, String, Histogram)) -> Metric {
    let buckets = BUCKETS_MS.iter().map(|bound| {
        let below = latencies.buckets().filter(|(bucket, _)| {
            (*Histogram::bucket_bounds(*bucket).start() as f64) < bound * 1e6
        });
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound / 1e3);
        bucket.set_cumulative_count(below.map(|(_, count)| count).sum());
        bucket
    });
    let count = latencies.count();
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(count);
    histogram.set_sample_sum(latencies.mean().unwrap_or(0) as f64 * count as f64 / 1e9);
    let labels = vec![
        label("service", service.as_str()),
        label("server", server.as_str()),
    ];
    let mut metric = Metric::from_label(labels);
    metric.set_histogram(histogram);
    metric
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use fathom_balance::health::State;
    use fathom_record::Time;

    use super::*;

    #[test]
    fn the_page_reads_like_this() {
        let server = BalanceServer {
            time: Time(0),
            server: "web1".into(),
            address: [10, 0, 0, 1].into(),
            encapsulation: "ipip",
            check: None,
            state: State::Unhealthy,
            weight: 1.5,
            connections: 3,
            packets: 100,
            bytes: 5000,
            problem: None,
        };
        let mut waits = Histogram::default();
        waits.record_many(3_000_000, 7);
        waits.record(30_000_000);
        let latencies = [("web".to_owned(), "web1".to_owned(), waits)];
        let page = page(
            &[],
            &[server],
            &[],
            &latencies,
            &[("connections replaced: idle", 7)],
        )
        .unwrap();
        for line in [
            "# HELP fathom_balance_server_packets_total Packets.",
            "# TYPE fathom_balance_server_packets_total counter",
            "fathom_balance_server_packets_total{server=\"web1\",address=\"10.0.0.1\"} 100",
            "fathom_balance_server_up{server=\"web1\",address=\"10.0.0.1\"} 0",
            "fathom_balance_server_weight{server=\"web1\",address=\"10.0.0.1\"} 1.5",
            "# TYPE fathom_balance_response_seconds histogram",
            "fathom_balance_response_seconds_bucket{service=\"web\",server=\"web1\",le=\"0.0025\"} 0",
            "fathom_balance_response_seconds_bucket{service=\"web\",server=\"web1\",le=\"0.005\"} 7",
            "fathom_balance_response_seconds_bucket{service=\"web\",server=\"web1\",le=\"+Inf\"} 8",
            "fathom_balance_response_seconds_count{service=\"web\",server=\"web1\"} 8",
            "fathom_balance_count_total{name=\"connections replaced: idle\"} 7",
        ] {
            assert!(page.lines().any(|own| own == line), "{line}\n{page}");
        }
    }

    #[test]
    fn a_family_is_a_field_that_says_so() {
        let families = |schema: &Schema| {
            let metrics = schema
                .fields
                .iter()
                .filter(|field| matches!(field.metric, Some(Role::Counter | Role::Gauge)));
            metrics
                .map(|field| family_name(schema, field))
                .collect::<Vec<_>>()
        };
        let service = ["packets", "bytes", "connections", "hits", "misses"]
            .map(|name| format!("service_{name}_total"));
        assert_eq!(families(BalanceService::SCHEMA), service);
        let server = ["weight", "connections", "packets_total", "bytes_total"]
            .map(|name| format!("server_{name}"));
        assert_eq!(families(BalanceServer::SCHEMA), server);
        let weight = ["share", "latency_seconds", "waiting_flows"];
        assert_eq!(families(BalanceWeight::SCHEMA), weight);
    }

    #[test]
    fn the_page_is_served() {
        let metrics = Metrics::serve("127.0.0.1:0".parse().unwrap()).unwrap();
        metrics.set("figure 1\n".to_owned());
        let mut stream = TcpStream::connect(metrics.address().unwrap()).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains("version=0.0.4") && answer.ends_with("\r\n\r\nfigure 1\n"),
            "{answer}"
        );
    }
}
