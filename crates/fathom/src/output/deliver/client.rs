//! HTTP to the collector.

use std::time::Duration;

use ureq::Agent;

use super::receiver::{Failure, Receiver, Taken};
use crate::arguments::CollectorUrl;
use crate::tls::explain;

/// How long a connection may take to be made, and an answer to come: the collector syncs its disk
/// before.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// A connection that is kept, and made again where it ends.
pub(super) struct Client {
    agent: Agent,
    url: String,
}

impl Client {
    /// Reads the certificates that TLS needs.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(super) fn new(destination: &CollectorUrl) -> anyhow::Result<Self> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("fathom/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(ANSWER));
        if let Some(files) = &destination.tls {
            config = config.tls_config(files.config()?);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url: format!("{destination}/records"),
        })
    }

    /// Why a body could not be sent. A collector that refuses a certificate closes the connection
    /// while the body is written: what it has said is read by a request that has none.
    fn reason(&self, error: &ureq::Error) -> String {
        if self.url.starts_with("https:")
            && matches!(error, ureq::Error::Io(_))
            && let Err(said @ (ureq::Error::Rustls(_) | ureq::Error::Io(_))) =
                self.agent.get(&self.url).call()
        {
            return explain(&said);
        }
        explain(error)
    }
}

impl Receiver for Client {
    fn send(&mut self, batches: &[u8]) -> Result<Taken, Failure> {
        let sent = self.agent.post(&self.url).send(batches);
        let mut answer = sent.map_err(|error| Failure::Away(self.reason(&error)))?;
        let words = answer.body_mut().read_to_string();
        let words = words.map_err(|error| Failure::Away(explain(&error)))?;
        let words = words.trim().chars().take(500).collect::<String>();
        match answer.status().as_u16() {
            // The collector counts what it refuses of these.
            200 => Ok(Taken {
                refused_rows: 0,
                words: words.contains("refused").then_some(words),
            }),
            400 | 413 => Err(Failure::Refused(words)),
            503 => Err(Failure::Away(words)),
            other => Err(Failure::Away(format!(
                "it answers {other}, so it may be no collector of fathom's: {words}"
            ))),
        }
    }
}
