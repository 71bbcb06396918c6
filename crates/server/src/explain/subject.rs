//! Whose latency is explained.

use std::fmt;
use std::str::FromStr;

use datafusion::scalar::ScalarValue;
use fathom_record::Network;

/// Whose latency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A flow, by its Community ID.
    Id(String),
    /// Flows between two ends, in either direction.
    Ends(End, End),
    /// All flows that a host measured, by its name.
    Host(String),
    /// All flows of an address or a network.
    Network(Network),
    /// All flows to a server's port, or to all servers with that port.
    Service(End),
}

/// An end of flows: an address or a network, a port, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) network: Option<Network>,
    pub(crate) port: Option<u16>,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no end of a flow: say ADDRESS:PORT, ADDRESS, NETWORK/LENGTH or :PORT, an IPv6 address before a port in brackets"
            )
        };
        if let Ok(network) = text.parse() {
            return Ok(Self {
                network: Some(network),
                port: None,
            });
        }
        let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let network = match address.replace(['[', ']'], "").as_str() {
            "" | "*" => None,
            network => Some(network.parse().map_err(|_| wrong())?),
        };
        Ok(Self {
            network,
            port: Some(port.parse().map_err(|_| wrong())?),
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.network.map(|it| (shown(it), it.address().is_ipv6()));
        match (network, self.port) {
            (Some((network, true)), Some(port)) => write!(to, "[{network}]:{port}"),
            (Some((network, false)), Some(port)) => write!(to, "{network}:{port}"),
            (Some((network, _)), None) => write!(to, "{network}"),
            (None, Some(port)) => write!(to, ":{port}"),
            (None, None) => write!(to, "*"),
        }
    }
}

fn is_address(network: Network) -> bool {
    network == Network::from(network.address())
}

/// A network; an address without its length.
fn shown(network: Network) -> String {
    if is_address(network) {
        network.address().to_string()
    } else {
        network.to_string()
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

    /// A host: its address, its network, or the name by which it measures.
    ///
    /// # Errors
    /// A sentence for the user.
    pub(crate) fn host(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(network) => Ok(Self::Network(network)),
            // No name has that.
            Err(_) if text.contains('/') => Err(format!(
                "`{text}` is no network: say one such as 192.0.2.0/24"
            )),
            Err(_) => Ok(Self::Host(text.to_owned())),
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
                "host = $3".to_owned()
            }
            Self::Network(network) => {
                let end = End::from(*network).numbered(&mut values);
                format!("({} OR {})", end.is("source"), end.is("destination"))
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
    network: Option<(Network, usize)>,
    port: Option<usize>,
}

impl From<Network> for End {
    fn from(network: Network) -> Self {
        Self {
            network: Some(network),
            port: None,
        }
    }
}

impl End {
    fn numbered(self, values: &mut Vec<ScalarValue>) -> Numbered {
        let mut put = |value: ScalarValue| {
            values.push(value);
            values.len() + 2
        };
        Numbered {
            network: self
                .network
                .map(|it| (it, put(ScalarValue::from(shown(it))))),
            port: self.port.map(|port| put(ScalarValue::UInt16(Some(port)))),
        }
    }
}

impl Numbered {
    fn is(&self, side: &str) -> String {
        let network = self.network.map(|(network, number)| {
            if is_address(network) {
                format!("{side} = ${number}")
            } else {
                let length = network.prefix_length();
                format!("prefix({side}, {length}) = ${number}")
            }
        });
        let port = self.port.map(|port| format!("{side}_port = ${port}"));
        match (network, port) {
            (Some(network), Some(port)) => format!("{network} AND {port}"),
            (Some(one), None) | (None, Some(one)) => one,
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
            Self::Network(network) if is_address(*network) => {
                write!(to, "host {}", network.address())
            }
            Self::Network(network) => write!(to, "network {network}"),
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
            "192.0.2.0/24",
            "192.0.2.0/24:80",
            "[2001:db8::/32]:53",
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
    fn an_end_of_a_flow_may_be_a_network() {
        let flow = Subject::flow("10.78.0.0/16-198.51.100.1:443").unwrap();
        assert_eq!(
            flow.condition().0,
            "((prefix(source, 16) = $3 AND destination = $4 AND destination_port = $5) OR (source = $4 AND source_port = $5 AND prefix(destination, 16) = $3))"
        );
        assert_eq!(flow.to_string(), "flow 10.78.0.0/16 - 198.51.100.1:443");
    }

    #[test]
    fn a_host_is_an_address_a_network_or_who_observes() {
        let condition = |text| Subject::host(text).unwrap().condition().0;
        assert_eq!(condition("db3"), "host = $3");
        assert_eq!(condition("10.0.0.1"), "(source = $3 OR destination = $3)");
        assert_eq!(
            condition("10.0.0.0/8"),
            "(prefix(source, 8) = $3 OR prefix(destination, 8) = $3)"
        );
        assert!(Subject::host("10.0.0.0/40").is_err());
    }
}
