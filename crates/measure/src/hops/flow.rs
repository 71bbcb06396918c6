//! The state of a flow that is probed, and its records.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{FlowKey, Nanoseconds, Protocol, Time};

use super::change::Route;
use super::destination::DestinationTrips;
use super::engine::{Settings, Sink};
use super::event::{Answered, Clue, Opened, Sent};
use super::limits::Limits;
use super::multipath::FlowPath;
use super::oneway::{OneWay, Reply};
use super::path::{Hop, Interval, Path};
use super::queue::{Queues, WINDOW_NS, direction};
use super::record::{Congestion, HopProbe, HopSummary, Outcome, Report, RouteChange};
use super::schedule::{Outlook, Plan, Schedule};
use super::share::{Destination, ProbingRole};
use super::silence::{Application, Silence, Traffic, silence};
use super::{Extensions, Marks, Quoted};

/// A flow whose application was silent for so long gives way to others.
const QUIET: Duration = Duration::from_secs(2);
/// Its part in what a router is asked then, beside 1 of a flow with packets: a host has many flows
/// that are over and do not say so, such as lookups of names.
const QUIET_PART: f64 = 0.125;

/// A flow that is probed.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// That it leaves by.
    interface: &'static str,
    pub(super) path: Path,
    pub(super) destination: DestinationTrips,
    pub(super) route: Route,
    pub(super) schedule: Schedule,
    pub(super) plan: Option<Plan>,
    /// Whether it is asked, and for whom.
    pub(super) role: ProbingRole,
    pub(super) is_closed: bool,
    /// Its probes whose fate is not known yet.
    pub(super) waiting: u32,
    /// When it was opened.
    pub(super) opened: u64,
    /// When something was last heard of it.
    pub(super) heard: u64,
    /// When its application last sent something.
    pub(super) sent: u64,
    application: Application,
    queues: Queues,
    one_way: OneWay,
    /// When it took the way that it takes.
    rerouted: u64,
}

impl Flow {
    pub(super) fn new(opened: &Opened, settings: &Settings) -> Self {
        let is_safe = settings.is_own_flow || opened.key.protocol == Protocol::TCP;
        Self {
            key: opened.key,
            interface: opened.interface,
            path: Path::default(),
            destination: DestinationTrips::default(),
            route: Route::default(),
            schedule: Schedule::new(settings.rate, settings.highest_ttl, is_safe),
            plan: None,
            role: if settings.rate.is_asked {
                ProbingRole::Own
            } else {
                ProbingRole::Waiting
            },
            is_closed: false,
            waiting: 0,
            opened: opened.time,
            heard: opened.time,
            sent: opened.time,
            application: Application::default(),
            queues: Queues::default(),
            one_way: OneWay::default(),
            rerouted: 0,
        }
    }

    /// Its part in the rate of a router that it passes, beside the parts of other flows.
    pub(super) fn part(&self, now: u64) -> f64 {
        if now.saturating_sub(self.sent) > Nanoseconds::from(QUIET).0 {
            QUIET_PART
        } else {
            1.0
        }
    }

    /// How often it is to be asked from now on. `parts`: those of open flows, by router.
    pub(super) fn decide(
        &mut self,
        outlook: &Outlook,
        parts: &HashMap<IpAddr, f64>,
        now: u64,
    ) -> Plan {
        let (path, own) = (&self.path, self.part(now));
        let share = |ttl: u8| {
            let hop = path.hops.get(usize::from(ttl) - 1);
            let address = hop.and_then(Hop::latest);
            let all = address.and_then(|address| parts.get(&address));
            all.map_or(1.0, |all| own / all.max(own))
        };
        self.schedule.plan(path, outlook, share)
    }

    /// Takes a plan. Returns whether the kernel is to be told of it, which then holds what it must
    /// know besides.
    pub(super) fn follow(
        &mut self,
        plan: &mut Plan,
        destination: Option<&Destination>,
        now: u64,
    ) -> bool {
        let is_hurried = self.route.is_hurried(now);
        if !is_hurried && self.plan.as_ref() == Some(plan) {
            return false;
        }
        let is_first = self.plan.replace(plan.clone()).is_none();
        plan.is_hurried = is_hurried;
        if let Some(destination) = destination.filter(|_| is_first) {
            // What was asked lately need not be asked again, but that a flow that is asked for
            // itself may have a way of its own.
            let is_own = self.role == ProbingRole::Own;
            let deepest = destination.deepest();
            plan.dues = Some(Box::new(std::array::from_fn(|index| {
                let ttl = index as u8 + 1;
                if is_own && ttl <= deepest {
                    0
                } else {
                    destination.due(ttl, plan.intervals_us[index])
                }
            })));
        }
        true
    }

    /// Takes the answer to a probe. Returns the probe's record.
    pub(super) fn answer(&mut self, sent: Sent, answered: &Answered, offset_ns: u64) -> HopProbe {
        let (ttl, responder) = (answered.ttl, answered.responder);
        let outcome = outcome(&answered.message, responder);
        let extensions = Extensions::read(&answered.message, responder.is_ipv6());
        let changed = changed(answered, outcome);
        let rtt_ns = answered.time.saturating_sub(answered.sent);
        self.heard = answered.time;
        let hop = self.path.hop_mut(ttl);
        hop.answer(
            answered.sent,
            rtt_ns,
            responder,
            answered.reply_ttl,
            outcome,
        );
        let marks = changed.with_if(Marks::MPLS, extensions.mpls.is_some());
        hop.interval.marks = hop.interval.marks.with(marks);
        self.queues.answer(ttl, answered.sent, rtt_ns);
        if outcome == Outcome::Answered {
            self.route
                .answer(ttl, answered.sent, responder, answered.time);
        }
        HopProbe {
            responder: Some(responder),
            rtt_ns: Some(Nanoseconds(rtt_ns)),
            answer_time: Some(Time(answered.time.wrapping_add(offset_ns))),
            reply_ttl: Some(answered.reply_ttl),
            icmp_type_code: answered
                .message
                .first_chunk()
                .map(|bytes| u16::from_be_bytes(*bytes)),
            mpls: extensions.mpls,
            router_interface: extensions.router_interface,
            changed: changed.text(),
            extracted: answered.extracted.map(|bytes| format!("{bytes:#x}")),
            sequence: (self.key.protocol != Protocol::UDP).then_some(answered.header.seq),
            answer_identification: responder.is_ipv4().then_some(answered.identification),
            cpu: Some(answered.cpu),
            ..self.probe(sent, outcome, offset_ns)
        }
    }

    /// Notes that a probe was not answered. Returns its record.
    pub(super) fn lose(&mut self, sent: Sent, offset_ns: u64) -> HopProbe {
        self.path.hop_mut(sent.ttl).lose(sent.time);
        self.probe(sent, Outcome::Lost, offset_ns)
    }

    /// Takes what the application's own packets say.
    pub(super) fn clue(&mut self, clue: Clue) {
        self.heard = clue.time;
        self.path.reply_ttl = Some(clue.reply_ttl);
        let counted = Traffic {
            packets: clue.packets,
            retransmitted: clue.retransmitted,
        };
        self.application.take(clue.time, counted);
        if let Some((tsval, tsecr)) = clue.timestamps {
            self.one_way.take(Reply {
                time: clue.time,
                tsval,
                tsecr,
            });
        }
    }

    /// Tells of queues and of a change of route, if there is something to tell by now.
    pub(super) fn watch(&mut self, now: u64, offset_ns: u64, report: Sink<'_>) {
        while let Some((start, queues)) = self.queues.judge(now) {
            let end = start + WINDOW_NS;
            let waited = self.one_way.waited(start, end);
            for queue in queues {
                let Some(direction) = direction(queue.added_ns, waited) else {
                    continue;
                };
                let router = |ttl: u8| {
                    let hop = self.path.hops.get(usize::from(ttl).checked_sub(1)?)?;
                    hop.usual()
                };
                report(Report::Congestion(Congestion {
                    time: Time(end.wrapping_add(offset_ns)),
                    duration_ns: Nanoseconds(WINDOW_NS),
                    flow: self.key,
                    ttl: queue.far,
                    near: router(queue.near).unwrap_or(self.key.source),
                    far: router(queue.far),
                    direction: direction.name(),
                    queue_ns: Nanoseconds(queue.added_ns),
                    interface: self.interface,
                }));
            }
        }
        let Some(change) = self.route.changed(now) else {
            return;
        };
        self.rerouted = change.time;
        self.path.forget(change.ttl, change.new_length);
        self.queues.forget(change.ttl);
        self.one_way.forget();
        self.destination.forget();
        report(Report::RouteChange(RouteChange {
            time: Time(change.time.wrapping_add(offset_ns)),
            flow: self.key,
            change: change.kind.name(),
            ttl: change.ttl,
            old: change.old,
            new: change.new,
            old_length: change.old_length,
            new_length: change.new_length,
            interface: self.interface,
        }));
    }

    /// Tells of every hop over an interval by its end and length, and begins a new one. Of probes
    /// sent before `until` it is known whether they were lost.
    pub(super) fn summarize(
        &mut self,
        (time, duration_ns): (Time, Nanoseconds),
        until: u64,
        limits: &Limits,
        report: Sink<'_>,
    ) {
        let mut before_ns = 0;
        for index in 0..self.path.hops.len() {
            let is_lossy = self.path.hops[index].interval.lost > 0;
            let silence = is_lossy
                .then(|| silence(&self.path.hops, index, &self.application, limits, until))
                .flatten();
            let ttl = index as u8 + 1;
            let hop = &mut self.path.hops[index];
            let interval = std::mem::take(&mut hop.interval);
            let median = interval.rtts.quantile(0.5);
            let excess_ns = median
                .zip(hop.minimum_ns)
                .map(|(median, least)| median.saturating_sub(least));
            let responder = hop.usual();
            let routers_back = hop.routers_back().filter(|routers| routers + 1 != ttl);
            let marks = interval
                .marks
                .with_if(Marks::BALANCED, self.route.is_balanced(ttl))
                .with_if(Marks::ASYMMETRIC, routers_back.is_some());
            let known = (hop.last_ns, hop.minimum_ns);
            if interval.known > 0 {
                report(Report::Hop(HopSummary {
                    responder,
                    is_destination: responder == Some(self.key.destination),
                    silence: silence.map(Silence::name),
                    queue_ns: excess_ns.map(|excess| Nanoseconds(excess.saturating_sub(before_ns))),
                    routers_back,
                    marks: marks.text(),
                    ..self.summary((time, duration_ns), ttl, interval, known)
                }));
            }
            before_ns = excess_ns.unwrap_or(before_ns);
        }
        let known = (self.destination.last_ns, self.destination.minimum_ns);
        let interval = std::mem::take(&mut self.destination.interval);
        if interval.known > 0 {
            let ttl = self.path.destination_ttl();
            report(Report::Hop(HopSummary {
                responder: Some(self.key.destination),
                is_destination: true,
                ..self.summary((time, duration_ns), ttl, interval, known)
            }));
        }
    }

    /// What an interval says of the round trips to this TTL; the last one and the least are known.
    fn summary(
        &self,
        (time, duration_ns): (Time, Nanoseconds),
        ttl: u8,
        interval: Interval,
        (last_ns, minimum_ns): (Option<u64>, Option<u64>),
    ) -> HopSummary {
        let quantile = |part| interval.rtts.quantile(part).map(Nanoseconds);
        let deviation_ns = interval.squares.deviation(&interval.rtts);
        HopSummary {
            time,
            duration_ns,
            flow: self.key,
            ttl,
            responder: None,
            is_destination: false,
            responder_name: None,
            as_number: None,
            probes_sent: interval.known,
            probes_lost: interval.lost,
            silence: None,
            rtt_last_ns: last_ns.map(Nanoseconds),
            rtt_min_ns: minimum_ns.map(Nanoseconds),
            rtt_mean_ns: interval.rtts.mean().map(Nanoseconds),
            rtt_stdev_ns: deviation_ns.map(Nanoseconds),
            rtt_p50_ns: quantile(0.5),
            rtt_p90_ns: quantile(0.9),
            rtt_p95_ns: quantile(0.95),
            rtt_p99_ns: quantile(0.99),
            rtt_max_ns: interval.rtts.max().map(Nanoseconds),
            queue_ns: None,
            routers_back: None,
            marks: None,
            interface: self.interface,
            rtt_histogram: interval.rtts,
        }
    }

    fn probe(&self, sent: Sent, outcome: Outcome, offset_ns: u64) -> HopProbe {
        HopProbe {
            time: Time(sent.time.wrapping_add(offset_ns)),
            flow: self.key,
            ttl: sent.ttl,
            outcome,
            responder: None,
            rtt_ns: None,
            answer_time: None,
            probe: sent.probe,
            is_idle: sent.is_idle,
            length_bytes: sent.length,
            is_edited: sent.is_edited,
            extracted: None,
            reply_ttl: None,
            icmp_type_code: None,
            mpls: None,
            router_interface: None,
            changed: None,
            sequence: None,
            answer_identification: None,
            cpu: None,
            interface: self.interface,
        }
    }

    /// Its path to its destination, with the answers since `from`.
    pub(super) fn flow_path(&self, from: u64) -> Option<FlowPath> {
        FlowPath::new(
            self.key.destination,
            self.route.routers(),
            &self.path.hops,
            from.max(self.rerouted),
        )
    }
}

/// Time exceeded is an answer; anything else that quotes a probe is a refusal.
fn outcome(message: &[u8], responder: IpAddr) -> Outcome {
    let time_exceeded = if responder.is_ipv4() { 11 } else { 3 };
    if message.first() == Some(&time_exceeded) {
        Outcome::Answered
    } else {
        Outcome::Refused
    }
}

/// What the quote shows to have been changed on the way.
fn changed(answered: &Answered, outcome: Outcome) -> Marks {
    let is_expired = outcome == Outcome::Answered;
    let quoted = Quoted::read(&answered.message);
    quoted.map_or(Marks::default(), |quoted| {
        quoted.changes(&answered.header.as_sent(), is_expired)
    })
}
