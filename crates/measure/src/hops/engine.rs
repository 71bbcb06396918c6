//! From events to records: what is known of every flow, what becomes of every probe, and what comes
//! next.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};

use super::event::{Answered, Event, Opened, Sent};
use super::flow::Flow;
use super::limits::Limits;
use super::multipath::{Multipath, ParallelPath};
use super::record::{Outcome, Paths, Report};
use super::schedule::{Outlook, Plan, Rate};
use super::share::{Destinations, ProbeBudget, ProbingRole, slow_down};
use crate::hops::native::HOPS_FLOWS;

/// Between decisions about rates.
const DECIDE: Duration = Duration::from_millis(250);
/// A flow without packets for so long is over.
const OVER: Duration = Duration::from_secs(60);
/// Intervals between comparisons of parallel paths.
const COMPARE: u32 = 10;

/// How flows are measured; which ones is [`super::Options`]' business.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How fast.
    pub rate: Rate,
    /// The highest TTL to probe, at most 32.
    pub highest_ttl: u8,
    /// A probe without an answer for so long is lost.
    pub timeout: Duration,
    /// Between summaries of hops.
    pub interval: Duration,
    /// A flow whose application is silent is probed for so long.
    pub idle: Duration,
    /// Tell of every probe.
    pub has_probes: bool,
    /// The flow is fathom's own, so that probes of any protocol may reach the destination: it drops
    /// them, and no application is there to be disturbed if it does not.
    pub is_own_flow: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            highest_ttl: 30,
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            idle: Duration::from_secs(10),
            has_probes: false,
            is_own_flow: false,
        }
    }
}

/// What probes were for, of those whose fate is known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purposes {
    /// They found a router.
    pub(crate) explored: u64,
    /// They asked one that was known.
    pub(crate) measured: u64,
    /// They went beyond the last one that is known.
    pub(crate) beyond: u64,
}

/// Where reports go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Report);

#[derive(Debug)]
pub(crate) struct Engine {
    settings: Settings,
    flows: BTreeMap<u32, Flow>,
    /// In the order of sending.
    order: VecDeque<(u64, u32)>,
    waiting: HashMap<u32, Sent>,
    decided: u64,
    summarized: u64,
    compared: u64,
    multipath: Multipath,
    limits: Limits,
    destinations: Destinations,
    budget: ProbeBudget,
    /// A flow waits whose path nobody knows.
    is_urgent: bool,
    /// What became of probes.
    pub(crate) purposes: Purposes,
    /// Makes the kernel's times those of the wall clock.
    pub(crate) offset_ns: u64,
    /// Answers to probes that had been called lost.
    pub(crate) late: u64,
}

impl Engine {
    pub(crate) fn new(settings: Settings, now: u64) -> Self {
        Self {
            settings,
            flows: BTreeMap::new(),
            order: VecDeque::new(),
            waiting: HashMap::new(),
            decided: now,
            summarized: now,
            compared: now,
            multipath: Multipath::default(),
            limits: Limits::default(),
            destinations: Destinations::default(),
            budget: ProbeBudget::new(now),
            is_urgent: false,
            purposes: Purposes::default(),
            offset_ns: 0,
            late: 0,
        }
    }

    /// Are there probes whose fate is not known yet?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Flows that ended and were left out of the comparison of parallel paths.
    pub(crate) fn forgotten(&self) -> u64 {
        self.multipath.forgotten
    }

    /// Flows that are open, and whether they are asked.
    pub(crate) fn open_flows(&self) -> Vec<(u32, bool)> {
        let open = self.flows.iter().filter(|(_, flow)| !flow.is_closed);
        open.map(|(number, flow)| (*number, flow.role != ProbingRole::Waiting))
            .collect()
    }

    /// The application of a flow sent something then.
    pub(crate) fn hear(&mut self, flow: u32, seen: u64) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.heard = flow.heard.max(seen);
            flow.sent = seen;
        }
    }

    /// So many packets of flows were seen since the start: they say how many probes there may be.
    pub(crate) fn watched(&mut self, packets: u64, now: u64) {
        self.budget.count(packets, now);
    }

    /// Whether a flow whose application was last seen then is to be probed without it: it is
    /// silent, but not for too long.
    pub(crate) fn is_silent(&self, seen: u64, now: u64) -> bool {
        let silence = now.saturating_sub(seen);
        silence > Nanoseconds::from(DECIDE).0 && silence < Nanoseconds::from(self.settings.idle).0
    }

    pub(crate) fn take(&mut self, event: &Event, report: Sink<'_>) {
        match event {
            Event::Opened(opened) => self.open(opened),
            Event::Sent(sent) => self.send(*sent),
            Event::Answered(answered) => self.answer(answered, report),
            Event::Clue(clue) => {
                if let Some(flow) = self.flows.get_mut(&clue.flow) {
                    flow.clue(*clue);
                }
            }
            Event::Followed(followed) => {
                if let Some(flow) = self.flows.get_mut(&followed.flow) {
                    flow.destination.take(followed);
                }
            }
            Event::Closed { flow } => {
                if let Some(flow) = self.flows.get_mut(flow) {
                    flow.is_closed = true;
                }
            }
        }
    }

    /// Time has passed: tells of lost probes, and, when an interval is over, of every hop. Returns
    /// what the kernel is to do from now on.
    pub(crate) fn tick(&mut self, now: u64, report: Sink<'_>) -> Vec<(u32, Plan)> {
        self.lose(
            now.saturating_sub(Nanoseconds::from(self.settings.timeout).0),
            report,
        );
        if now.saturating_sub(self.summarized) >= Nanoseconds::from(self.settings.interval).0 {
            self.summarize(now, false, report);
            self.forget(now);
        }
        if !self.is_urgent && now.saturating_sub(self.decided) < Nanoseconds::from(DECIDE).0 {
            return Vec::new();
        }
        (self.decided, self.is_urgent) = (now, false);
        for flow in self.flows.values_mut() {
            flow.watch(now, self.offset_ns, report);
        }
        self.decide(now)
    }

    /// The end of the measurement: probes still in flight are reported as lost, if they had their
    /// time, and every hop is.
    pub(crate) fn finish(&mut self, now: u64, report: Sink<'_>) {
        self.lose(
            now.saturating_sub(Nanoseconds::from(self.settings.timeout).0),
            report,
        );
        for flow in self.flows.values_mut() {
            flow.watch(now, self.offset_ns, report);
        }
        self.summarize(now, true, report);
    }

    fn open(&mut self, opened: &Opened) {
        self.is_urgent |= !self.settings.rate.is_asked
            && self.budget.left() >= 1.0
            && self.destinations.is_new(&opened.key);
        self.flows
            .insert(opened.flow, Flow::new(opened, &self.settings));
    }

    fn send(&mut self, sent: Sent) {
        self.budget.spend();
        if let Some(flow) = self.flows.get_mut(&sent.flow) {
            flow.heard = flow.heard.max(sent.time);
            flow.waiting += 1;
            self.destinations.ask(&flow.key, sent.ttl, sent.time);
        }
        self.order.push_back((sent.time, sent.probe));
        self.waiting.insert(sent.probe, sent);
    }

    fn answer(&mut self, answered: &Answered, report: Sink<'_>) {
        if answered.is_repeated {
            return;
        }
        let Some(sent) = self.waiting.remove(&answered.probe) else {
            self.late += 1;
            return;
        };
        let Some(flow) = self.flows.get_mut(&answered.flow) else {
            return;
        };
        flow.waiting = flow.waiting.saturating_sub(1);
        let deepest = flow.path.deepest();
        let known = deepest.max(self.destinations.of(&flow.key).deepest());
        let record = flow.answer(sent, answered, self.offset_ns);
        if record.outcome == Outcome::Answered {
            self.destinations.answer(&flow.key, sent.ttl);
        } else {
            self.destinations.lose(&flow.key, sent.ttl);
        }
        self.purposes.take(sent.ttl, known, record.outcome);
        if self.settings.has_probes {
            report(Report::Probe(record));
        }
    }

    /// Probes that were sent before `limit` and were not answered.
    fn lose(&mut self, limit: u64, report: Sink<'_>) {
        while self.order.front().is_some_and(|(sent, _)| *sent < limit) {
            let Some((_, number)) = self.order.pop_front() else {
                return;
            };
            let Some(sent) = self.waiting.remove(&number) else {
                continue;
            };
            if let Some(flow) = self.flows.get_mut(&sent.flow) {
                flow.waiting = flow.waiting.saturating_sub(1);
                self.destinations.lose(&flow.key, sent.ttl);
                let destination = self.destinations.of(&flow.key);
                let known = flow.path.deepest().max(destination.deepest());
                self.purposes.take(sent.ttl, known, Outcome::Lost);
                let record = flow.lose(sent, self.offset_ns);
                if self.settings.has_probes {
                    report(Report::Probe(record));
                }
            }
        }
    }

    /// Tells of every hop, and every so many intervals of parallel paths.
    fn summarize(&mut self, now: u64, is_end: bool, report: Sink<'_>) {
        let length = Nanoseconds(now.saturating_sub(self.summarized));
        self.summarized = now;
        let time = Time(now.wrapping_add(self.offset_ns));
        let until = now.saturating_sub(Nanoseconds::from(self.settings.timeout).0);
        let hops = self.flows.values().map(|flow| &flow.path.hops[..]);
        self.limits.learn(hops, until);
        for flow in self.flows.values_mut() {
            flow.summarize((time, length), until, &self.limits, report);
        }
        let since = self.compared;
        if is_end
            || now.saturating_sub(since) >= Nanoseconds::from(self.settings.interval * COMPARE).0
        {
            self.compared = now;
            let living = self.flows.values();
            let living = living.filter_map(|flow| flow.flow_path(since));
            for path in self.multipath.paths(living) {
                report(Report::Paths(paths(&path, time)));
            }
        }
    }

    /// Lets go of flows that are over.
    fn forget(&mut self, now: u64) {
        let (multipath, since) = (&mut self.multipath, self.compared);
        let newest = self.flows.last_key_value().map_or(0, |(number, _)| *number);
        self.flows.retain(|number, flow| {
            // Its slot in the kernel has gone to a newer one.
            flow.is_closed |= newest - number >= HOPS_FLOWS;
            let is_open = flow.waiting > 0
                || !flow.is_closed && now.saturating_sub(flow.heard) < Nanoseconds::from(OVER).0;
            if !is_open && let Some(flow_path) = flow.flow_path(since) {
                multipath.keep(flow_path);
            }
            is_open
        });
    }

    fn decide(&mut self, now: u64) -> Vec<(u32, Plan)> {
        let is_asked = self.settings.rate.is_asked;
        if !is_asked {
            self.destinations.dismiss(&mut self.flows, now);
            let left = self.budget.left();
            self.destinations.appoint(&mut self.flows, now, left);
        }
        let shared = Shared::of(self.flows.values(), now);
        let mut plans = Vec::new();
        for (number, flow) in &mut self.flows {
            if flow.role == ProbingRole::Waiting {
                continue;
            }
            let outlook = Outlook {
                role: flow.role,
                destination: (!is_asked).then(|| self.destinations.of(&flow.key)),
                routers: shared.routers.get(&flow.key.destination).copied(),
                peers: shared
                    .peers
                    .get(&flow.key.destination)
                    .copied()
                    .unwrap_or(1),
            };
            plans.push((*number, flow.decide(&outlook, &shared.parts, now)));
        }
        if !is_asked {
            slow_down(&mut plans, self.budget.per_second());
        }
        plans.retain_mut(|(number, plan)| {
            let flow = self.flows.get_mut(number);
            flow.is_some_and(|flow| {
                flow.follow(
                    plan,
                    (!is_asked)
                        .then(|| self.destinations.of(&flow.key))
                        .as_ref(),
                    now,
                )
            })
        });
        plans
    }
}

impl Purposes {
    /// A probe at `ttl` had this outcome, when there were `known` routers.
    fn take(&mut self, ttl: u8, known: u8, outcome: Outcome) {
        match outcome {
            Outcome::Answered if ttl > known => self.explored += 1,
            Outcome::Refused => self.beyond += 1,
            Outcome::Lost if ttl > known => self.beyond += 1,
            _ => self.measured += 1,
        }
    }
}

/// What flows share.
#[derive(Debug, Default)]
struct Shared {
    /// The parts of the open flows that a router is asked in.
    parts: HashMap<IpAddr, f64>,
    /// Routers before a destination: what one flow has learnt holds for others, too; the least is
    /// the safest.
    routers: HashMap<IpAddr, u8>,
    /// Flows to a destination that are asked.
    peers: HashMap<IpAddr, u32>,
}

impl Shared {
    fn of<'a>(flows: impl Iterator<Item = &'a Flow>, now: u64) -> Self {
        let mut shared = Self::default();
        for flow in flows {
            let (back, there) = (flow.path.routers_back(), flow.path.routers_there());
            for count in back.into_iter().chain(there) {
                let known = shared.routers.entry(flow.key.destination).or_insert(count);
                *known = count.min(*known);
            }
            if !flow.is_closed {
                for address in flow.path.hops.iter().filter_map(super::path::Hop::latest) {
                    *shared.parts.entry(address).or_default() += flow.part(now);
                }
            }
            if flow.role != ProbingRole::Waiting {
                *shared.peers.entry(flow.key.destination).or_default() += 1;
            }
        }
        shared
    }
}

fn paths(path: &ParallelPath, time: Time) -> Paths {
    Paths {
        time,
        network: path.destination,
        number: path.number,
        path: path.text(),
        flows: path.flows,
        rtt_p50_ns: path.rtt_ns.map(Nanoseconds),
        compared: path.compared,
        verdict: path.verdict,
        p_value: path.p_value,
    }
}
