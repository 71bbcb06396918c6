//! From events to records: what is known of every flow, what becomes of every probe, and what comes next.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{Nanoseconds, Time};

use super::balance::{Balance, Way};
use super::event::{Answered, Event, Opened, Sent};
use super::flow::Flow;
use super::limits::Limits;
use super::record::{Paths, Report};
use super::schedule::{Plan, Rate};

/// Between decisions about rates.
const DECIDE: Duration = Duration::from_millis(250);
/// A flow without packets for so long is over.
const OVER: Duration = Duration::from_secs(60);
/// Intervals between comparisons of ways.
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
}

/// Where reports go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Report);

/// The engine.
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
    balance: Balance,
    limits: Limits,
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
            balance: Balance::default(),
            limits: Limits::default(),
            offset_ns: 0,
            late: 0,
        }
    }

    /// Flows that are probed now.
    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Are there probes whose fate is not known yet?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Flows that ended and were left out of the comparison of ways.
    pub(crate) fn forgotten(&self) -> u64 {
        self.balance.forgotten
    }

    /// Flows that are open.
    pub(crate) fn open_flows(&self) -> impl Iterator<Item = u32> {
        let open = self.flows.iter().filter(|(_, flow)| !flow.is_closed);
        open.map(|(number, _)| *number)
    }

    /// Whether a flow whose application was last seen then is to be probed without it: it is silent, but not for too long.
    pub(crate) fn is_silent(&self, seen: u64, now: u64) -> bool {
        let silence = now.saturating_sub(seen);
        silence > Nanoseconds::from(DECIDE).0 && silence < Nanoseconds::from(self.settings.idle).0
    }

    /// Takes an event.
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
            Event::Closed { flow } => {
                if let Some(flow) = self.flows.get_mut(flow) {
                    flow.is_closed = true;
                }
            }
        }
    }

    /// Time has passed: tells of lost probes, and, when an interval is over, of every hop. Returns what the kernel is to do from now on.
    pub(crate) fn tick(&mut self, now: u64, report: Sink<'_>) -> Vec<(u32, Plan)> {
        self.lose(
            now.saturating_sub(Nanoseconds::from(self.settings.timeout).0),
            report,
        );
        if now.saturating_sub(self.summarized) >= Nanoseconds::from(self.settings.interval).0 {
            self.summarize(now, false, report);
            self.forget(now);
        }
        if now.saturating_sub(self.decided) < Nanoseconds::from(DECIDE).0 {
            return Vec::new();
        }
        self.decided = now;
        for flow in self.flows.values_mut() {
            flow.watch(now, self.offset_ns, report);
        }
        self.decide(now)
    }

    /// The end of the measurement: what is still on the way is told of as lost, if it had its time, and every hop is.
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
        self.flows
            .insert(opened.flow, Flow::new(opened, &self.settings));
    }

    fn send(&mut self, sent: Sent) {
        if let Some(flow) = self.flows.get_mut(&sent.flow) {
            flow.heard = sent.time;
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
        let record = flow.answer(sent, answered, self.offset_ns);
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
                let record = flow.lose(sent, self.offset_ns);
                if self.settings.has_probes {
                    report(Report::Probe(record));
                }
            }
        }
    }

    /// Tells of every hop, and every so many intervals of ways.
    fn summarize(&mut self, now: u64, is_end: bool, report: Sink<'_>) {
        self.summarized = now;
        let time = Time(now.wrapping_add(self.offset_ns));
        let until = now.saturating_sub(Nanoseconds::from(self.settings.timeout).0);
        let hops = self.flows.values().map(|flow| &flow.path.hops[..]);
        self.limits.learn(hops, until);
        for flow in self.flows.values_mut() {
            flow.summarize(time, until, &self.limits, report);
        }
        let since = self.compared;
        if is_end
            || now.saturating_sub(since) >= Nanoseconds::from(self.settings.interval * COMPARE).0
        {
            self.compared = now;
            let living = self.flows.values();
            let living = living.filter_map(|flow| flow.sighting(since));
            for way in self.balance.ways(living) {
                report(Report::Paths(paths(&way, time)));
            }
        }
    }

    /// Lets go of flows that are over.
    fn forget(&mut self, now: u64) {
        let (balance, since) = (&mut self.balance, self.compared);
        self.flows.retain(|_, flow| {
            let is_open =
                !flow.is_closed && now.saturating_sub(flow.heard) < Nanoseconds::from(OVER).0;
            if !is_open && let Some(sighting) = flow.sighting(since) {
                balance.keep(sighting);
            }
            is_open
        });
    }

    fn decide(&mut self, now: u64) -> Vec<(u32, Plan)> {
        let mut askers: HashMap<IpAddr, u32> = HashMap::new();
        // What one flow to a destination has learnt holds for others, too; the least is the safest.
        let mut routers: HashMap<IpAddr, u8> = HashMap::new();
        for flow in self.flows.values() {
            for count in flow
                .path
                .routers_back()
                .into_iter()
                .chain(flow.path.routers_there())
            {
                let known = routers.entry(flow.key.destination).or_insert(count);
                *known = count.min(*known);
            }
            for address in flow.path.hops.iter().filter_map(super::path::Hop::latest) {
                *askers.entry(address).or_default() += 1;
            }
        }
        let mut changed = Vec::new();
        for (number, flow) in &mut self.flows {
            let is_hurried = flow.route.is_hurried(now);
            let Flow {
                key,
                path,
                schedule,
                plan,
                ..
            } = flow;
            let sharing = |ttl: u8| {
                let hop = path.hops.get(usize::from(ttl) - 1);
                let address = hop.and_then(super::path::Hop::latest);
                address
                    .and_then(|address| askers.get(&address).copied())
                    .unwrap_or(1)
            };
            let next = schedule.plan(path, routers.get(&key.destination).copied(), sharing);
            if is_hurried || plan.as_ref() != Some(&next) {
                *plan = Some(next.clone());
                changed.push((*number, Plan { is_hurried, ..next }));
            }
        }
        changed
    }
}

fn paths(way: &Way, time: Time) -> Paths {
    Paths {
        time,
        network: way.destination,
        number: way.number,
        path: way.text(),
        flows: way.flows,
        rtt_p50_ns: way.rtt_ns.map(Nanoseconds),
        compared: way.compared,
        verdict: way.verdict,
        p_value: way.p_value,
    }
}
