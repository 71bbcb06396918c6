//! By what sessions are told apart.

use std::str::FromStr;

/// By what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grouping {
    System,
    Family,
    Network,
    Interface,
    Service,
    Host,
    /// The label of a host with this name.
    Label(String),
}

const NAMES: &str = "asn, family, network, interface, service, host, or label=NAME";

impl FromStr for Grouping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "asn" => Self::System,
            "family" => Self::Family,
            "network" => Self::Network,
            "interface" => Self::Interface,
            "service" => Self::Service,
            "host" => Self::Host,
            _ => match text.split_once('=') {
                Some(("label", name)) if !name.is_empty() => Self::Label(name.to_owned()),
                _ => return Err(format!("it is none of {NAMES}")),
            },
        })
    }
}

impl Grouping {
    /// Its name on the command line.
    pub(super) fn name(&self) -> String {
        match self {
            Self::System => "asn".to_owned(),
            Self::Family => "family".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Interface => "interface".to_owned(),
            Self::Service => "service".to_owned(),
            Self::Host => "host".to_owned(),
            Self::Label(name) => format!("label={name}"),
        }
    }

    /// What it is, for people.
    pub(super) fn title(&self) -> String {
        match self {
            Self::System => "autonomous system of the other end".to_owned(),
            Self::Family => "IP version".to_owned(),
            Self::Network => "network of the other end".to_owned(),
            Self::Label(name) => format!("label {name} of the host"),
            other => other.name(),
        }
    }

    /// The group of a session, in SQL. The name of a label is the parameter of this number.
    pub(super) fn expression(&self, has_network_names: bool, parameter: usize) -> String {
        let fixed = match self {
            Self::System => {
                "'AS' || CAST(asn(remote) AS VARCHAR) || coalesce(' ' || as_name(remote), '')"
            }
            Self::Family => FAMILY,
            Self::Network if has_network_names => "network_name(remote)",
            Self::Network => {
                "prefix(remote, CASE WHEN strpos(remote, ':') > 0 THEN 48 ELSE 24 END)"
            }
            Self::Interface => "interface",
            Self::Service => "service",
            Self::Host => "host",
            Self::Label(_) => {
                return format!(
                    "(SELECT min(labels.value) FROM labels
                      WHERE labels.host = sessions.host AND labels.name = ${parameter})"
                );
            }
        };
        fixed.to_owned()
    }

    /// The name of the label, where it is one.
    pub(super) fn label(&self) -> Option<&str> {
        match self {
            Self::Label(name) => Some(name),
            _ => None,
        }
    }
}

/// The version of IP that a session is over.
pub(super) const FAMILY: &str = "CASE WHEN strpos(remote, ':') > 0 THEN 'IPv6' ELSE 'IPv4' END";
