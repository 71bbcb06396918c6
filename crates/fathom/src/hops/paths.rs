//! What is known of every flow's path since the start: for the table, and for the graph.

use std::net::IpAddr;
use std::sync::Arc;

use fathom_measure::hops::{HopProbe, HopSummary, Outcome, RouteChange};
use fathom_record::{FlowKey, Histogram, Record, Squares};

use crate::table::Recent;

/// The paths of flows.
#[derive(Clone)]
pub(super) struct Paths {
    pub(super) flows: Recent<FlowKey, Path>,
    /// Probes whose fate is known, since the start.
    pub(super) probes: u64,
}

/// The path of a flow.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) flow: FlowKey,
    /// By TTL, from 1.
    hops: Vec<Hop>,
    /// The destination, and the TTL that seems to reach it, if the flow's own packets tell of it.
    destination: Option<(usize, Hop)>,
    /// Probes whose fate is known.
    pub(super) probes: u64,
}

/// A router on a path, or where one may be; or the destination.
#[derive(Debug, Default, Clone)]
pub(super) struct Hop {
    /// Who answered last.
    pub(super) responder: Option<IpAddr>,
    pub(super) name: Option<Arc<str>>,
    pub(super) as_number: Option<u32>,
    /// Probes whose fate is known.
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Why, of the last interval in which some were.
    pub(super) silence: Option<&'static str>,
    pub(super) last_ns: Option<u64>,
    pub(super) rtts: Histogram,
    squares: Squares,
    /// The queue of the last interval.
    pub(super) queue_ns: Option<u64>,
    pub(super) marks: Option<Arc<str>>,
}

impl Paths {
    pub(super) fn new() -> Self {
        Self {
            flows: Recent::new(),
            probes: 0,
        }
    }

    /// Takes what the measurement tells.
    pub(super) fn take(&mut self, record: &dyn Record) {
        if let Some(probe) = record.downcast_ref::<HopProbe>() {
            self.probes += 1;
            let path = self.path(probe.flow);
            path.probes += 1;
            path.hop(probe.ttl).probe(probe);
        } else if let Some(summary) = record.downcast_ref::<HopSummary>() {
            self.path(summary.flow).summary(summary);
        } else if let Some(change) = record.downcast_ref::<RouteChange>() {
            // What was measured from there on is of other routers.
            let kept = usize::from(change.ttl.max(1)) - 1;
            self.path(change.flow).hops.truncate(kept);
        }
    }

    fn path(&mut self, flow: FlowKey) -> &mut Path {
        self.flows.row(flow, || Path {
            flow,
            hops: Vec::new(),
            destination: None,
            probes: 0,
        })
    }
}

impl Path {
    fn hop(&mut self, ttl: u8) -> &mut Hop {
        let ttl = usize::from(ttl.max(1));
        if self.hops.len() < ttl {
            self.hops.resize_with(ttl, Hop::default);
        }
        &mut self.hops[ttl - 1]
    }

    /// Takes a summary. Of routers every probe is told; of the destination there is nothing else.
    fn summary(&mut self, summary: &HopSummary) {
        let ttl = usize::from(summary.ttl);
        let hop = self.hops.get(ttl.wrapping_sub(1));
        let answers_probes = hop.is_some_and(|hop| hop.responder == Some(self.flow.destination));
        if !summary.is_destination || answers_probes {
            return self.hop(summary.ttl).summary(summary);
        }
        let (known_ttl, hop) = self.destination.get_or_insert_default();
        *known_ttl = ttl;
        hop.responder = summary.responder;
        hop.sent += summary.probes_sent;
        hop.lost += summary.probes_lost;
        hop.last_ns = summary.rtt_last_ns.map(|rtt| rtt.0).or(hop.last_ns);
        if let Some(deviation) = summary.rtt_stdev_ns {
            hop.squares.add(&summary.rtt_histogram, deviation.0);
        }
        hop.rtts.merge(&summary.rtt_histogram);
        hop.summary(summary);
    }

    /// The destination, with the TTL that seems to reach it.
    pub(super) fn destination(&self) -> Option<(usize, &Hop)> {
        let (ttl, hop) = self.destination.as_ref()?;
        Some((*ttl, hop))
    }

    /// All hops that are known, and the destination.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &Hop)> {
        self.hops().chain(self.destination())
    }

    /// Is this the destination?
    pub(super) fn is_destination(&self, hop: &Hop) -> bool {
        hop.responder == Some(self.flow.destination)
    }

    /// The hops with their TTLs, to the deepest that has answered: nobody is known to be behind it.
    pub(super) fn hops(&self) -> impl Iterator<Item = (usize, &Hop)> {
        let deepest = self
            .hops
            .iter()
            .rposition(|hop| hop.responder.is_some())
            .map_or(0, |index| index + 1);
        (1..).zip(&self.hops[..deepest])
    }

    /// The 99th percentile of the slowest hop's round trips, ns.
    pub(super) fn slowest_ns(&self) -> u64 {
        let hops = self.hops.iter();
        hops.filter_map(|hop| hop.rtts.quantile(0.99))
            .max()
            .unwrap_or_default()
    }
}

impl Hop {
    fn probe(&mut self, probe: &HopProbe) {
        self.sent += 1;
        self.lost += u64::from(probe.outcome == Outcome::Lost);
        if probe.responder.is_some() && probe.responder != self.responder {
            // What was known is of another router.
            self.responder = probe.responder;
            self.name = None;
            self.as_number = None;
        }
        if let Some(rtt) = probe.rtt_ns {
            self.last_ns = Some(rtt.0);
            self.rtts.record(rtt.0);
            self.squares.record(rtt.0);
        }
    }

    fn summary(&mut self, summary: &HopSummary) {
        if summary.responder == self.responder {
            self.name.clone_from(&summary.responder_name);
            self.as_number = summary.as_number;
        }
        if summary.probes_lost > 0 {
            self.silence = summary.silence;
        }
        self.queue_ns = summary.queue_ns.map(|queue| queue.0);
        self.marks.clone_from(&summary.marks);
    }

    /// The share of probes that were lost, in percent.
    pub(super) fn loss_percent(&self) -> f64 {
        self.lost as f64 * 100.0 / self.sent.max(1) as f64
    }

    /// The standard deviation of its round trips, ns.
    pub(super) fn deviation_ns(&self) -> Option<u64> {
        self.squares.deviation(&self.rtts)
    }

    /// By how much the median of its round trips exceeds the least, ns.
    pub(super) fn excess_ns(&self) -> Option<u64> {
        let least = self.rtts.min()?;
        Some(self.rtts.quantile(0.5)?.saturating_sub(least))
    }

    /// Its name and system, as far as they are known.
    pub(super) fn title(&self) -> String {
        let mut title = match (self.responder, &self.name) {
            (Some(address), Some(name)) => format!("{name} ({address})"),
            (Some(address), None) => address.to_string(),
            (None, _) => "no answer".to_owned(),
        };
        if let Some(number) = self.as_number {
            title.push_str(" AS");
            title.push_str(&number.to_string());
        }
        title
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fathom_record::{Nanoseconds, Protocol, Time};

    use super::*;

    /// A flow from this port.
    pub(in crate::hops) fn flow(source_port: u16) -> FlowKey {
        FlowKey {
            protocol: Protocol::TCP,
            source: [10, 78, 1, 1].into(),
            source_port,
            destination: [10, 78, 4, 2].into(),
            destination_port: 443,
        }
    }

    /// What became of a probe; without a router nobody answered.
    pub(in crate::hops) fn probe(
        source_port: u16,
        ttl: u8,
        answer: Option<([u8; 4], u64)>,
    ) -> HopProbe {
        HopProbe {
            time: Time(0),
            flow: flow(source_port),
            ttl,
            outcome: answer.map_or(Outcome::Lost, |_| Outcome::Answered),
            responder: answer.map(|(router, _)| router.into()),
            rtt_ns: answer.map(|(_, rtt_ns)| Nanoseconds(rtt_ns)),
            answer_time: None,
            probe: 1,
            is_idle: false,
            length_bytes: 40,
            is_edited: false,
            extracted: None,
            reply_ttl: None,
            icmp_type_code: None,
            mpls: None,
            router_interface: None,
            changed: None,
            sequence: None,
            answer_identification: None,
            cpu: None,
            interface: "eth0",
        }
    }

    /// A summary of router 10.78.`ttl`.2.
    pub(in crate::hops) fn summary(source_port: u16, ttl: u8) -> HopSummary {
        HopSummary {
            time: Time(0),
            duration_ns: Nanoseconds(1_000_000_000),
            flow: flow(source_port),
            ttl,
            responder: Some([10, 78, ttl, 2].into()),
            is_destination: false,
            responder_name: None,
            as_number: None,
            probes_sent: 10,
            probes_lost: 0,
            silence: None,
            rtt_last_ns: None,
            rtt_min_ns: None,
            rtt_mean_ns: None,
            rtt_stdev_ns: None,
            rtt_p50_ns: None,
            rtt_p90_ns: None,
            rtt_p95_ns: None,
            rtt_p99_ns: None,
            rtt_max_ns: None,
            queue_ns: None,
            routers_back: None,
            marks: None,
            interface: "eth0",
            rtt_histogram: Histogram::new(),
        }
    }

    #[test]
    fn a_path_ends_where_answers_do() {
        let mut paths = Paths::new();
        for ttl in 1..=5 {
            let is_router = matches!(ttl, 1 | 3);
            paths.take(&probe(1, ttl, is_router.then_some(([10, 78, ttl, 2], 5))));
        }
        let path = paths.flows.all().next().unwrap();
        let titles: Vec<_> = path.hops().map(|(ttl, hop)| (ttl, hop.title())).collect();
        assert_eq!(
            titles,
            [
                (1, "10.78.1.2".to_owned()),
                (2, "no answer".to_owned()),
                (3, "10.78.3.2".to_owned())
            ]
        );
        assert_eq!(path.probes, 5);
    }

    #[test]
    fn a_name_is_that_of_the_router() {
        let mut paths = Paths::new();
        paths.take(&probe(1, 1, Some(([10, 78, 1, 2], 5))));
        let mut named = summary(1, 1);
        named.responder_name = Some("gateway".into());
        named.as_number = Some(64_500);
        paths.take(&named);
        let title = |paths: &Paths| {
            let path = paths.flows.all().next().unwrap();
            path.hops().next().unwrap().1.title()
        };
        assert_eq!(title(&paths), "gateway (10.78.1.2) AS64500");
        paths.take(&probe(1, 1, Some(([10, 79, 1, 2], 5))));
        assert_eq!(title(&paths), "10.79.1.2");
    }

    /// The flow from this port passes another router 2.
    pub(in crate::hops) fn change(source_port: u16) -> RouteChange {
        RouteChange {
            time: Time(0),
            flow: flow(source_port),
            change: "route",
            ttl: 2,
            old: [10, 78, 2, 2].into(),
            new: [10, 79, 2, 2].into(),
            old_length: 3,
            new_length: 3,
            interface: "eth0",
        }
    }

    #[test]
    fn another_route_has_other_hops() {
        let mut paths = Paths::new();
        for ttl in 1..=3 {
            paths.take(&probe(1, ttl, Some(([10, 78, ttl, 2], 5))));
        }
        paths.take(&change(1));
        paths.take(&probe(1, 2, Some(([10, 79, 2, 2], 7))));
        let path = paths.flows.all().next().unwrap();
        let minima: Vec<_> = path.hops().map(|(_, hop)| hop.rtts.min()).collect();
        assert_eq!(minima, [Some(5), Some(7)]);
    }
}
