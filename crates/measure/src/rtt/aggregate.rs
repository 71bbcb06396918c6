//! Round trips of an interval, by flow, network, VLAN or interface.

use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{FlowKey, Histogram, Nanoseconds, Network, Time};

use super::chunked::{ChunkedMap, Entries};
use super::event::traffic_of;
use super::{RttAggregate, RttSample};
use crate::flow::{flow_of, tags};
use crate::native::flow_key;
use crate::replay::Interfaces;
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
    rtt: Histogram,
    bytes: u64,
    packets: u32,
    retransmitted: u32,
    out_of_order: u32,
    congestion_experienced: u32,
}

/// What a flow had sent at the last count, and at which count that was.
struct Counted {
    traffic: [rtt_traffic; 2],
    interval: u64,
}

/// Collects samples and traffic, and gives the records of an interval.
pub struct Aggregator {
    aggregation: Aggregation,
    groups: ChunkedMap<Group, Figures>,
    flows: ChunkedMap<flow_key, Counted>,
    interfaces: Vec<&'static str>,
    interval: u64,
    /// Flows that were counted in this interval.
    present: usize,
}

impl Aggregator {
    /// Nothing collected.
    pub fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            groups: ChunkedMap::new(),
            flows: ChunkedMap::new(),
            interfaces: Vec::new(),
            interval: 0,
            present: 0,
        }
    }

    /// Takes a sample in.
    pub fn on_sample(&mut self, sample: &RttSample) {
        let tags = (sample.vlan, sample.inner_vlan);
        let group = self.group(sample.flow, tags, sample.interface);
        let figures = self.groups.get_or_insert_with(group, Figures::default);
        figures.rtt.record(sample.rtt_ns.0);
    }

    fn group(&mut self, flow: FlowKey, tags: Tags, interface: &'static str) -> Group {
        let key = match self.aggregation.by {
            GroupBy::Flow => GroupKey::Flow(flow, tags),
            GroupBy::Network => GroupKey::Network(self.network(flow.destination)),
            GroupBy::Vlan => GroupKey::Vlan(tags),
            GroupBy::Interface => GroupKey::Interface,
        };
        let known = self.interfaces.iter().position(|&known| known == interface);
        let interface = known.unwrap_or_else(|| {
            self.interfaces.push(interface);
            self.interfaces.len() - 1
        });
        Group {
            key,
            interface: interface as u16,
        }
    }

    fn network(&self, address: IpAddr) -> Option<Network> {
        let prefix = match address {
            IpAddr::V4(_) => self.aggregation.prefix_v4,
            IpAddr::V6(_) => self.aggregation.prefix_v6,
        };
        Network::new(address, prefix).ok()
    }

    /// Takes in what a flow has sent by now.
    pub(crate) fn on_flow(
        &mut self,
        key: &flow_key,
        flow: &rtt_flow,
        interfaces: &impl Interfaces,
    ) {
        let traffic = [traffic_of(&flow.half[0]), traffic_of(&flow.half[1])];
        let interval = self.interval;
        let mut is_new = false;
        let counted = self.flows.get_or_insert_with(*key, || {
            is_new = true;
            Counted {
                traffic: Default::default(),
                interval,
            }
        });
        let mut before = std::mem::replace(&mut counted.traffic, traffic);
        if std::mem::replace(&mut counted.interval, interval) != interval || is_new {
            self.present += 1;
        }
        // Fewer than before: the flow was forgotten and opened anew in between.
        if (0..2).any(|half| before[half].packets > traffic[half].packets) {
            before = Default::default();
        }
        for direction in 0..2 {
            let (now, then) = (&traffic[direction], &before[direction]);
            if now.packets == then.packets {
                continue;
            }
            let interface = interfaces.name(key.interface);
            let group = self.group(flow_of(key, direction as u8), tags(key.vlan()), interface);
            let figures = self.groups.get_or_insert_with(group, Figures::default);
            figures.add_traffic(now, then);
        }
    }

    /// Ends the interval of this `length` at `time`, and begins another.
    pub fn end_interval(&mut self, time: Time, length: Nanoseconds) -> RttInterval {
        let groups = self.groups.take();
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        order.sort_by_key(|&position| {
            let figures = &groups.at(position).1;
            std::cmp::Reverse((figures.rtt.count(), figures.packets))
        });
        self.forget_flows();
        RttInterval {
            groups,
            order: order.into_iter(),
            interfaces: self.interfaces.clone(),
            time,
            length,
        }
    }

    /// Flows that are not there any more are dropped when they have become as many as those that
    /// are.
    fn forget_flows(&mut self) {
        let ended = self.interval;
        self.interval += 1;
        let present = std::mem::take(&mut self.present);
        if self.flows.len() < 2 * present {
            return;
        }
        let all = self.flows.take();
        for (key, counted) in all
            .into_iter()
            .filter(|(_, counted)| counted.interval == ended)
        {
            self.flows.get_or_insert_with(key, || counted);
        }
    }
}

/// The records of an interval that is over, busiest group first. There may be very many: each is
/// made when it is asked for.
pub struct RttInterval {
    groups: Entries<Group, Figures>,
    order: std::vec::IntoIter<u32>,
    interfaces: Vec<&'static str>,
    time: Time,
    length: Nanoseconds,
}

impl Iterator for RttInterval {
    type Item = RttAggregate;

    fn next(&mut self) -> Option<RttAggregate> {
        let (group, figures) = self.groups.at(self.order.next()?);
        let interface = self.interfaces[usize::from(group.interface)];
        Some(figures.to_record(group.key, interface, self.time, self.length))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.order.size_hint()
    }
}

impl ExactSizeIterator for RttInterval {}

impl Figures {
    fn add_traffic(&mut self, now: &rtt_traffic, then: &rtt_traffic) {
        self.bytes += now.bytes - then.bytes;
        self.packets += (now.packets - then.packets) as u32;
        self.retransmitted += now.retransmitted.wrapping_sub(then.retransmitted);
        self.out_of_order += now.out_of_order.wrapping_sub(then.out_of_order);
        self.congestion_experienced += now
            .congestion_experienced
            .wrapping_sub(then.congestion_experienced);
    }

    fn to_record(
        &self,
        key: GroupKey,
        interface: &'static str,
        time: Time,
        duration_ns: Nanoseconds,
    ) -> RttAggregate {
        let quantile = |quantile| self.rtt.quantile(quantile).map(Nanoseconds);
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
            rtt_samples: self.rtt.count(),
            rtt_min_ns: self.rtt.min().map(Nanoseconds),
            rtt_mean_ns: self.rtt.mean().map(Nanoseconds),
            rtt_p50_ns: quantile(0.5),
            rtt_p90_ns: quantile(0.9),
            rtt_p95_ns: quantile(0.95),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: self.rtt.max().map(Nanoseconds),
            packets: self.packets,
            bytes: self.bytes,
            packets_retransmitted: self.retransmitted,
            packets_out_of_order: self.out_of_order,
            packets_congestion_experienced: self.congestion_experienced,
            interface,
            rtt_histogram: self.rtt.clone(),
        }
    }
}
