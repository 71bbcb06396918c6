//! The names that vectors give to addresses and ports.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::words::{Problem, Words};

/// The hosts that every vector knows; `host` lines add to them, or change them.
const KNOWN: [(&str, &str); 10] = [
    ("client", "10.0.0.1:40000"),
    ("server", "192.0.2.1:443"),
    ("web", "192.0.2.1:80"),
    ("resolver", "192.0.2.53:53"),
    ("client6", "[2001:db8::1]:40000"),
    ("server6", "[2001:db8:1::1]:443"),
    ("west", "172.16.0.1:0"),
    ("east", "172.16.0.2:0"),
    ("west6", "[fd00::1]:0"),
    ("east6", "[fd00::2]:0"),
];

/// Addresses and ports by name.
#[derive(Debug, Clone)]
pub(crate) struct Hosts(HashMap<String, SocketAddr>);

/// Where a packet comes from and where it goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

impl Default for Hosts {
    fn default() -> Self {
        let known = KNOWN.iter().map(|(name, address)| {
            let address = address
                .parse()
                .unwrap_or_else(|_| panic!("{address} is an address"));
            ((*name).to_owned(), address)
        });
        Self(known.collect())
    }
}

impl Hosts {
    /// Reads `NAME ADDRESS` or `NAME ADDRESS:PORT`.
    pub(crate) fn add(&mut self, words: &mut Words<'_>) -> Result<(), Problem> {
        let name = words.expect("name of a host")?;
        let text = words.expect("address")?;
        let address = text
            .parse::<SocketAddr>()
            .or_else(|_| {
                text.parse::<IpAddr>()
                    .map(|address| SocketAddr::new(address, 0))
            })
            .map_err(|_| format!("\"{text}\" is no address"))?;
        self.0.insert(name.to_owned(), address);
        Ok(())
    }

    /// Reads `A > B`.
    pub(crate) fn ends(&self, words: &mut Words<'_>) -> Result<Ends, Problem> {
        let source = self.host(words)?;
        if !words.take(">") {
            return Err("\">\" is missing between two hosts".to_owned());
        }
        Ok(Ends {
            source,
            destination: self.host(words)?,
        })
    }

    fn host(&self, words: &mut Words<'_>) -> Result<SocketAddr, Problem> {
        let name = words.expect("name of a host")?;
        self.0
            .get(name)
            .copied()
            .ok_or_else(|| format!("there is no host \"{name}\""))
    }
}
