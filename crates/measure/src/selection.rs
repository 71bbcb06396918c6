//! Which flows are measured at all, and how many at a time.

use fathom_record::{Network, Protocol};
use std::net::IpAddr;

use crate::Error;
use crate::flow::{flow_address_of, words_of};
use crate::native::{self, selection, selection_network};

/// Which flows are measured: decided in the kernel, before any state is touched. Empty lists select
/// everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// One end must be in one of these; at most 16.
    pub networks: Vec<Network>,
    /// Neither end may be in any of these; at most 16.
    pub excluded: Vec<Network>,
    /// One end must have one of these ports; at most 16.
    pub ports: Vec<u16>,
    /// The transport must be one of these; at most 8.
    pub protocols: Vec<Protocol>,
}

/// Which packets are measured, and how many flows are kept at a time. Measurements that share
/// their programs have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Of which flows.
    pub selection: Selection,
    /// Look into tunnels: the flow is the innermost.
    pub has_tunnels: bool,
    /// Flows that have state at the same time. When full, those that were not used again go first.
    pub flows: u32,
}

impl Scope {
    /// For a live interface: all packets.
    pub fn live() -> Self {
        Self {
            selection: Selection::default(),
            has_tunnels: true,
            flows: 65_536,
        }
    }

    /// For capture files: all packets.
    pub fn files() -> Self {
        Self {
            flows: 1_048_576,
            ..Self::live()
        }
    }
}

impl Selection {
    /// `None` if it selects everything; see [`Selection::to_native`].
    pub(crate) fn to_native_unless_empty(&self) -> Result<Option<selection>, Error> {
        let is_empty = self.networks.is_empty()
            && self.excluded.is_empty()
            && self.ports.is_empty()
            && self.protocols.is_empty();
        if is_empty {
            Ok(None)
        } else {
            self.to_native().map(Some)
        }
    }

    /// As the C side takes it.
    ///
    /// # Errors
    /// [`Error::TooMany`] when a list is longer than the kernel's program has room for.
    pub(crate) fn to_native(&self) -> Result<selection, Error> {
        Ok(selection {
            networks: fill(self.networks.iter().copied().map(to_network), "networks")?,
            excluded: fill(
                self.excluded.iter().copied().map(to_network),
                "excluded networks",
            )?,
            ports: fill(self.ports.iter().copied(), "ports")?,
            protocols: fill(
                self.protocols.iter().map(|protocol| protocol.0),
                "protocols",
            )?,
            network_count: self.networks.len() as u32,
            excluded_count: self.excluded.len() as u32,
            port_count: self.ports.len() as u32,
            protocol_count: self.protocols.len() as u32,
        })
    }
}

fn fill<T: Default + Copy, const ROOM: usize>(
    values: impl ExactSizeIterator<Item = T>,
    what: &'static str,
) -> Result<[T; ROOM], Error> {
    let given = values.len();
    if given > ROOM {
        return Err(Error::TooMany {
            what,
            given,
            room: ROOM,
        });
    }
    let mut filled = [T::default(); ROOM];
    for (target, value) in filled.iter_mut().zip(values) {
        *target = value;
    }
    Ok(filled)
}

fn to_network(network: Network) -> selection_network {
    let prefix = match network.address() {
        IpAddr::V4(_) => u32::from(network.prefix_length()) + 96,
        IpAddr::V6(_) => u32::from(network.prefix_length()),
    };
    let bits = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    let mask = words_of(bits.to_be_bytes());
    let mut address = flow_address_of(network.address());
    address.words[0] &= mask[0];
    address.words[1] &= mask[1];
    selection_network {
        address,
        mask: native::flow_address { words: mask },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(low: &str, high: &str, port: u16) -> native::flow_key {
        let mut key = native::flow_key {
            low: flow_address_of(low.parse().unwrap()),
            high: flow_address_of(high.parse().unwrap()),
            low_port: port,
            ..native::flow_key::default()
        };
        key.set_protocol(6);
        key
    }

    #[test]
    fn networks_of_both_families_select() {
        let selection = Selection {
            networks: vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()],
            excluded: vec!["10.1.9.9/32".parse().unwrap()],
            ports: vec![443],
            protocols: vec![Protocol::TCP],
        }
        .to_native()
        .unwrap();
        let admits = |key: &native::flow_key| native::admits(&selection, key);
        assert!(admits(&key("10.1.2.3", "192.0.2.1", 443)));
        assert!(admits(&key("192.0.2.1", "fd00::1", 443)));
        assert!(!admits(&key("10.1.2.3", "192.0.2.1", 80)));
        assert!(!admits(&key("10.2.2.3", "192.0.2.1", 443)));
        assert!(!admits(&key("10.1.2.3", "10.1.9.9", 443)));
        let mut udp = key("10.1.2.3", "192.0.2.1", 443);
        udp.set_protocol(17);
        assert!(!admits(&udp));
    }

    #[test]
    fn an_empty_selection_admits_everything() {
        let nothing = Selection::default().to_native().unwrap();
        assert!(native::admits(&nothing, &key("10.1.2.3", "fd00::1", 1)));
        let everything = Selection {
            networks: vec!["::/0".parse().unwrap()],
            ..Selection::default()
        };
        assert!(native::admits(
            &everything.to_native().unwrap(),
            &key("10.1.2.3", "10.2.2.2", 1)
        ));
    }

    #[test]
    fn too_long_lists_are_refused() {
        let selection = Selection {
            ports: (0..17).collect(),
            ..Selection::default()
        };
        assert!(matches!(
            selection.to_native(),
            Err(Error::TooMany {
                given: 17,
                room: 16,
                ..
            })
        ));
    }
}
