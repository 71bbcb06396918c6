//! What networks are called.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{Error, Network};

/// Names of networks. Of those that hold an address, the one with the longest prefix names it.
///
/// ```
/// use fathom_record::NetworkNames;
///
/// let names = NetworkNames::parse("10.0.0.0/8,office\n10.7.0.0/16,\"lab, first floor\"\n").unwrap();
/// assert_eq!(names.of("10.7.1.1".parse().unwrap()), Some("lab, first floor"));
/// assert_eq!(names.of("10.8.1.1".parse().unwrap()), Some("office"));
/// assert_eq!(names.of("192.0.2.1".parse().unwrap()), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkNames {
    names: HashMap<Network, Arc<str>>,
    /// Lengths of prefixes of IPv4 and IPv6 that there are, the longest first.
    lengths: [Vec<u8>; 2],
}

impl NetworkNames {
    /// Reads a table in CSV (RFC 4180): a network and its name a line. A first line of
    /// `prefix,name`, empty lines and lines that begin with `#` are passed over.
    ///
    /// # Errors
    /// [`Error::NetworkName`] for a line that is none of these, or names a network a second time.
    pub fn parse(table: &str) -> Result<Self, Error> {
        let mut names = Self::default();
        for (index, line) in table.lines().enumerate() {
            let line = line.trim();
            let is_header = index == 0 && line.eq_ignore_ascii_case("prefix,name");
            if line.is_empty() || line.starts_with('#') || is_header {
                continue;
            }
            let added = row(line).and_then(|(network, name)| names.add(network, name));
            added.map_err(|why| Error::NetworkName {
                line: index + 1,
                why,
            })?;
        }
        for lengths in &mut names.lengths {
            lengths.sort_unstable_by(|one, other| other.cmp(one));
        }
        Ok(names)
    }

    fn add(&mut self, network: Network, name: String) -> Result<(), String> {
        if self.names.insert(network, name.into()).is_some() {
            return Err(format!("{network} has a name already"));
        }
        let lengths = &mut self.lengths[usize::from(network.address().is_ipv6())];
        if !lengths.contains(&network.prefix_length()) {
            lengths.push(network.prefix_length());
        }
        Ok(())
    }

    /// The name of the network that an address is in; `None`: it is in none that has one.
    pub fn of(&self, address: IpAddr) -> Option<&str> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let networks = lengths.iter().map(|&length| Network::new(address, length));
        let mut names = networks.filter_map(|network| self.names.get(&network.ok()?));
        names.next().map(|name| &**name)
    }
}

fn row(line: &str) -> Result<(Network, String), String> {
    let (network, name) = line.split_once(',').ok_or("it has no comma")?;
    let network = unquoted(network)?.parse();
    let network = network.map_err(|error: Error| error.to_string())?;
    match unquoted(name)? {
        name if name.is_empty() => Err("the name is empty".to_owned()),
        name if name.contains(char::is_control) => Err("a name has control characters".to_owned()),
        name => Ok((network, name)),
    }
}

/// What a field of a table says.
fn unquoted(field: &str) -> Result<String, String> {
    let field = field.trim();
    let Some(quoted) = field.strip_prefix('"') else {
        let is_plain = !field.contains([',', '"']);
        let plain = is_plain.then(|| field.to_owned());
        return plain.ok_or("a name with commas or quotes stands in quotes".to_owned());
    };
    let content = quoted.strip_suffix('"').ok_or("a quote is not closed")?;
    let unescaped = content.replace("\"\"", "\0");
    if unescaped.contains('"') {
        return Err("a quote within quotes is written twice".to_owned());
    }
    Ok(unescaped.replace('\0', "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_names_an_address() {
        let table = "Prefix,Name\n# the branches\n\n0.0.0.0/0,elsewhere\n10.1.0.0/16,\"Köln \"\"a\"\"\"\r\n\
            10.1.2.0/24, lab \n10.1.2.3,printer\n2001:db8::/32,six\n";
        let names = NetworkNames::parse(table).unwrap();
        for (address, name) in [
            ("10.1.2.3", Some("printer")),
            ("10.1.2.4", Some("lab")),
            ("10.1.3.4", Some("Köln \"a\"")),
            ("10.2.0.1", Some("elsewhere")),
            ("2001:db8::1", Some("six")),
            ("2001:db9::1", None),
        ] {
            assert_eq!(names.of(address.parse().unwrap()), name, "{address}");
        }
        assert_eq!(NetworkNames::default().of([10, 1, 2, 3].into()), None);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        for (table, reason) in [
            ("10.0.0.0/8", "line 1: it has no comma"),
            ("10.0.0.0/8,a\nprefix,name", "line 2: `prefix` is not"),
            ("10.0.0.0/33,a", "line 1: a prefix of 33 bits"),
            ("10.0.0.0/8,", "the name is empty"),
            ("10.0.0.0/8,a\u{1f}", "control characters"),
            ("10.0.0.0/8,a,b", "in quotes"),
            ("10.0.0.0/8,\"a", "not closed"),
            ("10.0.0.0/8,\"a\"b\"", "written twice"),
            (
                "10.0.0.0/8,a\n10.1.0.0/8,b",
                "line 2: 10.0.0.0/8 has a name",
            ),
        ] {
            let told = NetworkNames::parse(table).unwrap_err().to_string();
            assert!(told.contains(reason), "{table}: {told}");
        }
    }
}
