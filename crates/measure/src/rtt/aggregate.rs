//! Round trips of an interval, by flow, network, VLAN or interface.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{FlowKey, Histogram, Nanoseconds, Network, Time};

use super::event::{Interfaces, flow_of, tags, traffic_of};
use super::{Report, RttAggregate, RttSample};
use crate::native::{flow_key, rtt_flow, rtt_traffic};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    flow: Option<FlowKey>,
    network: Option<Network>,
    vlan: (Option<u16>, Option<u16>),
    interface: &'static str,
}

#[derive(Default)]
struct Figures {
    rtt: Histogram,
    packets: u64,
    bytes: u64,
    retransmitted: u64,
    out_of_order: u64,
    congestion_experienced: u64,
}

/// What a flow had sent at the last count, and at which count that was.
struct Counted {
    traffic: [rtt_traffic; 2],
    interval: u64,
}

/// Collects samples and traffic, and gives the records of an interval.
pub struct Aggregator {
    aggregation: Aggregation,
    groups: HashMap<Group, Figures>,
    flows: HashMap<flow_key, Counted>,
    interval: u64,
}

impl Aggregator {
    /// Nothing collected.
    pub fn new(aggregation: Aggregation) -> Self {
        Self {
            aggregation,
            groups: HashMap::new(),
            flows: HashMap::new(),
            interval: 0,
        }
    }

    /// Takes a sample in; of flow events, nothing.
    pub fn on_report(&mut self, report: &Report) {
        if let Report::Sample(sample) = report {
            self.on_sample(sample);
        }
    }

    fn on_sample(&mut self, sample: &RttSample) {
        let vlan = (sample.vlan, sample.inner_vlan);
        let group = self.group(sample.flow, vlan, sample.interface);
        let figures = self.groups.entry(group).or_default();
        figures.rtt.record(sample.rtt_ns.0);
    }

    fn group(
        &self,
        flow: FlowKey,
        vlan: (Option<u16>, Option<u16>),
        interface: &'static str,
    ) -> Group {
        let by = self.aggregation.by;
        Group {
            flow: (by == GroupBy::Flow).then_some(flow),
            network: (by == GroupBy::Network)
                .then(|| self.network(flow.destination))
                .flatten(),
            vlan: if matches!(by, GroupBy::Vlan | GroupBy::Flow) {
                vlan
            } else {
                (None, None)
            },
            interface,
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
        let before = self.flows.insert(
            *key,
            Counted {
                traffic,
                interval: self.interval,
            },
        );
        // Fewer than before: the flow was forgotten and opened anew in between.
        let before = before
            .filter(|before| {
                (0..2).all(|half| before.traffic[half].packets <= traffic[half].packets)
            })
            .map(|before| before.traffic)
            .unwrap_or_default();
        for direction in 0..2 {
            let (now, then) = (&traffic[direction], &before[direction]);
            if now.packets == then.packets {
                continue;
            }
            let interface = interfaces.name(key.interface);
            let group = self.group(flow_of(key, direction as u8), tags(key.vlan()), interface);
            let figures = self.groups.entry(group).or_default();
            figures.packets += now.packets - then.packets;
            figures.bytes += now.bytes - then.bytes;
            figures.retransmitted += u64::from(now.retransmitted.wrapping_sub(then.retransmitted));
            figures.out_of_order += u64::from(now.out_of_order.wrapping_sub(then.out_of_order));
            figures.congestion_experienced += u64::from(
                now.congestion_experienced
                    .wrapping_sub(then.congestion_experienced),
            );
        }
    }

    /// Ends the interval at `time` and gives its records, busiest group first.
    pub fn finish_interval(&mut self, time: Time) -> Vec<RttAggregate> {
        let interval =
            Nanoseconds(u64::try_from(self.aggregation.interval.as_nanos()).unwrap_or(u64::MAX));
        let mut records: Vec<_> = self
            .groups
            .drain()
            .map(|(group, figures)| figures.to_record(&group, time, interval))
            .collect();
        records.sort_by(|one, other| {
            (other.count, other.packets, one.interface, one.flow).cmp(&(
                one.count,
                one.packets,
                other.interface,
                other.flow,
            ))
        });
        let ended = self.interval;
        self.flows.retain(|_, counted| counted.interval == ended);
        self.interval += 1;
        records
    }
}

impl Figures {
    fn to_record(&self, group: &Group, time: Time, interval_ns: Nanoseconds) -> RttAggregate {
        let quantile = |quantile| self.rtt.quantile(quantile).map(Nanoseconds);
        RttAggregate {
            time,
            interval_ns,
            flow: group.flow,
            network: group.network,
            vlan: group.vlan.0,
            inner_vlan: group.vlan.1,
            count: self.rtt.count(),
            min_rtt_ns: self.rtt.min().map(Nanoseconds),
            mean_rtt_ns: self.rtt.mean().map(Nanoseconds),
            p50_rtt_ns: quantile(0.5),
            p90_rtt_ns: quantile(0.9),
            p95_rtt_ns: quantile(0.95),
            p99_rtt_ns: quantile(0.99),
            max_rtt_ns: self.rtt.max().map(Nanoseconds),
            packets: self.packets,
            bytes: self.bytes,
            retransmitted: self.retransmitted,
            out_of_order: self.out_of_order,
            congestion_experienced: self.congestion_experienced,
            interface: group.interface,
        }
    }
}
