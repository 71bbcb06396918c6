//! Figures for Prometheus: text format 0.0.4, over HTTP.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::anyhow;
use fathom_balance::record::{BalanceServer, BalanceService, BalanceWeight};
use fathom_record::{Histogram, Record, Value};
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
                    // Whoever has gone away needs no answer.
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

/// Everything on one page.
pub(super) fn page(
    services: &[BalanceService],
    servers: &[BalanceServer],
    weights: &[BalanceWeight],
    latencies: &[(String, String, Histogram)],
    counts: &[(&'static str, u64)],
) -> String {
    let mut page = Page::default();
    let by_service = |it: &BalanceService| vec![("service", it.service.to_string())];
    let fields = ["packets", "bytes", "connections", "hits", "misses"].map(|name| (name, COUNTER));
    put_fields(&mut page, "service_", &fields, services, by_service);
    servers_on(&mut page, servers);
    let by_both = |it: &BalanceWeight| {
        vec![
            ("service", it.service.to_string()),
            ("server", it.server.to_string()),
        ]
    };
    let fields = ["share", "latency_ns", "waiting_flows"].map(|name| (name, GAUGE));
    put_fields(&mut page, "", &fields, weights, by_both);
    latencies_on(&mut page, latencies);
    page.family(
        "count_total",
        COUNTER,
        "What happened to packets and connections, by name.",
    );
    for (name, count) in counts {
        page.sample("count_total", &[("name", name)], *count as f64);
    }
    page.0
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// A family for each of these fields of records: its name is the field's, in seconds where that is in nanoseconds, and its help is what the
/// declaration says.
fn put_fields<R: Record>(
    page: &mut Page,
    prefix: &str,
    fields: &[(&str, &str)],
    records: &[R],
    labels: impl Fn(&R) -> Vec<(&'static str, String)>,
) {
    let Some(schema) = records.first().map(Record::schema) else {
        return;
    };
    for (name, kind) in fields {
        let Some(index) = schema.position(name) else {
            continue;
        };
        let stem = match name.strip_suffix("_ns") {
            Some(stem) => format!("{prefix}{stem}_seconds"),
            None => format!("{prefix}{name}"),
        };
        let family = if *kind == COUNTER {
            format!("{stem}_total")
        } else {
            stem
        };
        page.family(&family, kind, schema.fields[index].about);
        for record in records {
            let value = match record.value(index) {
                Value::Unsigned(number) => number as f64,
                Value::Float(number) => number,
                Value::Duration(ns) => ns as f64 / 1e9,
                _ => continue,
            };
            let labels = labels(record);
            let labels: Vec<_> = labels.iter().map(|(key, text)| (*key, &**text)).collect();
            page.sample(&family, &labels, value);
        }
    }
}

fn servers_on(page: &mut Page, servers: &[BalanceServer]) {
    let labels = |it: &BalanceServer| {
        vec![
            ("server", it.server.to_string()),
            ("address", it.address.to_string()),
        ]
    };
    let fields = [
        ("packets", COUNTER),
        ("bytes", COUNTER),
        ("connections", GAUGE),
        ("weight", GAUGE),
    ];
    put_fields(page, "server_", &fields, servers, labels);
    page.family("server_up", GAUGE, "1: it is healthy and can be reached.");
    for server in servers {
        let is_up = !matches!(server.state, "unhealthy" | "unreachable");
        let labels = [
            ("server", &*server.server),
            ("address", &server.address.to_string()),
        ];
        page.sample("server_up", &labels, f64::from(u8::from(is_up)));
    }
}

/// Bounds of the buckets, in ms.
const BUCKETS_MS: [f64; 14] = [
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 10_000.0,
];

fn latencies_on(page: &mut Page, latencies: &[(String, String, Histogram)]) {
    let name = "response_seconds";
    page.family(
        name,
        "histogram",
        "What clients waited for responses, averaged over epochs of a connection, since the process began.",
    );
    for (service, server, histogram) in latencies {
        let labels = [("service", service.as_str()), ("server", server.as_str())];
        for bound in BUCKETS_MS {
            let below = histogram.buckets().filter(|(bucket, _)| {
                (*Histogram::bucket_bounds(*bucket).start() as f64) < bound * 1e6
            });
            let count: u64 = below.map(|(_, count)| count).sum();
            let bound = (bound / 1e3).to_string();
            let [service, server] = labels;
            let bucket = format!("{name}_bucket");
            page.sample(&bucket, &[service, server, ("le", &bound)], count as f64);
        }
        let count = histogram.count() as f64;
        let sum = histogram.mean().unwrap_or(0) as f64 * count / 1e9;
        let [service, server] = labels;
        page.sample(
            &format!("{name}_bucket"),
            &[service, server, ("le", "+Inf")],
            count,
        );
        page.sample(&format!("{name}_sum"), &labels, sum);
        page.sample(&format!("{name}_count"), &labels, count);
    }
}

/// A page as it is written.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, about: &str) {
        // Writing to memory does not fail, here and below.
        let _ = writeln!(
            self.0,
            "# HELP fathom_balance_{name} {about}\n# TYPE fathom_balance_{name} {kind}"
        );
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let escaped = |text: &str| {
            text.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, text)| format!("{label}=\"{}\"", escaped(text)))
            .collect();
        let _ = writeln!(
            self.0,
            "fathom_balance_{name}{{{}}} {value}",
            labels.join(",")
        );
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

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
            state: "unhealthy",
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
        );
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
