//! TLS of those who send by HTTP: which files it needs, and what went wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// The PEM files that TLS needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    /// What the server's certificate must be signed by.
    pub(crate) authority: PathBuf,
    /// The certificate of this host, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// Of a URL with this scheme, and what follows its `?`, as in `ca=FILE&cert=FILE&key=FILE`;
    /// `None`: it is without TLS.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn of(scheme: &str, query: &str) -> Result<Option<Self>, String> {
        match scheme {
            "https" => Self::parse(query).map(Some),
            _ if query.is_empty() => Ok(None),
            _ => Err("what follows `?` is for https only".to_owned()),
        }
    }

    fn parse(query: &str) -> Result<Self, String> {
        let (mut authority, mut certificate, mut key) = (None, None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let file = match name {
                "ca" => &mut authority,
                "cert" => &mut certificate,
                "key" => &mut key,
                _ => return Err(format!("`{name}` is none of `ca`, `cert`, `key`")),
            };
            if value.is_empty() || file.replace(PathBuf::from(value)).is_some() {
                return Err(format!("`{name}` names no file, or two"));
            }
        }
        let identity = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            _ => return Err("`cert` and `key` go together".to_owned()),
        };
        let authority = authority.ok_or("https needs `?ca=FILE`, the certificates to trust")?;
        Ok(Self {
            authority,
            identity,
        })
    }

    /// What a client with these files does.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(crate) fn config(&self) -> anyhow::Result<TlsConfig> {
        let roots = certificates(&self.authority)?;
        let client = match &self.identity {
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                Some(ClientCert::new_with_certs(&chain, private_key(key)?))
            }
            None => None,
        };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .client_cert(client);
        Ok(tls.build())
    }
}

/// What went wrong, in words that say what to do.
pub(crate) fn explain(error: &ureq::Error) -> String {
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
        return format!("{text}: the server does not trust the certificate of &cert=FILE");
    }
    if text.contains("UnknownIssuer") || text.contains("BadSignature") {
        return format!("{text}: the server's certificate is not signed by one in ?ca=FILE");
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
        let item = item.with_context(|| format!("cannot read {}", path.display()))?;
        if let PemItem::Certificate(one) = item {
            all.push(one);
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
