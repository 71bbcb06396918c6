//! Collectors of any kind, as URLs.

use std::fmt;
use std::str::FromStr;

use fathom_ipfix::Destination;

use crate::tls::ClientFiles;

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
        let tls = ClientFiles::of(scheme, query)?;
        Ok(Self { authority, tls })
    }
}

impl FromStr for ExportTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((scheme @ ("https" | "http"), rest)) = text.split_once("://") {
            return CollectorUrl::parse(scheme, rest).map(Self::Collector);
        }
        let parsed = text.parse().map(Self::Ipfix);
        parsed.map_err(|error: fathom_ipfix::Error| error.to_string())
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
