//! HTTP to the collector.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::arguments::CollectorUrl;

/// How long a connection may take to be made, and an answer to come: the collector syncs its disk
/// before.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// Why a body was not acknowledged.
#[derive(Debug)]
pub(super) enum Failure {
    /// It never will be.
    Refused(String),
    /// It may be later.
    Away(String),
}

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
            let roots = certificates(&files.authority)?;
            let client = match &files.identity {
                Some((certificate, key)) => {
                    let chain = certificates(certificate)?;
                    Some(ClientCert::new_with_certs(&chain, private_key(key)?))
                }
                None => None,
            };
            let tls = TlsConfig::builder()
                .root_certs(RootCerts::Specific(Arc::new(roots)))
                .client_cert(client);
            config = config.tls_config(tls.build());
        }
        Ok(Self {
            agent: config.build().new_agent(),
            url: format!("{destination}/records"),
        })
    }

    /// Sends a body, and waits until the collector has kept it. Gives what the collector says of
    /// records that it has not.
    pub(super) fn post(&self, body: &[u8]) -> Result<Option<String>, Failure> {
        let sent = self.agent.post(&self.url).send(body);
        let mut answer = sent.map_err(|error| Failure::Away(self.reason(&error)))?;
        let words = answer.body_mut().read_to_string();
        let words = words.map_err(|error| Failure::Away(explain(&error)))?;
        let words = words.trim().chars().take(500).collect::<String>();
        match answer.status().as_u16() {
            200 => Ok(words.contains("refused").then_some(words)),
            400 | 413 => Err(Failure::Refused(words)),
            503 => Err(Failure::Away(words)),
            other => Err(Failure::Away(format!(
                "it answers {other}, so it may be no collector of fathom's: {words}"
            ))),
        }
    }
}

impl Client {
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

/// What went wrong, in words that say what to do.
fn explain(error: &ureq::Error) -> String {
    let text = match error {
        ureq::Error::Timeout(_) => "it does not answer".to_owned(),
        ureq::Error::HostNotFound => "its name has no address".to_owned(),
        other => other.to_string(),
    };
    let text = text.strip_prefix("io: ").unwrap_or(&text).to_owned();
    if text.contains("CertificateRequired") || text.contains("certificate required") {
        return format!("{text}: name a certificate with &cert=FILE&key=FILE");
    }
    // The alerts by which servers refuse certificates of clients.
    let refusals = [
        "UnknownCA",
        "DecryptError",
        "BadCertificate",
        "CertificateUnknown",
    ];
    if refusals.iter().any(|alert| text.contains(alert)) {
        return format!("{text}: the collector does not trust the certificate of &cert=FILE");
    }
    if text.contains("UnknownIssuer") || text.contains("BadSignature") {
        return format!("{text}: the collector's certificate is not signed by one in ?ca=FILE");
    }
    text
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn certificates(path: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let bytes = read(path)?;
    let mut all = Vec::new();
    for item in parse_pem(&bytes) {
        match item.with_context(|| format!("cannot read {}", path.display()))? {
            PemItem::Certificate(one) => all.push(one),
            _ => {}
        }
    }
    if all.is_empty() {
        return Err(anyhow!("there is no certificate in {}", path.display()));
    }
    Ok(all)
}

fn private_key(path: &Path) -> anyhow::Result<PrivateKey<'static>> {
    let key = PrivateKey::from_pem(&read(path)?);
    key.with_context(|| format!("there is no private key in {}", path.display()))
}
