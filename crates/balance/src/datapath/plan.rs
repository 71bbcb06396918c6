//! Which number each server has, which entries and which part of the rings each service: what is
//! there stays where it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use fathom_measure::response::native::{address as address_of, flow_address};
use fathom_record::Network;

use crate::Error;
use crate::config::{Config, Service};
use crate::native::{BALANCE_NETWORK_PREFIX, BALANCE_RING_LANES};

/// An entry in the tables of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) network: Network,
    /// 0: all.
    pub(super) port: u16,
    pub(super) protocol: u8,
}

/// Where a service is in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// The index of its counters.
    pub(super) index: u16,
    /// In elements of the table of rings.
    pub(super) ring_begin: u32,
    /// Entries of the ring.
    pub(super) ring_size: u32,
}

/// What there is no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom(&'static str);

impl From<NoRoom> for Error {
    fn from(NoRoom(what): NoRoom) -> Self {
        Self::NoRoom { what }
    }
}

impl Entry {
    pub(super) fn of(service: &Service) -> Self {
        Self {
            network: service.network,
            port: service.port.unwrap_or(0),
            protocol: service.protocol.number(),
        }
    }

    /// The one that tells that the address is a service's at all.
    pub(super) fn of_echo(service: &Service) -> Self {
        const ICMP: u8 = 1;
        const ICMPV6: u8 = 58;
        Self {
            network: service.network,
            port: 0,
            protocol: if service.network.address().is_ipv4() {
                ICMP
            } else {
                ICMPV6
            },
        }
    }

    /// Is it of one address?
    pub(super) fn is_single(&self) -> bool {
        let whole = if self.network.address().is_ipv4() {
            32
        } else {
            128
        };
        self.network.prefix_length() == whole
    }

    /// The length of its prefix in the table of networks.
    pub(super) fn prefix_length(&self) -> u32 {
        let mapped = if self.network.address().is_ipv4() {
            96
        } else {
            0
        };
        BALANCE_NETWORK_PREFIX + mapped + u32::from(self.network.prefix_length())
    }

    /// From what a table holds; the length of the prefix is that of the IPv6 form.
    pub(super) fn read(
        address: flow_address,
        prefix_length: u32,
        port: u16,
        protocol: u8,
    ) -> Option<Self> {
        let address = address_of(&address);
        let mapped = if address.is_ipv4() { 96 } else { 0 };
        let length = u8::try_from(prefix_length.checked_sub(mapped)?).ok()?;
        let network = Network::new(address, length).ok()?;
        Some(Self {
            network,
            port,
            protocol,
        })
    }
}

/// A number for each server of the configuration, from 1 on; the numbers of those that are known
/// stay, and none is given that is in use. `room` is the size of the table.
pub(super) fn number_servers(
    config: &Config,
    known: &BTreeMap<u16, IpAddr>,
    room: usize,
) -> Result<Vec<u16>, NoRoom> {
    let by_address: HashMap<_, _> = known
        .iter()
        .map(|(number, address)| (*address, *number))
        .collect();
    let limit = u16::try_from(room).unwrap_or(u16::MAX);
    let mut free = (1..limit).filter(|number| !known.contains_key(number));
    let number = |server: &crate::config::Server| {
        let known = by_address.get(&server.address).copied();
        known.or_else(|| free.next()).ok_or(NoRoom("the servers"))
    };
    config.servers.iter().map(number).collect()
}

/// A slot for each service of the configuration; those of entries that are known stay, if their
/// ring is as large. `indexes` and `elements` are the sizes of the tables of counters and of rings.
pub(super) fn assign_slots(
    config: &Config,
    known: &HashMap<Entry, Slot>,
    indexes: usize,
    elements: u32,
) -> Result<Vec<Slot>, NoRoom> {
    let kept: Vec<Option<Slot>> = config
        .services
        .iter()
        .map(|service| known.get(&Entry::of(service)).copied())
        .collect();
    let mut used: HashSet<u16> = kept.iter().flatten().map(|slot| slot.index).collect();
    // Rings of services that go, and those that are replaced, are in use until nothing points to
    // them.
    let mut rings: Vec<(u32, u32)> = known.values().map(|slot| extent(*slot)).collect();
    let limit = u16::try_from(indexes).unwrap_or(u16::MAX);
    let mut slots = Vec::new();
    for (service, kept) in config.services.iter().zip(kept) {
        if let Some(slot) = kept.filter(|slot| slot.ring_size == service.ring) {
            slots.push(slot);
            continue;
        }
        let index = kept
            .map(|slot| slot.index)
            .or_else(|| (0..limit).find(|index| !used.contains(index)));
        let index = index.ok_or(NoRoom("the services"))?;
        used.insert(index);
        let length = service.ring.div_ceil(BALANCE_RING_LANES);
        let ring_begin = gap(&mut rings, length, elements).ok_or(NoRoom("the rings"))?;
        rings.push((ring_begin, ring_begin + length));
        slots.push(Slot {
            index,
            ring_begin,
            ring_size: service.ring,
        });
    }
    Ok(slots)
}

fn extent(slot: Slot) -> (u32, u32) {
    let length = slot.ring_size.div_ceil(BALANCE_RING_LANES);
    (slot.ring_begin, slot.ring_begin + length)
}

/// The first room for so many elements that nothing uses.
fn gap(used: &mut [(u32, u32)], length: u32, elements: u32) -> Option<u32> {
    used.sort_unstable();
    let mut begin = 0;
    for (from, to) in used {
        if begin + length <= *from {
            break;
        }
        begin = begin.max(*to);
    }
    (begin + length <= elements).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(services: &[(&str, u16, u32)], servers: &[&str]) -> Config {
        let server = |address: &&str| {
            let name = address.replace(':', "-");
            format!("[[server]]\nname = \"s-{name}\"\naddress = \"{address}\"\n")
        };
        let service = |(index, (address, port, ring)): (usize, &(&str, u16, u32))| {
            format!(
                "[[service]]\nname = \"v{index}\"\naddress = \"{address}\"\nport = {port}\nring = {ring}\n"
            )
        };
        let servers = servers.iter().map(server);
        let services = services.iter().enumerate().map(service);
        let text: String = servers.chain(services).collect();
        Config::parse(&text).unwrap()
    }

    #[test]
    fn servers_keep_their_numbers() {
        let config = config(&[], &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        let known = BTreeMap::from([
            (2, IpAddr::from([10, 0, 0, 3])),
            (1, IpAddr::from([10, 0, 0, 9])),
        ]);
        assert_eq!(number_servers(&config, &known, 16), Ok(vec![3, 4, 2]));
        assert_eq!(
            number_servers(&config, &known, 4),
            Err(NoRoom("the servers"))
        );
    }

    #[test]
    fn services_keep_their_rings_until_nothing_points_to_them() {
        let servers = ["10.0.0.1"];
        let first = config(
            &[("192.0.2.1", 80, 1021), ("192.0.2.0/24", 443, 4093)],
            &servers,
        );
        let slots = assign_slots(&first, &HashMap::new(), 256, 16_385).unwrap();
        assert_eq!((slots[0].ring_begin, slots[1].ring_begin), (0, 256));
        let known: HashMap<_, _> = first
            .services
            .iter()
            .map(Entry::of)
            .zip(slots.iter().copied())
            .collect();
        // The other way round, one with a larger ring, one more.
        let second = config(
            &[
                ("192.0.2.0/24", 443, 4093),
                ("192.0.2.1", 80, 2039),
                ("192.0.2.2", 80, 1021),
            ],
            &servers,
        );
        let assigned = assign_slots(&second, &known, 256, 16_385).unwrap();
        assert_eq!(assigned[0], slots[1]);
        assert_eq!(
            (assigned[1].index, assigned[1].ring_begin),
            (slots[0].index, 256 + 1024)
        );
        assert_eq!(
            (assigned[2].index, assigned[2].ring_begin),
            (2, 256 + 1024 + 510)
        );
        let full = assign_slots(&second, &known, 256, 1500);
        assert_eq!(full, Err(NoRoom("the rings")));
    }

    #[test]
    fn entries_read_back() {
        for network in [
            "192.0.2.0/24",
            "192.0.2.7",
            "2001:db8::/33",
            "::ffff:0:0/90",
            "0.0.0.0/0",
        ] {
            let entry = Entry {
                network: network.parse().unwrap(),
                port: 80,
                protocol: 6,
            };
            let read = Entry::read(
                entry.network.address().into(),
                entry.prefix_length() - BALANCE_NETWORK_PREFIX,
                80,
                6,
            );
            assert_eq!(read, Some(entry), "{network}");
        }
    }
}
