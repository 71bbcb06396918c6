//! Figures for Prometheus, over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, anyhow};
use tiny_http::{Header, Method, Request, Response, Server};

use super::{Shared, native, text};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
/// So many can be answered at once: one that does not read its answer holds a thread.
const THREADS: usize = 4;

/// Serves what the series say when they are asked for.
pub(super) struct Page {
    server: Arc<Server>,
}

impl Page {
    /// Opens the address.
    ///
    /// # Errors
    /// When it is not free, or the system has no thread left.
    pub(super) fn serve(address: SocketAddr, registry: &Shared) -> anyhow::Result<Self> {
        let server = Server::http(address)
            .map_err(|error| anyhow!("cannot serve metrics at {address}: {error}"))?;
        let page = Self {
            server: Arc::new(server),
        };
        for _ in 0..THREADS {
            let (server, registry) = (page.server.clone(), registry.clone());
            thread::Builder::new()
                .name("metrics".to_owned())
                .spawn(move || {
                    for request in server.incoming_requests() {
                        answer(request, &registry);
                    }
                })
                .context("cannot start a thread that serves metrics")?;
        }
        Ok(page)
    }

    /// Where it is served.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        for _ in 0..THREADS {
            self.server.unblock();
        }
    }
}

fn answer(request: Request, registry: &Shared) {
    let is_known = matches!(request.url(), "/metrics" | "/");
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let (body, format, status) = match (is_known, is_read) {
        (false, _) => (Vec::new(), TEXT, 404),
        (_, false) => (Vec::new(), TEXT, 405),
        _ => page(&request, registry),
    };
    let mut response = Response::from_data(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", format) {
        response.add_header(header);
    }
    // A client that has gone away needs no answer.
    let _ = request.respond(response);
}

fn page(request: &Request, registry: &Shared) -> (Vec<u8>, &'static str, u16) {
    let families = {
        let mut registry = registry.lock();
        let mut families = registry.families();
        families.extend(registry.target_info());
        families
    };
    let headers = request.headers().iter();
    let accepted = headers.filter(|header| header.field.equiv("Accept"));
    if accepted.map(|it| it.value.as_str()).any(prefers_protobuf) {
        return (native::page(&families), PROTOBUF, 200);
    }
    match text::page(&families) {
        Ok(page) => (page, TEXT, 200),
        Err(error) => (format!("{error:#}\n").into_bytes(), TEXT, 500),
    }
}

/// Is it accepted, and not less than text?
fn prefers_protobuf(accepted: &str) -> bool {
    let weight_of = |is_wanted: fn(&str) -> bool| {
        let kinds = accepted.split(',').filter(|kind| is_wanted(kind));
        kinds.map(weight).reduce(f64::max)
    };
    let protobuf = weight_of(|kind| {
        kind.contains("application/vnd.google.protobuf")
            && kind.contains("io.prometheus.client.MetricFamily")
            && kind.contains("delimited")
    });
    let text = weight_of(|kind| kind.contains("text/plain")).unwrap_or(0.0);
    protobuf.is_some_and(|weight| weight > 0.0 && weight >= text)
}

fn weight(kind: &str) -> f64 {
    let mut parameters = kind.split(';').map(str::trim);
    let weight = parameters.find_map(|it| it.strip_prefix("q="));
    weight.and_then(|it| it.parse().ok()).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_read_native_histograms_gets_them() {
        // As Prometheus 2.42 and 3.5 ask, with native histograms and without.
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let text = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4";
        assert!(prefers_protobuf(&format!(
            "{protobuf},{text};q=0.5,*/*;q=0.1"
        )));
        assert!(prefers_protobuf(&format!("{protobuf};q=0.6,{text};q=0.3")));
        for other in [
            format!("{text};q=0.5,{protobuf};q=0.1"),
            format!("{text};q=0.5,*/*;q=0.1"),
            format!("{protobuf};q=0"),
            "*/*".to_owned(),
        ] {
            assert!(!prefers_protobuf(&other), "{other}");
        }
    }
}
