//! Servers of ClickHouse, as URLs.

use std::fmt;
use std::str::FromStr;

use crate::tls::ClientFiles;

const DATABASE: &str = "fathom";

/// `http://USER:PASSWORD@HOST:8123/DATABASE`, or the same with `https` and
/// `?ca=FILE&cert=FILE&key=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    /// As requests name it: with the password, and without a path.
    pub(super) root: String,
    /// The name or address, with the port if it has one.
    host: String,
    /// `fathom` unless the URL says another.
    pub(super) database: String,
    pub(super) tls: Option<ClientFiles>,
}

impl ServerUrl {
    /// A name for the directory of what waits for it.
    pub(super) fn directory(&self) -> String {
        let name = format!("clickhouse_{}_{}", self.host, self.database);
        name.replace(|it: char| !it.is_ascii_alphanumeric() && it != '.', "_")
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let what =
            || "name a server of ClickHouse as http://USER:PASSWORD@HOST:8123/DATABASE".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(what)?;
        if !matches!(scheme, "http" | "https") {
            return Err(what());
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
        let database = if database.is_empty() {
            DATABASE
        } else {
            database
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if host.is_empty() || !database.chars().all(is_name) {
            return Err(what());
        }
        Ok(Self {
            root: format!("{scheme}://{authority}/"),
            host: host.to_owned(),
            database: database.to_owned(),
            tls: ClientFiles::of(scheme, query)?,
        })
    }
}

/// Without user, password and files.
impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(formatter, "{scheme}://{}/{}", self.host, self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_without_the_password() {
        let plain: ServerUrl = "http://[::1]:8123".parse().unwrap();
        assert_eq!(plain.to_string(), "http://[::1]:8123/fathom");
        assert_eq!(plain.directory(), "clickhouse____1__8123_fathom");
        let tls: ServerUrl = "https://me:se@cret@host:8443/own?ca=a.pem".parse().unwrap();
        assert_eq!(tls.root, "https://me:se@cret@host:8443/");
        assert_eq!(tls.to_string(), "https://host:8443/own");
        assert_eq!(tls.tls.unwrap().authority.to_str(), Some("a.pem"));
        for (text, reason) in [
            ("host:8123", "name a server"),
            ("ftp://host", "name a server"),
            ("http://", "name a server"),
            ("http://host/a-b", "name a server"),
            ("https://host", "?ca=FILE"),
            ("http://host?ca=a.pem", "https only"),
        ] {
            let error = text.parse::<ServerUrl>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
