//! Epochs put together: by flow, by server, by service, by network of clients.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::ops::Range;

use fathom_record::{FlowKey, Histogram, Nanoseconds, Network, Port, Protocol, Time};

use super::{Confidence, ResponseAggregate, ResponseEpoch};
use crate::by_slot::{BySlot, Own};
use crate::flow::flow_of;
#[cfg(feature = "live")]
use crate::native::flow_key;
use crate::replay::ShortNames;

/// What epochs are put together by. Each group is of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// By flow.
    Flow,
    /// By the address of the server.
    Server,
    /// By the protocol, address and port of the server.
    Service,
    /// By the network of the client.
    Network,
}

/// How epochs are put together.
#[derive(Debug, Clone, Copy)]
pub struct Grouping {
    /// By what.
    pub by: GroupBy,
    /// Bits of an IPv4 network of clients.
    pub prefix_v4: u8,
    /// Bits of an IPv6 network of clients.
    pub prefix_v6: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    ends: Ends,
    interface: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ends {
    Flow(FlowKey),
    Server(IpAddr),
    Service(Protocol, IpAddr, u16),
    Network(Option<Network>),
}

impl Ends {
    fn of(flow: &FlowKey, grouping: Grouping) -> Self {
        match grouping.by {
            GroupBy::Flow => Self::Flow(*flow),
            GroupBy::Server => Self::Server(flow.destination),
            GroupBy::Service => {
                Self::Service(flow.protocol, flow.destination, flow.destination_port)
            }
            GroupBy::Network => {
                let bits = match flow.source {
                    IpAddr::V4(_) => grouping.prefix_v4,
                    IpAddr::V6(_) => grouping.prefix_v6,
                };
                Self::Network(Network::new(flow.source, bits).ok())
            }
        }
    }
}

#[derive(Debug, Default)]
struct Group {
    waits: Waits,
    /// Not by flow; by the hash of their ends: a set of flows would take more memory than all else.
    flows: HashSet<u64>,
}

/// What clients waited.
#[derive(Debug, Default)]
struct Waits {
    histogram: Histogram,
    sure: u64,
    /// Nanoseconds.
    waiting: u64,
    /// What clients thought, together, in nanoseconds, and before how many requests.
    thought: u64,
    thoughts: u32,
    epochs: u32,
    without: u32,
    timeouts: u32,
}

impl Waits {
    fn add(&mut self, epoch: &ResponseEpoch) {
        self.epochs += 1;
        self.timeouts += epoch.timeout_gaps;
        let waiting = epoch.waiting_ns.unwrap_or_default();
        self.waiting = self.waiting.max(waiting.0);
        let Some(latency) = epoch.latency_ns else {
            self.without += 1;
            return;
        };
        self.histogram
            .record_many(latency.0, epoch.causal_gaps.into());
        if let Some(think) = epoch.think_ns {
            self.thought += think.0 * u64::from(epoch.causal_gaps);
            self.thoughts += epoch.causal_gaps;
        }
        if epoch.confidence == Confidence::High {
            self.sure += u64::from(epoch.causal_gaps);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.sure += other.sure;
        self.waiting = self.waiting.max(other.waiting);
        self.thought += other.thought;
        self.thoughts += other.thoughts;
        self.epochs += other.epochs;
        self.without += other.without;
        self.timeouts += other.timeouts;
    }
}

/// A flow in the table. Kept small: there may be very many.
struct Known {
    waits: Waits,
    /// Of its requests.
    direction: u8,
    /// Among the names.
    interface: u16,
}

impl Own<Known> {
    fn key(&self, interfaces: &ShortNames) -> Key {
        Key {
            ends: Ends::Flow(flow_of(&self.key, self.state.direction)),
            interface: interfaces.name(self.state.interface),
        }
    }
}

/// Puts the epochs of an interval together. It has as many groups as there are flows, servers,
/// services or networks in it.
pub struct ResponseAggregator {
    grouping: Grouping,
    groups: HashMap<Key, Group>,
    /// By flow: those whose slot in the table of flows is known.
    slots: BySlot<Known>,
    interfaces: ShortNames,
    hashing: RandomState,
}

impl ResponseAggregator {
    /// Nothing seen yet.
    pub fn new(grouping: Grouping) -> Self {
        Self {
            grouping,
            groups: HashMap::new(),
            slots: BySlot::new(),
            interfaces: ShortNames::default(),
            hashing: RandomState::new(),
        }
    }

    fn key(&self, epoch: &ResponseEpoch) -> Key {
        Key {
            ends: Ends::of(&epoch.flow, self.grouping),
            interface: epoch.interface,
        }
    }

    /// Takes an epoch in.
    pub fn take(&mut self, epoch: &ResponseEpoch) {
        let key = self.key(epoch);
        let group = self.groups.entry(key).or_default();
        group.waits.add(epoch);
        if epoch.latency_ns.is_some() && self.grouping.by != GroupBy::Flow {
            group.flows.insert(self.hashing.hash_one(epoch.flow));
        }
    }

    /// Takes an epoch in, of the flow that is, or was, in this slot of the table of flows, and
    /// whose requests have this direction.
    #[cfg(feature = "live")]
    pub(super) fn take_at(
        &mut self,
        slot: u32,
        flow: &flow_key,
        direction: u8,
        epoch: &ResponseEpoch,
    ) {
        if self.grouping.by != GroupBy::Flow {
            return self.take(epoch);
        }
        let is_own = |own: &Known| own.direction == direction;
        let (own, gone) = self.slots.claim(slot, flow, is_own, || Known {
            waits: Waits::default(),
            direction,
            interface: self.interfaces.index_of(epoch.interface),
        });
        own.waits.add(epoch);
        if let Some(gone) = gone {
            let group = self.groups.entry(gone.key(&self.interfaces)).or_default();
            group.waits.merge(&gone.state.waits);
        }
    }

    /// Ends the interval of this `length` at `time`, and begins another.
    pub fn end_interval(&mut self, time: Time, length: Nanoseconds) -> ResponseInterval {
        self.end_portion(0..u32::MAX, true, time, length)
    }

    /// The same for flows in these slots, and if they are the last ones for all other groups.
    pub(super) fn end_portion(
        &mut self,
        slots: Range<u32>,
        is_last: bool,
        time: Time,
        length: Nanoseconds,
    ) -> ResponseInterval {
        let (kept, interfaces, mut groups) = (&mut self.groups, &self.interfaces, Vec::new());
        self.slots.retain(slots, |own| {
            let (key, waits) = (own.key(interfaces), std::mem::take(&mut own.state.waits));
            if waits.epochs == 0 {
                // A flow that is over, or silent for long.
                return false;
            }
            match kept.get_mut(&key) {
                Some(kept) => kept.waits.merge(&waits),
                None => groups.push((key, waits, 0)),
            }
            true
        });
        if is_last {
            let others = kept.drain();
            groups.extend(others.map(|(key, group)| (key, group.waits, group.flows.len())));
        }
        groups
            .sort_by_cached_key(|(_, waits, _)| std::cmp::Reverse(waits.histogram.quantile(0.99)));
        ResponseInterval {
            groups: groups.into_iter(),
            time,
            length,
        }
    }
}

/// The records of an interval that is over, the slowest group first. There may be very many: each
/// is made when it is asked for.
#[derive(Debug)]
pub struct ResponseInterval {
    /// With the number of flows, where it is not one.
    groups: std::vec::IntoIter<(Key, Waits, usize)>,
    time: Time,
    length: Nanoseconds,
}

impl Iterator for ResponseInterval {
    type Item = ResponseAggregate;

    fn next(&mut self) -> Option<ResponseAggregate> {
        let (Key { ends, interface }, waits, flows) = self.groups.next()?;
        let quantile = |part| waits.histogram.quantile(part).map(Nanoseconds);
        let count = waits.histogram.count();
        let flow = match ends {
            Ends::Flow(flow) => Some(flow),
            _ => None,
        };
        let (protocol, server, port) = match ends {
            Ends::Flow(flow) => (
                Some(flow.protocol),
                Some(flow.destination),
                Some(flow.destination_port),
            ),
            Ends::Service(protocol, server, port) => (Some(protocol), Some(server), Some(port)),
            Ends::Server(server) => (None, Some(server), None),
            Ends::Network(_) => (None, None, None),
        };
        Some(ResponseAggregate {
            time: self.time,
            protocol,
            source: flow.map(|flow| flow.source),
            source_port: flow.map(|flow| Port(flow.source_port)),
            destination: server,
            destination_port: port.map(Port),
            community_id: flow.map(|flow| flow.community_id()),
            network: match ends {
                Ends::Network(network) => network,
                _ => None,
            },
            duration_ns: self.length,
            flows: match ends {
                Ends::Flow(_) => u64::from(waits.epochs > waits.without),
                _ => flows as u64,
            },
            responses_per_second: count as f64 * 1e9 / self.length.0.max(1) as f64,
            latency_min_ns: waits.histogram.min().map(Nanoseconds),
            latency_mean_ns: waits.histogram.mean().map(Nanoseconds),
            latency_p50_ns: quantile(0.5),
            latency_p90_ns: quantile(0.9),
            latency_p95_ns: quantile(0.95),
            latency_p99_ns: quantile(0.99),
            latency_max_ns: waits.histogram.max().map(Nanoseconds),
            think_ns: waits
                .thought
                .checked_div(waits.thoughts.into())
                .map(Nanoseconds),
            sure: waits.sure as f64 / count.max(1) as f64,
            epochs_without: waits.without.into(),
            timeout_gaps: waits.timeouts.into(),
            waiting_ns: (waits.waiting > 0).then_some(Nanoseconds(waits.waiting)),
            interface,
            latency_histogram: waits.histogram,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.groups.size_hint()
    }
}

impl ExactSizeIterator for ResponseInterval {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Estimator;
    use fathom_record::FlowKey;

    fn epoch(client: u8, server: u8, latency_ms: Option<u64>, causal_gaps: u32) -> ResponseEpoch {
        ResponseEpoch {
            time: Time(1),
            flow: FlowKey {
                protocol: Protocol::TCP,
                source: IpAddr::from([10, 0, client, 1]),
                source_port: 40_000,
                destination: IpAddr::from([192, 0, 2, server]),
                destination_port: 443,
            },
            duration_ns: Nanoseconds(500_000_000),
            latency_ns: latency_ms.map(|ms| Nanoseconds(ms * 1_000_000)),
            think_ns: None,
            reverse_latency_ns: None,
            confidence: if latency_ms.is_some() {
                Confidence::High
            } else {
                Confidence::Low
            },
            causal_gaps,
            concurrency: None,
            timeout_gaps: 0,
            idle_gaps: 0,
            packets_repeated: 0,
            waiting_ns: None,
            handshake_ns: None,
            reason: None,
            estimator: Estimator::Split,
            vlan: None,
            inner_vlan: None,
            tunnel: None,
            interface: "eth0",
        }
    }

    fn aggregate(by: GroupBy, epochs: &[ResponseEpoch]) -> Vec<ResponseAggregate> {
        let mut aggregator = ResponseAggregator::new(Grouping {
            by,
            prefix_v4: 16,
            prefix_v6: 48,
        });
        for epoch in epochs {
            aggregator.take(epoch);
        }
        let second = Nanoseconds(1_000_000_000);
        let records = aggregator.end_interval(Time(9), second).collect();
        let next = aggregator.end_interval(Time(10), second);
        assert_eq!(next.count(), 0, "an interval without epochs");
        records
    }

    #[test]
    fn flows_weigh_as_much_as_they_wait() {
        let epochs = [
            epoch(1, 1, Some(10), 99),
            epoch(2, 1, Some(1000), 1),
            epoch(3, 1, None, 0),
            epoch(1, 2, Some(20), 5),
        ];
        let records = aggregate(GroupBy::Server, &epochs);
        assert_eq!(records.len(), 2);
        // The slowest first: its p99 is 20 ms; that of the other 10 ms, since only one wait in a
        // hundred is longer.
        let [second, first] = [&records[0], &records[1]];
        assert_eq!(second.destination, Some(IpAddr::from([192, 0, 2, 2])));
        assert_eq!((first.flows, first.epochs_without), (2, 1));
        assert!((first.responses_per_second - 100.0).abs() < 1e-9);
        assert_eq!(first.latency_mean_ns, Some(Nanoseconds(19_900_000)));
        let p50 = first.latency_p50_ns.unwrap().0;
        assert!((9_800_000..=10_200_000).contains(&p50), "{p50}");
    }

    #[test]
    fn thinking_is_averaged_where_it_is_known() {
        let thinking = |think_ms: u64, causal_gaps| ResponseEpoch {
            think_ns: Some(Nanoseconds(think_ms * 1_000_000)),
            ..epoch(1, 1, Some(10), causal_gaps)
        };
        let unknown = epoch(1, 1, Some(10), 50);
        let epochs = [thinking(20, 1), thinking(60, 3), unknown];
        assert_eq!(
            aggregate(GroupBy::Flow, &epochs)[0].think_ns,
            Some(Nanoseconds(50_000_000))
        );
        assert_eq!(aggregate(GroupBy::Flow, &epochs[2..])[0].think_ns, None);
    }

    #[test]
    fn clients_are_put_together_by_their_network() {
        let epochs = [epoch(1, 1, Some(1), 5), epoch(2, 2, Some(3), 5)];
        let records = aggregate(GroupBy::Network, &epochs);
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].network, Some("10.0.0.0/16".parse().unwrap()));
        assert_eq!(aggregate(GroupBy::Service, &epochs).len(), 2);
    }
}
