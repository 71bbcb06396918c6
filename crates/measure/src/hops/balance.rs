//! The ways that flows to one destination take: flows are grouped by the routers they pass, and the
//! groups' round trips compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use fathom_record::Network;

use super::path::Hop;
use super::rank::{LEAST, kruskal_wallis, median};

/// Flows to the same network of this size are to one destination: no smaller network is routed on
/// its own on the Internet.
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 48;
/// Round trips of a flow within it are one value, their median: a queue makes neighbours alike, and
/// the test takes values for independent.
const VALUE_NS: u64 = 1_000_000_000;
/// Below this p-value paths are said to differ.
const SIGNIFICANT: f64 = 0.01;
/// And who differs by less than this, ns, and less than a part of its round trip besides, is alike:
/// that is how far round trips may be off.
const ERROR_NS: u64 = 200_000;
const ERROR_PART: u64 = 100;
/// Flows that have ended and are kept for the next comparison.
const ENDED: usize = 4096;

/// What a flow has to say.
#[derive(Debug, Clone)]
pub(super) struct Sighting {
    destination: Network,
    /// Who is at TTL 1, 2, …; `None`: not known.
    routers: Vec<Option<IpAddr>>,
    /// A value a second, of each.
    values: Vec<Vec<u64>>,
}

impl Sighting {
    /// Of a flow to `destination`, and of its answers since `from`.
    pub(super) fn new(
        destination: IpAddr,
        routers: Vec<Option<IpAddr>>,
        hops: &[Hop],
        from: u64,
    ) -> Option<Self> {
        let prefix = if destination.is_ipv4() {
            PREFIX_V4
        } else {
            PREFIX_V6
        };
        let destination = Network::new(destination, prefix).ok()?;
        let mut values: Vec<Vec<u64>> = hops.iter().map(|hop| values(hop, from)).collect();
        values.resize(routers.len(), Vec::new());
        let is_known = routers.iter().any(Option::is_some);
        is_known.then_some(Self {
            destination,
            routers,
            values,
        })
    }
}

fn values(hop: &Hop, from: u64) -> Vec<u64> {
    let mut seconds: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for fate in hop.fates.iter().filter(|fate| fate.sent >= from) {
        let second = seconds.entry(fate.sent / VALUE_NS).or_default();
        second.extend(fate.rtt_ns);
    }
    seconds.into_values().filter_map(median).collect()
}

/// A way to a destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Way {
    pub(super) destination: Network,
    /// From 1, in the order of the routers' addresses.
    pub(super) number: u32,
    pub(super) routers: Vec<Option<IpAddr>>,
    pub(super) flows: u32,
    /// Where round trips are compared: the last router that all ways have in common behind where
    /// they part; `None`: at the end of each.
    pub(super) compared: Option<IpAddr>,
    pub(super) rtt_ns: Option<u64>,
    /// That ways of one kind would differ as much as all to this destination do.
    pub(super) p_value: Option<f64>,
    /// How this one differs from the others.
    pub(super) verdict: Option<&'static str>,
}

impl Way {
    /// The routers, a `*` for those that are not known.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for router in &self.routers {
            let space = if text.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = match router {
                Some(router) => write!(text, "{space}{router}"),
                None => write!(text, "{space}*"),
            };
        }
        text
    }
}

/// Flows by destination and way.
#[derive(Debug, Default)]
pub(super) struct Balance {
    ended: Vec<Sighting>,
    /// Flows that had to be left out, since the start.
    pub(super) forgotten: u64,
}

impl Balance {
    /// Keeps what a flow has to say that ends.
    pub(super) fn keep(&mut self, sighting: Sighting) {
        if self.ended.len() < ENDED {
            self.ended.push(sighting);
        } else {
            self.forgotten += 1;
        }
    }

    /// The ways to every destination that has more than one, over flows that live and that have
    /// ended since the last call.
    pub(super) fn ways(&mut self, living: impl Iterator<Item = Sighting>) -> Vec<Way> {
        let mut destinations: BTreeMap<(IpAddr, u8), Vec<Sighting>> = BTreeMap::new();
        for sighting in std::mem::take(&mut self.ended).into_iter().chain(living) {
            let network = sighting.destination;
            let key = (network.address(), network.prefix_length());
            destinations.entry(key).or_default().push(sighting);
        }
        destinations
            .into_values()
            .flat_map(|sightings| compare(&group(sightings)))
            .collect()
    }
}

/// Flows that pass the same routers.
#[derive(Debug)]
struct Group {
    destination: Network,
    routers: Vec<Option<IpAddr>>,
    members: Vec<Sighting>,
}

impl Group {
    /// May the flow have taken this way? What is not known may be anything.
    fn admits(&self, sighting: &Sighting) -> bool {
        let pairs = self.routers.iter().zip(&sighting.routers);
        pairs
            .filter_map(|(own, other)| own.zip(*other))
            .all(|(own, other)| own == other)
    }

    fn add(&mut self, sighting: Sighting) {
        if self.routers.len() < sighting.routers.len() {
            self.routers.resize(sighting.routers.len(), None);
        }
        for (own, other) in self.routers.iter_mut().zip(&sighting.routers) {
            *own = own.or(*other);
        }
        self.members.push(sighting);
    }

    /// Round trips to a router of this address, or to the deepest one.
    fn values(&self, compared: Option<IpAddr>) -> Vec<u64> {
        let index = match compared {
            Some(_) => self.routers.iter().rposition(|router| *router == compared),
            None => self.routers.iter().rposition(Option::is_some),
        };
        let Some(index) = index else {
            return Vec::new();
        };
        let members = self.members.iter();
        members
            .filter_map(|member| member.values.get(index))
            .flatten()
            .copied()
            .collect()
    }
}

/// Puts flows together, the best known ones first. A flow of which so little is known that it may
/// have taken several ways is left out.
fn group(mut sightings: Vec<Sighting>) -> Vec<Group> {
    sightings.sort_by_key(|sighting| std::cmp::Reverse(sighting.routers.iter().flatten().count()));
    let mut groups: Vec<Group> = Vec::new();
    for sighting in sightings {
        let mut admitting = groups.iter_mut().filter(|group| group.admits(&sighting));
        match (admitting.next(), admitting.next()) {
            (Some(group), None) => group.add(sighting),
            (Some(_), Some(_)) => {}
            (None, _) => groups.push(Group {
                destination: sighting.destination,
                routers: sighting.routers.clone(),
                members: vec![sighting],
            }),
        }
    }
    groups.sort_by(|one, other| one.routers.cmp(&other.routers));
    groups
}

/// The last router that all ways have, behind the first hop where they part.
fn meeting(groups: &[Group]) -> Option<IpAddr> {
    let (first, others) = groups.split_first()?;
    let parts = first
        .routers
        .iter()
        .enumerate()
        .position(|(index, router)| {
            let differs = |other: &Group| {
                let other = other.routers.get(index).copied().flatten();
                router.zip(other).is_some_and(|(own, other)| own != other)
            };
            others.iter().any(differs)
        })?;
    let behind = first.routers[parts..].iter().rev().flatten();
    behind.copied().find(|router| {
        others
            .iter()
            .all(|other| other.routers[parts..].contains(&Some(*router)))
    })
}

fn compare(groups: &[Group]) -> Vec<Way> {
    if groups.len() < 2 {
        return Vec::new();
    }
    let compared = meeting(groups);
    let values: Vec<Vec<u64>> = groups.iter().map(|group| group.values(compared)).collect();
    // Ways that were hardly measured do not keep the others from being compared.
    let measured: Vec<Vec<u64>> = values
        .iter()
        .filter(|values| values.len() >= LEAST)
        .cloned()
        .collect();
    let p_value = kruskal_wallis(&measured);
    let ways = groups.iter().enumerate();
    ways.map(|(index, group)| Way {
        destination: group.destination,
        number: index as u32 + 1,
        routers: group.routers.clone(),
        flows: group.members.len() as u32,
        compared,
        rtt_ns: median(values[index].clone()),
        p_value,
        verdict: verdict(&values, index, p_value),
    })
    .collect()
}

/// How one group differs from most of the others. All pairs are tested only where the groups differ
/// altogether, and each with the share of the significance that keeps all of them within it
/// (Bonferroni).
fn verdict(values: &[Vec<u64>], index: usize, p_value: Option<f64>) -> Option<&'static str> {
    if p_value? >= SIGNIFICANT {
        return Some("alike");
    }
    let own = median(values[index].clone())?;
    let others = values.iter().enumerate();
    let others: Vec<&Vec<u64>> = others
        .filter(|(other, values)| *other != index && values.len() >= LEAST)
        .map(|(_, values)| values)
        .collect();
    let pairs = (others.len() + 1) * others.len() / 2;
    let mut slower = 0;
    let mut faster = 0;
    for other in &others {
        let p_value = kruskal_wallis(&[values[index].clone(), (*other).clone()])?;
        let theirs = median((*other).clone())?;
        let error = ERROR_NS + own.max(theirs) / ERROR_PART;
        if p_value * pairs as f64 >= SIGNIFICANT || own.abs_diff(theirs) <= error {
            continue;
        }
        slower += usize::from(own > theirs);
        faster += usize::from(own < theirs);
    }
    Some(if slower * 2 > others.len() {
        "slower"
    } else if faster * 2 > others.len() {
        "faster"
    } else {
        "alike"
    })
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    const MS: u64 = 1_000_000;

    fn router(name: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, name])
    }

    /// A flow that has passed these routers (0: not known) for 10 s; its round trips are `rtt_ms`
    /// each hop and up to 1 ms more.
    fn sighting(names: &[u8], rtt_ms: u64, seed: u64) -> Sighting {
        let mut hops: Vec<Hop> = Vec::new();
        for ttl in 1..=names.len() as u64 {
            let mut hop = Hop::default();
            for second in 0..10 {
                let more = (seed * 7919 + second * 104_729 + ttl * 31) % 1000;
                let round_trip = rtt_ms * ttl * MS + more * 1000;
                let sent = second * VALUE_NS;
                hop.answer(sent, round_trip, router(1), 60, Outcome::Answered);
            }
            hops.push(hop);
        }
        let routers = names.iter();
        let routers = routers.map(|name| (*name != 0).then(|| router(*name)));
        let destination = IpAddr::from([192, 0, 2, seed as u8]);
        Sighting::new(destination, routers.collect(), &hops, 0).unwrap()
    }

    fn ways(sightings: Vec<Sighting>) -> Vec<Way> {
        Balance::default().ways(sightings.into_iter())
    }

    #[test]
    fn four_ways_are_found_and_the_slower_one_is_named() {
        let mut flows = Vec::new();
        for flow in 0..12 {
            let way = 20 + flow % 4;
            let rtt_ms = if way == 22 { 9 } else { 5 };
            flows.push(sighting(&[1, way, 3], rtt_ms, u64::from(flow)));
        }
        let ways = ways(flows);
        let told: Vec<_> = ways
            .iter()
            .map(|way| (way.text(), way.flows, way.verdict))
            .collect();
        let way = |name, verdict| (format!("10.0.0.1 10.0.0.{name} 10.0.0.3"), 3, Some(verdict));
        assert_eq!(
            told,
            [
                way(20, "alike"),
                way(21, "alike"),
                way(22, "slower"),
                way(23, "alike")
            ]
        );
        assert!(ways[0].p_value.unwrap() < 1e-6);
        assert_eq!(ways[0].compared, Some(router(3)));
        assert_eq!(ways[0].destination.to_string(), "192.0.2.0/24");
        let rtt_ms = ways[2].rtt_ns.unwrap() / MS;
        assert!((27..28).contains(&rtt_ms), "{rtt_ms}");
    }

    #[test]
    fn ways_of_one_kind_are_alike() {
        let flows = (0..8).map(|flow| sighting(&[1, 20 + flow % 2, 3], 5, u64::from(flow)));
        let ways = ways(flows.collect());
        assert_eq!(ways.len(), 2);
        assert!(ways[0].p_value.unwrap() > SIGNIFICANT);
        assert_eq!(
            (ways[0].verdict, ways[1].verdict),
            (Some("alike"), Some("alike"))
        );
    }

    #[test]
    fn what_is_not_known_may_be_anything_but_not_several_things() {
        let ways = ways(vec![
            sighting(&[1, 2, 3], 5, 1),
            sighting(&[1, 9, 3], 5, 2),
            sighting(&[0, 9, 0], 5, 3),
            sighting(&[1, 0, 3], 5, 4),
            sighting(&[1, 9], 5, 5),
        ]);
        let told: Vec<_> = ways.iter().map(|way| (way.routers[1], way.flows)).collect();
        assert_eq!(told, [(Some(router(2)), 1), (Some(router(9)), 3)]);
    }

    #[test]
    fn one_way_is_not_worth_telling() {
        assert_eq!(
            ways(vec![sighting(&[1, 2], 5, 1), sighting(&[1, 0, 3], 5, 2)]),
            []
        );
    }

    #[test]
    fn ways_that_do_not_meet_are_compared_at_their_ends() {
        let ways = ways(vec![
            sighting(&[1, 2, 3], 5, 1),
            sighting(&[1, 7, 8, 9], 5, 2),
        ]);
        assert_eq!(ways[0].compared, None);
        // 15 ms and 20 ms.
        assert_eq!(
            (ways[0].verdict, ways[1].verdict),
            (Some("faster"), Some("slower"))
        );
    }

    #[test]
    fn ended_flows_count_once() {
        let mut balance = Balance::default();
        balance.keep(sighting(&[1, 2], 5, 1));
        let living = || [sighting(&[1, 3], 5, 2)].into_iter();
        assert_eq!(balance.ways(living()).len(), 2);
        assert_eq!(balance.ways(living()), []);
        for _ in 0..=ENDED {
            balance.keep(sighting(&[1], 5, 1));
        }
        assert_eq!(balance.forgotten, 1);
    }
}
