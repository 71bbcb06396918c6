//! The parallel paths that flows to one destination take where load is balanced. Flows are grouped
//! by the routers that they pass, and the round trips of the groups are compared.

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

/// The path of a flow.
#[derive(Debug, Clone)]
pub(super) struct FlowPath {
    destination: Network,
    /// Who is at TTL 1, 2, …; `None`: not known.
    routers: Vec<Option<IpAddr>>,
    /// A value a second, of each.
    values: Vec<Vec<u64>>,
}

impl FlowPath {
    /// The path of a flow to `destination`, with its answers since `from`.
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

/// One of the paths to a destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParallelPath {
    pub(super) destination: Network,
    /// From 1, in the order of the routers' addresses.
    pub(super) number: u32,
    pub(super) routers: Vec<Option<IpAddr>>,
    pub(super) flows: u32,
    /// Where round trips are compared: the last router that all paths have in common behind where
    /// they part; `None`: at the end of each.
    pub(super) compared: Option<IpAddr>,
    pub(super) rtt_ns: Option<u64>,
    /// How likely paths of one kind would differ as much as all to this destination do.
    pub(super) p_value: Option<f64>,
    /// How this one differs from the others.
    pub(super) verdict: Option<&'static str>,
}

impl ParallelPath {
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

/// Flows by destination and path.
#[derive(Debug, Default)]
pub(super) struct Multipath {
    ended: Vec<FlowPath>,
    /// Flows that had to be left out, since the start.
    pub(super) forgotten: u64,
}

impl Multipath {
    /// Keeps the path of a flow that ends.
    pub(super) fn keep(&mut self, flow_path: FlowPath) {
        if self.ended.len() < ENDED {
            self.ended.push(flow_path);
        } else {
            self.forgotten += 1;
        }
    }

    /// The paths to every destination that has more than one, over flows that live and that have
    /// ended since the last call.
    pub(super) fn paths(&mut self, living: impl Iterator<Item = FlowPath>) -> Vec<ParallelPath> {
        let mut destinations: BTreeMap<(IpAddr, u8), Vec<FlowPath>> = BTreeMap::new();
        for flow_path in std::mem::take(&mut self.ended).into_iter().chain(living) {
            let network = flow_path.destination;
            let key = (network.address(), network.prefix_length());
            destinations.entry(key).or_default().push(flow_path);
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
    members: Vec<FlowPath>,
}

impl Group {
    /// May the flow have taken this path? What is not known may be anything.
    fn admits(&self, flow_path: &FlowPath) -> bool {
        let pairs = self.routers.iter().zip(&flow_path.routers);
        pairs
            .filter_map(|(own, other)| own.zip(*other))
            .all(|(own, other)| own == other)
    }

    fn add(&mut self, flow_path: FlowPath) {
        if self.routers.len() < flow_path.routers.len() {
            self.routers.resize(flow_path.routers.len(), None);
        }
        for (own, other) in self.routers.iter_mut().zip(&flow_path.routers) {
            *own = own.or(*other);
        }
        self.members.push(flow_path);
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
/// have taken several paths is left out.
fn group(mut sightings: Vec<FlowPath>) -> Vec<Group> {
    sightings
        .sort_by_key(|flow_path| std::cmp::Reverse(flow_path.routers.iter().flatten().count()));
    let mut groups: Vec<Group> = Vec::new();
    for flow_path in sightings {
        let mut admitting = groups.iter_mut().filter(|group| group.admits(&flow_path));
        match (admitting.next(), admitting.next()) {
            (Some(group), None) => group.add(flow_path),
            (Some(_), Some(_)) => {}
            (None, _) => groups.push(Group {
                destination: flow_path.destination,
                routers: flow_path.routers.clone(),
                members: vec![flow_path],
            }),
        }
    }
    groups.sort_by(|one, other| one.routers.cmp(&other.routers));
    groups
}

/// The last router that all paths have, behind the first hop where they part.
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

fn compare(groups: &[Group]) -> Vec<ParallelPath> {
    if groups.len() < 2 {
        return Vec::new();
    }
    let compared = meeting(groups);
    let values: Vec<Vec<u64>> = groups.iter().map(|group| group.values(compared)).collect();
    // Paths that were hardly measured do not keep the others from being compared.
    let measured: Vec<Vec<u64>> = values
        .iter()
        .filter(|values| values.len() >= LEAST)
        .cloned()
        .collect();
    let p_value = kruskal_wallis(&measured);
    let paths = groups.iter().enumerate();
    paths
        .map(|(index, group)| ParallelPath {
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
    fn flow_path(names: &[u8], rtt_ms: u64, seed: u64) -> FlowPath {
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
        FlowPath::new(destination, routers.collect(), &hops, 0).unwrap()
    }

    fn paths(sightings: Vec<FlowPath>) -> Vec<ParallelPath> {
        Multipath::default().paths(sightings.into_iter())
    }

    #[test]
    fn four_ways_are_found_and_the_slower_one_is_named() {
        let mut flows = Vec::new();
        for flow in 0..12 {
            let path = 20 + flow % 4;
            let rtt_ms = if path == 22 { 9 } else { 5 };
            flows.push(flow_path(&[1, path, 3], rtt_ms, u64::from(flow)));
        }
        let paths = paths(flows);
        let told: Vec<_> = paths
            .iter()
            .map(|path| (path.text(), path.flows, path.verdict))
            .collect();
        let path = |name, verdict| (format!("10.0.0.1 10.0.0.{name} 10.0.0.3"), 3, Some(verdict));
        assert_eq!(
            told,
            [
                path(20, "alike"),
                path(21, "alike"),
                path(22, "slower"),
                path(23, "alike")
            ]
        );
        assert!(paths[0].p_value.unwrap() < 1e-6);
        assert_eq!(paths[0].compared, Some(router(3)));
        assert_eq!(paths[0].destination.to_string(), "192.0.2.0/24");
        let rtt_ms = paths[2].rtt_ns.unwrap() / MS;
        assert!((27..28).contains(&rtt_ms), "{rtt_ms}");
    }

    #[test]
    fn ways_of_one_kind_are_alike() {
        let flows = (0..8).map(|flow| flow_path(&[1, 20 + flow % 2, 3], 5, u64::from(flow)));
        let paths = paths(flows.collect());
        assert_eq!(paths.len(), 2);
        assert!(paths[0].p_value.unwrap() > SIGNIFICANT);
        assert_eq!(
            (paths[0].verdict, paths[1].verdict),
            (Some("alike"), Some("alike"))
        );
    }

    #[test]
    fn what_is_not_known_may_be_anything_but_not_several_things() {
        let paths = paths(vec![
            flow_path(&[1, 2, 3], 5, 1),
            flow_path(&[1, 9, 3], 5, 2),
            flow_path(&[0, 9, 0], 5, 3),
            flow_path(&[1, 0, 3], 5, 4),
            flow_path(&[1, 9], 5, 5),
        ]);
        let told: Vec<_> = paths
            .iter()
            .map(|path| (path.routers[1], path.flows))
            .collect();
        assert_eq!(told, [(Some(router(2)), 1), (Some(router(9)), 3)]);
    }

    #[test]
    fn one_way_is_not_worth_telling() {
        assert_eq!(
            paths(vec![flow_path(&[1, 2], 5, 1), flow_path(&[1, 0, 3], 5, 2)]),
            []
        );
    }

    #[test]
    fn ways_that_do_not_meet_are_compared_at_their_ends() {
        let paths = paths(vec![
            flow_path(&[1, 2, 3], 5, 1),
            flow_path(&[1, 7, 8, 9], 5, 2),
        ]);
        assert_eq!(paths[0].compared, None);
        // 15 ms and 20 ms.
        assert_eq!(
            (paths[0].verdict, paths[1].verdict),
            (Some("faster"), Some("slower"))
        );
    }

    #[test]
    fn ended_flows_count_once() {
        let mut multipath = Multipath::default();
        multipath.keep(flow_path(&[1, 2], 5, 1));
        let living = || [flow_path(&[1, 3], 5, 2)].into_iter();
        assert_eq!(multipath.paths(living()).len(), 2);
        assert_eq!(multipath.paths(living()), []);
        for _ in 0..=ENDED {
            multipath.keep(flow_path(&[1], 5, 1));
        }
        assert_eq!(multipath.forgotten, 1);
    }
}
