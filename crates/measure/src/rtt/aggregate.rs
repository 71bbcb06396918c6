//! Round trips of an interval, by flow, network, VLAN or interface.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use fathom_record::{FlowKey, Histogram, Nanoseconds, Network, Time};

use super::event::traffic_of;
use super::{RttAggregate, RttSample};
use crate::by_slot::{BySlot, Own};
use crate::flow::{flow_of, tags};
use crate::native::flow_key;
use crate::replay::{Interfaces, ShortNames};
use crate::rtt::native::{rtt_flow, rtt_traffic};

/// What samples are put together by. Each group is of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// By flow and direction.
    Flow,
    /// By the network of the destination.
    Network,
    /// By VLAN tags.
    Vlan,
    /// By interface alone.
    Interface,
}

/// How samples are aggregated.
#[derive(Debug, Clone, Copy)]
pub struct Aggregation {
    /// Length of an interval.
    pub interval: Duration,
    /// What is put together.
    pub by: GroupBy,
    /// Prefix length of IPv4 networks, at most 32.
    pub prefix_v4: u8,
    /// Prefix length of IPv6 networks, at most 128.
    pub prefix_v6: u8,
}

impl Aggregation {
    fn group(self, flow: FlowKey, tags: Tags, interface: u16) -> Group {
        let key = match self.by {
            GroupBy::Flow => GroupKey::Flow(flow, tags),
            GroupBy::Network => GroupKey::Network(self.network(flow.destination)),
            GroupBy::Vlan => GroupKey::Vlan(tags),
            GroupBy::Interface => GroupKey::Interface,
        };
        Group { key, interface }
    }

    fn network(self, address: IpAddr) -> Option<Network> {
        let prefix = match address {
            IpAddr::V4(_) => self.prefix_v4,
            IpAddr::V6(_) => self.prefix_v6,
        };
        Network::new(address, prefix).ok()
    }

    /// Of a direction of a flow.
    fn group_of(self, key: &flow_key, direction: u8, interface: u16) -> Group {
        self.group(flow_of(key, direction), tags(key.vlan()), interface)
    }
}

/// What is put together. Kept small: there may be two for each of very many flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    key: GroupKey,
    /// Index in the list of names.
    interface: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum GroupKey {
    Flow(FlowKey, Tags),
    Network(Option<Network>),
    Vlan(Tags),
    Interface,
}

/// Outer and inner VLAN tag.
type Tags = (Option<u16>, Option<u16>);

#[derive(Default)]
struct Figures {
    /// `None`: there is no sample, as always of one direction where round trips go to one side.
    rtt: Option<Box<Histogram>>,
    bytes: u64,
    packets: u32,
    retransmitted: u32,
    out_of_order: u32,
    congestion_experienced: u32,
}

/// What is known of a flow in the table.
struct Known {
    /// What it had sent at the last count.
    traffic: [rtt_traffic; 2],
    /// By flow: of this interval, by direction.
    figures: [Figures; 2],
    /// Index in the list of names.
    interface: u16,
    /// Was it counted since its last interval ended?
    is_there: bool,
}

/// Collects samples and traffic, and gives the records of an interval.
pub struct Aggregator {
    aggregation: Aggregation,
    flows: BySlot<Known>,
    /// What is put together by other things than flows; and of flows, what came without the slot
    /// that they have now.
    groups: HashMap<Group, Figures>,
    interfaces: ShortNames,
}

impl Aggregator {
    /// Nothing collected.
    pub fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            flows: BySlot::new(),
            groups: HashMap::new(),
            interfaces: ShortNames::default(),
        }
    }

    /// Takes a sample in.
    pub fn on_sample(&mut self, sample: &RttSample) {
        let interface = self.interfaces.index_of(sample.interface);
        let tags = (sample.vlan, sample.inner_vlan);
        let group = self.aggregation.group(sample.flow, tags, interface);
        let figures = self.groups.entry(group).or_default();
        figures.record(sample.rtt_ns.0);
    }

    /// Takes in samples of the flow that is, or was, in this slot of the table, in nanoseconds.
    #[cfg(feature = "live")]
    pub(crate) fn on_samples(
        &mut self,
        key: &flow_key,
        slot: u32,
        direction: u8,
        samples: &[u32],
        interfaces: &impl Interfaces,
    ) {
        let is_by_flow = self.aggregation.by == GroupBy::Flow;
        let own = self.flows.get_mut(slot).filter(|own| own.key == *key);
        let figures = match own {
            Some(own) if is_by_flow => &mut own.state.figures[usize::from(direction)],
            _ => {
                let interface = self.interfaces.index_of(interfaces.name(key.interface));
                self.figures_of(key, direction, interface)
            }
        };
        for sample in samples {
            figures.record(u64::from(*sample));
        }
    }

    /// Of the group that a direction of a flow belongs to.
    fn figures_of(&mut self, key: &flow_key, direction: u8, interface: u16) -> &mut Figures {
        let group = self.aggregation.group_of(key, direction, interface);
        self.groups.entry(group).or_default()
    }

    /// Takes in what the flow in this slot of the table has sent by now.
    pub(crate) fn on_flow(
        &mut self,
        key: &flow_key,
        slot: u32,
        flow: &rtt_flow,
        interfaces: &impl Interfaces,
    ) {
        let traffic = [traffic_of(&flow.half[0]), traffic_of(&flow.half[1])];
        let aggregation = self.aggregation;
        let first = || Known {
            traffic: Default::default(),
            figures: Default::default(),
            interface: self.interfaces.index_of(interfaces.name(key.interface)),
            is_there: true,
        };
        let (own, gone) = self.flows.claim(slot, key, |_| true, first);
        own.is_there = true;
        let mut before = std::mem::replace(&mut own.traffic, traffic);
        // Fewer than before: the flow was forgotten and opened anew in between.
        if (0..2).any(|half| before[half].packets > traffic[half].packets) {
            before = Default::default();
        }
        let has_sent = |half: &usize| traffic[*half].packets != before[*half].packets;
        for half in (0..2).filter(has_sent) {
            let figures = if aggregation.by == GroupBy::Flow {
                &mut own.figures[half]
            } else {
                let group = aggregation.group_of(key, half as u8, own.interface);
                self.groups.entry(group).or_default()
            };
            figures.add_traffic(&traffic[half], &before[half]);
        }
        if let Some(gone) = gone {
            self.let_go(gone);
        }
    }

    /// A flow has lost its slot: what there is of it is put together by its key.
    fn let_go(&mut self, gone: Own<Known>) {
        for (half, figures) in gone.state.figures.into_iter().enumerate() {
            if figures.is_something() {
                let kept = self.figures_of(&gone.key, half as u8, gone.state.interface);
                kept.merge(&figures);
            }
        }
    }

    /// Ends the interval of this `length` at `time`, and begins another.
    pub fn end_interval(&mut self, time: Time, length: Nanoseconds) -> RttInterval {
        self.end_portion(0..u32::MAX, true, time, length)
    }

    /// The same for flows in these slots, and if they are the last ones for all other groups.
    pub(super) fn end_portion(
        &mut self,
        slots: Range<u32>,
        is_last: bool,
        time: Time,
        length: Nanoseconds,
    ) -> RttInterval {
        let mut groups = self.take_flows(slots);
        if is_last {
            groups.extend(self.groups.drain());
        }
        groups.sort_unstable_by_key(|(_, figures)| {
            std::cmp::Reverse((figures.samples(), figures.packets))
        });
        RttInterval {
            groups: groups.into_iter(),
            interfaces: self.interfaces.clone(),
            time,
            length,
        }
    }

    /// The groups of flows in these slots. Flows that were not counted in the interval are
    /// forgotten.
    fn take_flows(&mut self, slots: Range<u32>) -> Vec<(Group, Figures)> {
        let (aggregation, kept) = (self.aggregation, &mut self.groups);
        let mut groups = Vec::new();
        self.flows.retain(slots, |own| {
            for (half, figures) in own.state.figures.iter_mut().enumerate() {
                let figures = std::mem::take(figures);
                if !figures.is_something() {
                    continue;
                }
                let group = aggregation.group_of(&own.key, half as u8, own.state.interface);
                match kept.get_mut(&group) {
                    Some(kept) => kept.merge(&figures),
                    None => groups.push((group, figures)),
                }
            }
            std::mem::take(&mut own.state.is_there)
        });
        groups
    }
}

/// The records of an interval that is over, busiest group first. There may be very many: each is
/// made when it is asked for.
pub struct RttInterval {
    groups: std::vec::IntoIter<(Group, Figures)>,
    interfaces: ShortNames,
    time: Time,
    length: Nanoseconds,
}

impl Iterator for RttInterval {
    type Item = RttAggregate;

    fn next(&mut self) -> Option<RttAggregate> {
        let (group, figures) = self.groups.next()?;
        let interface = self.interfaces.name(group.interface);
        Some(figures.into_record(group.key, interface, self.time, self.length))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.groups.size_hint()
    }
}

impl ExactSizeIterator for RttInterval {}

impl Figures {
    fn is_something(&self) -> bool {
        self.packets != 0 || self.samples() != 0
    }

    fn samples(&self) -> u64 {
        self.rtt.as_ref().map_or(0, |rtt| rtt.count())
    }

    fn record(&mut self, rtt_ns: u64) {
        self.rtt.get_or_insert_default().record(rtt_ns);
    }

    fn merge(&mut self, other: &Self) {
        if let Some(other) = &other.rtt {
            self.rtt.get_or_insert_default().merge(other);
        }
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.retransmitted += other.retransmitted;
        self.out_of_order += other.out_of_order;
        self.congestion_experienced += other.congestion_experienced;
    }

    fn add_traffic(&mut self, now: &rtt_traffic, then: &rtt_traffic) {
        self.bytes += now.bytes - then.bytes;
        self.packets += (now.packets - then.packets) as u32;
        self.retransmitted += now.retransmitted.wrapping_sub(then.retransmitted);
        self.out_of_order += now.out_of_order.wrapping_sub(then.out_of_order);
        self.congestion_experienced += now
            .congestion_experienced
            .wrapping_sub(then.congestion_experienced);
    }

    fn into_record(
        self,
        key: GroupKey,
        interface: &'static str,
        time: Time,
        duration_ns: Nanoseconds,
    ) -> RttAggregate {
        let rtt = self.rtt.map_or_else(Histogram::new, |rtt| *rtt);
        let quantile = |quantile| rtt.quantile(quantile).map(Nanoseconds);
        let (flow, tags) = match key {
            GroupKey::Flow(flow, tags) => (Some(flow), tags),
            GroupKey::Vlan(tags) => (None, tags),
            GroupKey::Network(_) | GroupKey::Interface => (None, (None, None)),
        };
        let network = match key {
            GroupKey::Network(network) => network,
            _ => None,
        };
        RttAggregate {
            time,
            duration_ns,
            flow,
            network,
            vlan: tags.0,
            inner_vlan: tags.1,
            rtt_samples: rtt.count(),
            rtt_min_ns: rtt.min().map(Nanoseconds),
            rtt_mean_ns: rtt.mean().map(Nanoseconds),
            rtt_p50_ns: quantile(0.5),
            rtt_p90_ns: quantile(0.9),
            rtt_p95_ns: quantile(0.95),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: rtt.max().map(Nanoseconds),
            packets: self.packets,
            bytes: self.bytes,
            packets_retransmitted: self.retransmitted,
            packets_out_of_order: self.out_of_order,
            packets_congestion_experienced: self.congestion_experienced,
            interface,
            rtt_histogram: rtt,
        }
    }
}
