//! Whose latency is explained.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use datafusion::scalar::ScalarValue;

/// Whose latency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A flow, by its Community ID.
    Id(String),
    /// Flows between two ends, in either direction.
    Ends(End, End),
    /// All flows of a host: an address, or the name of one that measures.
    Host(String),
    /// All flows to a server's port, or to all servers with that port.
    Service(End),
}

/// An end of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no end of a flow: say ADDRESS:PORT, ADDRESS, or :PORT, an IPv6 address before a port in brackets"
            )
        };
        let port = |text: &str| text.parse().map(Some).map_err(|_| wrong());
        if let Ok(address) = text.parse() {
            return Ok(Self {
                address: Some(address),
                port: None,
            });
        }
        let (address, number) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = address.trim_start_matches('[').trim_end_matches(']');
        let address = match bare {
            "" | "*" => None,
            address => Some(address.parse().map_err(|_| wrong())?),
        };
        Ok(Self {
            address,
            port: port(number)?,
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (Some(IpAddr::V6(address)), Some(port)) => write!(to, "[{address}]:{port}"),
            (Some(address), Some(port)) => write!(to, "{address}:{port}"),
            (Some(address), None) => write!(to, "{address}"),
            (None, Some(port)) => write!(to, ":{port}"),
            (None, None) => write!(to, "*"),
        }
    }
}

impl Subject {
    /// A flow: a Community ID, or two ends with a blank, a comma or `-` between.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn flow(text: &str) -> Result<Self, String> {
        if let Some(hash) = text.strip_prefix("1:")
            && hash.len() == 28
        {
            return Ok(Self::Id(text.to_owned()));
        }
        let mut ends = text.split([' ', ',', '-']).filter(|end| !end.is_empty());
        match (ends.next(), ends.next(), ends.next()) {
            (Some(one), Some(other), None) => Ok(Self::Ends(one.parse()?, other.parse()?)),
            _ => Err(format!(
                "`{text}` is no flow: say its Community ID (1:…), or both ends, as in 192.0.2.7:40312-198.51.100.1:443"
            )),
        }
    }

    /// What a row must be to belong to it, and the parameters of that, from $3 on: $1 and $2 are
    /// the range of time.
    pub(super) fn condition(&self) -> (String, Vec<ScalarValue>) {
        let mut values = Vec::new();
        let sql = match self {
            Self::Id(id) => {
                values.push(ScalarValue::from(id.as_str()));
                "community_id = $3".to_owned()
            }
            Self::Host(name) => {
                values.push(ScalarValue::from(name.as_str()));
                match name.parse::<IpAddr>() {
                    Ok(_) => "(source = $3 OR destination = $3)".to_owned(),
                    Err(_) => "host = $3".to_owned(),
                }
            }
            Self::Service(end) => {
                let end = end.numbered(&mut values);
                format!("(({}) OR ({}))", end.is("destination"), end.is("source"))
            }
            Self::Ends(one, other) => {
                let (one, other) = (one.numbered(&mut values), other.numbered(&mut values));
                let way = |from: &Numbered, to: &Numbered| {
                    format!("({} AND {})", from.is("source"), to.is("destination"))
                };
                format!("({} OR {})", way(&one, &other), way(&other, &one))
            }
        };
        (sql, values)
    }
}

/// An end with the numbers of its parameters.
struct Numbered {
    address: Option<usize>,
    port: Option<usize>,
}

impl End {
    fn numbered(self, values: &mut Vec<ScalarValue>) -> Numbered {
        let mut put = |value: ScalarValue| {
            values.push(value);
            values.len() + 2
        };
        Numbered {
            address: self
                .address
                .map(|it| put(ScalarValue::from(it.to_string()))),
            port: self.port.map(|port| put(ScalarValue::UInt16(Some(port)))),
        }
    }
}

impl Numbered {
    fn is(&self, side: &str) -> String {
        match (self.address, self.port) {
            (Some(address), Some(port)) => {
                format!("{side} = ${address} AND {side}_port = ${port}")
            }
            (Some(address), None) => format!("{side} = ${address}"),
            (None, Some(port)) => format!("{side}_port = ${port}"),
            (None, None) => "true".to_owned(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(to, "flow {id}"),
            Self::Ends(one, other) => write!(to, "flow {one} - {other}"),
            Self::Host(host) => write!(to, "host {host}"),
            Self::Service(end) => write!(to, "service {end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_are_shown() {
        for text in [
            "192.0.2.1:80",
            "192.0.2.1",
            ":443",
            "[2001:db8::1]:53",
            "2001:db8::1",
        ] {
            assert_eq!(text.parse::<End>().unwrap().to_string(), text);
        }
        assert!("server:http".parse::<End>().is_err());
        assert!("192.0.2.1:70000".parse::<End>().is_err());
    }

    #[test]
    fn a_flow_is_an_id_or_two_ends_in_either_direction() {
        let id = "1:LQU9qZlK+B5F3KDmev6m5PMibrg=";
        assert_eq!(Subject::flow(id), Ok(Subject::Id(id.to_owned())));
        let ends = Subject::flow("192.0.2.7:40312-198.51.100.1").unwrap();
        let (condition, values) = ends.condition();
        assert_eq!(
            condition,
            "((source = $3 AND source_port = $4 AND destination = $5) OR (source = $5 AND destination = $3 AND destination_port = $4))"
        );
        assert_eq!(values.len(), 3);
        assert!(Subject::flow("192.0.2.7").is_err());
    }

    #[test]
    fn a_host_is_an_address_or_who_observes() {
        assert_eq!(Subject::Host("db3".into()).condition().0, "host = $3");
        let address = Subject::Host("10.0.0.1".into()).condition().0;
        assert_eq!(address, "(source = $3 OR destination = $3)");
    }
}
