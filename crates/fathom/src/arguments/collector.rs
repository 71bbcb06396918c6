//! Collectors of any kind, as URLs.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use fathom_ipfix::Destination;

/// The port of `fathom collect`, unless the URL says another.
const PORT: u16 = 4741;

/// Where records are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExportTarget {
    /// Any collector, by IPFIX.
    Ipfix(Destination),
    /// A collector of fathom's, which acknowledges.
    Collector(CollectorUrl),
}

/// `https://HOST:PORT?ca=FILE&cert=FILE&key=FILE`, or `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectorUrl {
    /// The name or address, with the port.
    authority: String,
    pub(crate) tls: Option<ClientFiles>,
}

/// The PEM files that TLS needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    /// What the collector's certificate must be signed by.
    pub(crate) authority: PathBuf,
    /// The certificate of this host, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl CollectorUrl {
    /// A name for the directory of what waits for it.
    pub(crate) fn directory(&self) -> String {
        self.authority
            .replace(|it: char| !it.is_ascii_alphanumeric() && it != '.', "_")
    }

    fn parse(scheme: &str, rest: &str) -> Result<Self, String> {
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = authority.trim_end_matches('/');
        if authority.is_empty() || authority.contains('/') {
            return Err("write it as in https://HOST:PORT?ca=FILE".to_owned());
        }
        let after_address = authority
            .rsplit_once(']')
            .map_or(authority, |(_, after)| after);
        let authority = match after_address.rsplit_once(':') {
            None => format!("{authority}:{PORT}"),
            Some((_, port)) if port.parse().is_ok_and(|port: u16| port > 0) => authority.to_owned(),
            Some((_, port)) => return Err(format!("`{port}` is no port")),
        };
        let tls = match scheme {
            "https" => Some(ClientFiles::parse(query)?),
            _ if query.is_empty() => None,
            _ => return Err("what follows `?` is for https only".to_owned()),
        };
        Ok(Self { authority, tls })
    }
}

impl ClientFiles {
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
}

impl FromStr for ExportTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some((scheme @ ("https" | "http"), rest)) => {
                CollectorUrl::parse(scheme, rest).map(Self::Collector)
            }
            _ => {
                let parsed = text.parse().map(Self::Ipfix);
                parsed.map_err(|error: fathom_ipfix::Error| error.to_string())
            }
        }
    }
}

impl fmt::Display for CollectorUrl {
    /// The URL without its files.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(formatter, "{scheme}://{}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(text: &str) -> CollectorUrl {
        match text.parse() {
            Ok(ExportTarget::Collector(url)) => url,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn urls_are_read_and_shown() {
        let plain = collector("http://10.0.0.1:80/");
        assert_eq!(plain.to_string(), "http://10.0.0.1:80");
        assert_eq!(plain.directory(), "10.0.0.1_80");
        let tls = collector("https://[::1]?ca=a.pem&cert=c.pem&key=k.pem");
        assert_eq!(tls.to_string(), "https://[::1]:4741");
        assert_eq!(tls.directory(), "___1__4741");
        let identity = Some(("c.pem".into(), "k.pem".into()));
        let authority = "a.pem".into();
        assert_eq!(
            tls.tls,
            Some(ClientFiles {
                authority,
                identity
            })
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("https://x", "?ca=FILE"),
            ("https://x?ca=a&cert=c", "go together"),
            ("https://x?ca", "names no file"),
            ("https://x?ca=a&speed=1", "`speed` is none"),
            ("http://x?ca=a", "https only"),
            ("http://x:0", "`0` is no port"),
            ("http://", "HOST:PORT"),
            ("http://x/records", "HOST:PORT"),
            ("ftp://x", "`ftp` is not one of"),
        ] {
            let error = text.parse::<ExportTarget>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
