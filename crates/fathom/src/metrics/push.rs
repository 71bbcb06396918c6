//! Metrics on their way to a receiver of OTLP. A thread of its own sends them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use fathom_record::Time;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use ureq::Agent;

use super::family::FamilyKind;
use super::registry::own_family;
use super::{Shared, otlp};
use crate::failure::say;
use crate::tls::{ClientFiles, explain};

/// A receiver that has not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses before what failed is tried again. What is given up then is not lost to sums: the next
/// request has all since the start.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// The path of metrics, where a URL has none (OTLP, "OTLP/HTTP Request").
const PATH: &str = "/v1/metrics";

/// What became of a request, or why it was not taken.
type Sent = Result<(), String>;

/// Sends metrics.
pub(super) struct Push {
    url: String,
    /// Taken by the end.
    thread: Option<(Sender<()>, JoinHandle<Sent>)>,
}

impl Push {
    /// Begins to.
    ///
    /// # Errors
    /// When this is no URL that can be sent to, a certificate cannot be read, or the system has no
    /// thread left.
    pub(super) fn start(
        url: &str,
        interval: Duration,
        host: &str,
        registry: Shared,
    ) -> anyhow::Result<Self> {
        let (url, files) = receiver(url)?;
        let mut config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .user_agent(concat!("fathom/", env!("CARGO_PKG_VERSION")));
        if let Some(files) = files {
            config = config.tls_config(files.config()?);
        }
        let (stop, stopped) = channel();
        let mut thread = Thread {
            url: url.clone(),
            host: host.to_owned(),
            begun: Time::now(),
            interval,
            registry,
            agent: config.build().into(),
            stopped,
            lost: 0,
            refused: 0,
            is_troubled: false,
        };
        let handle = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || thread.run())
            .context("cannot start a thread that sends metrics")?;
        Ok(Self {
            url,
            thread: Some((stop, handle)),
        })
    }

    /// Sends the last figures.
    ///
    /// # Errors
    /// When the receiver does not take them.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let Some((stop, thread)) = self.thread.take() else {
            return Ok(());
        };
        drop(stop);
        let sent = thread.join();
        let sent = sent.map_err(|_| anyhow!("the thread that sends metrics has failed"))?;
        sent.map_err(|error| anyhow!("{}: the last metrics are lost: {error}", self.url))
    }
}

/// The URL of metrics there, and the files that TLS needs.
fn receiver(text: &str) -> anyhow::Result<(String, Option<ClientFiles>)> {
    let what = || {
        format!(
            "{text} is no receiver of metrics: name one as http://HOST:4318 or https://HOST:4318?ca=FILE"
        )
    };
    let (scheme, rest) = text.split_once("://").with_context(what)?;
    if !matches!(scheme, "http" | "https") {
        bail!(what());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let files = ClientFiles::of(scheme, query);
    let files = files.map_err(|error| anyhow!("{text}: {error}"))?;
    let place = place.trim_end_matches('/');
    let path = if place.contains('/') { "" } else { PATH };
    Ok((format!("{scheme}://{place}{path}"), files))
}

struct Thread {
    url: String,
    host: String,
    begun: Time,
    interval: Duration,
    registry: Shared,
    agent: Agent,
    stopped: Receiver<()>,
    /// Requests that were given up.
    lost: u64,
    /// Data points that the receiver did not want.
    refused: u64,
    is_troubled: bool,
}

/// Why a request was not taken.
struct Failure {
    why: String,
    /// It may be taken later.
    is_passing: bool,
}

impl Thread {
    fn run(&mut self) -> Sent {
        loop {
            match self.stopped.recv_timeout(self.interval) {
                Err(RecvTimeoutError::Timeout) => {
                    let sent = self.send_patiently();
                    self.lost += u64::from(sent.is_err());
                    self.tell(sent);
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    return self.send().map_err(|failure| failure.why);
                }
            }
        }
    }

    fn send_patiently(&mut self) -> Sent {
        let mut sent = self.send();
        for pause in PAUSES {
            match sent {
                Err(failure) if failure.is_passing => {
                    if self.stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                        return Err(failure.why);
                    }
                    sent = self.send();
                }
                done => return done.map_err(|failure| failure.why),
            }
        }
        sent.map_err(|failure| failure.why)
    }

    fn send(&mut self) -> Result<(), Failure> {
        let (mut families, target) = {
            let mut registry = self.registry.lock();
            (registry.families(), registry.target().to_vec())
        };
        families.extend(self.own());
        let resource = otlp::resource(&self.host, &target);
        let request = otlp::request(&families, resource, self.begun, Time::now());
        let post = self.agent.post(&self.url);
        let post = post.header("Content-Type", "application/x-protobuf");
        let answer = post.send(&request.encode_to_vec()[..]);
        let mut answer = answer.map_err(|error| Failure {
            why: explain(&error),
            is_passing: true,
        })?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Failure {
                why: format!("it answers {status}"),
                // Those that OTLP says can be tried again.
                is_passing: matches!(status.as_u16(), 429 | 502 | 503 | 504),
            });
        }
        let body = answer.body_mut().read_to_vec().unwrap_or_default();
        // Who takes all need not say so.
        let answer = ExportMetricsServiceResponse::decode(&body[..]).unwrap_or_default();
        let refused = answer
            .partial_success
            .map_or(0, |it| it.rejected_data_points);
        self.refused += u64::try_from(refused).unwrap_or(0);
        Ok(())
    }

    /// What became of what was sent before.
    fn own(&self) -> [super::Family; 2] {
        [
            own_family(
                "fathom_otlp_requests_lost_total",
                FamilyKind::Counter,
                "Requests that the receiver of OTLP did not take; the next one had all in them.",
                [(Vec::new(), self.lost as f64)],
            ),
            own_family(
                "fathom_otlp_points_refused_total",
                FamilyKind::Counter,
                "Data points that the receiver of OTLP did not want.",
                [(Vec::new(), self.refused as f64)],
            ),
        ]
    }

    /// Says once when something fails, and once when it does not any more.
    fn tell(&mut self, sent: Sent) {
        let url = &self.url;
        match sent {
            Err(why) if !self.is_troubled => {
                self.is_troubled = true;
                say!("fathom: metrics are not taken by {url}: {why}; measuring goes on");
            }
            Ok(()) if self.is_troubled => {
                self.is_troubled = false;
                let lost = self.lost;
                say!("fathom: {url} takes metrics again, {lost} times late");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_path_of_metrics_or_its_own() {
        for (url, with) in [
            ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
            ("http://host:4318/", "http://host:4318/v1/metrics"),
            ("http://host/otlp/v1/metrics", "http://host/otlp/v1/metrics"),
            ("https://host?ca=a.pem", "https://host/v1/metrics"),
        ] {
            assert_eq!(receiver(url).unwrap().0, with);
        }
        let (_, files) = receiver("https://host/own?ca=a.pem").unwrap();
        assert_eq!(files.unwrap().authority.to_str(), Some("a.pem"));
        for (url, reason) in [
            ("host:4318", "http://HOST:4318"),
            ("https://host", "?ca=FILE"),
            ("http://host?ca=a.pem", "https only"),
        ] {
            let told = receiver(url).unwrap_err().to_string();
            assert!(told.contains(reason), "{told}");
        }
    }
}
