//! What follows from all evidence together: one fault has several symptoms, and only the fault is
//! told.

use super::evidence::Evidence;
use super::explanation::{Cause, Finding};
use super::hops::{self, SlowPath};
use super::links::Link;
use super::response::{self, Servers};
use super::rtt::{self, Halves};
use super::traffic::{self, Loss};
use super::{dns, profile};

/// A process that does not run is late to accept for about as long as it is late to answer, or
/// for longer where clients ask in its rhythm; one whose accept queue is full, for much longer.
const ALIKE: std::ops::Range<f64> = 0.1..4.0;
/// What a longer way adds looks like a queue of about as much.
const ALIKE_WAY: std::ops::Range<f64> = 0.7..1.4;
/// What a slow path or a queue adds is no more than so many times itself.
const ECHO: f64 = 1.8;
/// A server that adds less than this part of what a queue adds may add nothing.
const BESIDE: f64 = 0.2;
/// The same where the queue is full at times, and packets get lost.
const BESIDE_FULL: f64 = 0.4;
/// A cause explains a rise where it is this part of it.
const EXPLAINED: f64 = 0.5;

/// What each measurement says.
pub(super) struct Judged<'a> {
    pub(super) halves: Halves,
    pub(super) servers: &'a Servers,
    pub(super) loss: Loss,
    /// How late applications take connections, if they do.
    pub(super) accepted: Option<profile::Waited>,
    /// What servers took longer, and is a queue's.
    pub(super) echo_ns: f64,
    /// Whether a queue that is told was full, so packets got lost.
    is_overflowing: bool,
    /// The biggest first.
    pub(super) findings: Vec<Finding>,
}

impl<'a> Judged<'a> {
    pub(super) fn of(evidence: &'a Evidence) -> Self {
        let halves = Halves::of(&evidence.rtt.rows, &evidence.flows);
        let loss = Loss::of(&evidence.traffic.rows, &evidence.flows);
        let mut judged = Self {
            halves,
            servers: &evidence.servers,
            loss,
            accepted: profile::accept_queue(&evidence.profiles.rows),
            echo_ns: 0.0,
            is_overflowing: false,
            findings: Vec::new(),
        };
        judged.network(evidence);
        judged.ends(evidence);
        let dns = &evidence.dns;
        let is_lossy = judged.findings.iter().any(|it| it.cause == Cause::Loss);
        let loss = if is_lossy { judged.loss.ratio() } else { 0.0 };
        let network = dns::Network {
            more_ns: judged.most_ns(Cause::is_network),
            loss,
        };
        judged
            .findings
            .extend(dns::judge(&dns.rows, network, &dns.statement));
        judged
            .findings
            .sort_by_key(|finding| std::cmp::Reverse(finding.amount_ns));
        judged
    }

    /// Queues, ways and loss.
    fn network(&mut self, evidence: &Evidence) {
        let halves = &self.halves;
        let towards_server = halves.towards_server.as_ref();
        let changes = &evidence.route_changes;
        let route = hops::route(&changes.rows, towards_server, &changes.statement);
        let mut links = Link::all(&evidence.congestion.rows, &evidence.paths.rows);
        if let Some(route) = &route {
            // A longer way looks like a queue, until its least round trip is known.
            let added = route.amount_ns as f64;
            links.retain(|link| !ALIKE_WAY.contains(&(link.queue_ns / added)));
        }
        let slow_path = slow_path(evidence, &links);
        if let Some(path) = &slow_path {
            // Its own links are no other cause: those are that most of the others wait for, too.
            links.retain(|link| {
                2 * link.flows.intersection(&path.others).count() >= path.others.len()
            });
        }
        let statement = &evidence.congestion.statement;
        let rtts = &evidence.rtt.rows;
        let mut found: Vec<Finding> = links
            .iter()
            .filter_map(|link| link.finding(rtts, halves.is_at_client(), statement))
            .collect();
        found.extend(route);
        found.extend(slow_path.map(|path| path.finding));
        let explained: u64 = found.iter().map(|finding| finding.amount_ns).sum();
        let by_rtt = rtt::judge(halves, &evidence.rtt.statement);
        found.extend(by_rtt.into_iter().filter(|finding| {
            finding.cause == Cause::ClientSide
                || (explained as f64) < EXPLAINED * finding.amount_ns as f64
        }));
        let lost = traffic::judge(
            &self.loss,
            self.recovery_ns(evidence),
            &evidence.traffic.statement,
        );
        if let Some(lost) = lost {
            // What is lost while a queue is there, and only then, did not fit into it.
            self.is_overflowing = links.iter().any(|link| link.covers(&self.loss.times_ns));
            if self.is_overflowing {
                note_overflow(&mut found, &self.loss);
            } else {
                found.push(lost);
            }
        }
        self.findings.extend(found);
    }

    /// The most that one of such causes adds.
    fn most_ns(&self, is_such: fn(Cause) -> bool) -> u64 {
        let amounts = self.findings.iter().filter(|it| is_such(it.cause));
        amounts.map(|it| it.amount_ns).max().unwrap_or_default()
    }

    /// What a client waits for losses, on average over responses.
    fn recovery_ns(&self, evidence: &Evidence) -> u64 {
        let stalled = profile::stalled_ns(&evidence.profiles.rows) as f64;
        // A loss that does not stall costs a round trip at least.
        let resent = self.loss.all() as f64 * self.halves.now_ns().unwrap_or_default();
        (stalled.max(resent) / self.servers.responses.max(1.0)) as u64
    }

    /// Servers, and what their hosts do.
    fn ends(&mut self, evidence: &Evidence) {
        let profiles = &evidence.profiles;
        let (rows, statement) = (&profiles.rows, profiles.statement.as_str());
        let others = evidence.others.as_ref().map(|it| it.statement.as_str());
        let mut served = response::judge(self.servers, &evidence.responses.statement, others);
        let late = self
            .accepted
            .map(|waited| profile::late_to_accept(&waited, rows, statement));
        // A process that is late to accept is late to answer, too: then no other cause is.
        let is_stalled = |it: &Finding| late.as_ref().is_some_and(|late| are_alike(it, late));
        self.leave_out_echoes(&mut served, is_stalled);
        let closed = profile::closed(rows);
        let mut found = Vec::new();
        if let Some(closed) = closed {
            let own = evidence
                .responses
                .rows
                .iter()
                .filter(|row| row.community_id == closed.id);
            let responses = own.filter_map(|row| row.responses).sum();
            let finding = profile::not_reading(&closed, responses, statement);
            // Who does not read is late to answer, too.
            served.retain(|it| {
                !closed.is_server || (finding.amount_ns as f64) < EXPLAINED * it.amount_ns as f64
            });
            found.push(finding);
        }
        let stalled = served.iter().position(is_stalled);
        let stalled = stalled.map(|place| served.remove(place));
        found.extend(late.map(|late| match late.cause {
            Cause::AcceptQueue if stalled.is_none() => late,
            _ => stall(stalled, late),
        }));
        let is_lossy = self.findings.iter().any(|it| it.cause == Cause::Loss);
        let establishment = profile::establishment(rows);
        if let Some(waited) = establishment.filter(|_| !is_lossy && found.is_empty()) {
            found.push(profile::late_to_establish(&waited, statement));
        }
        self.findings.extend(served);
        self.findings.extend(found);
    }

    /// Takes out what servers do not take longer: it is a queue's, or a slow path's.
    fn leave_out_echoes(&mut self, served: &mut Vec<Finding>, is_sure: impl Fn(&Finding) -> bool) {
        let on_slow_path = self.findings.iter().find(|it| it.cause == Cause::SlowPath);
        if let Some(path) = on_slow_path.map(|path| path.amount_ns as f64) {
            // Flows that take it wait longer, whichever server they ask.
            served.retain(|it| is_sure(it) || it.amount_ns as f64 > ECHO * path);
        }
        // Queues come and go within an interval: of that, some is told as the server's. It may be
        // all of it where the server's other clients do not wait longer.
        let queue_ns = self.most_ns(Cause::is_queue) as f64;
        let alone_ns = self.servers.alone_ns();
        served.retain(|it| {
            let alone_ns = alone_ns.filter(|_| it.cause == Cause::ServerResponse);
            let most = match alone_ns {
                Some(_) => ECHO,
                None if self.is_overflowing => BESIDE_FULL,
                None => BESIDE,
            };
            let is_more = is_sure(it) || it.amount_ns as f64 > most * queue_ns;
            if !is_more {
                self.echo_ns = alone_ns.unwrap_or_default();
            }
            is_more
        });
    }
}

/// Whether what a server takes longer, and how late connections are accepted, is one fault.
fn are_alike(served: &Finding, late: &Finding) -> bool {
    let is_its = served.cause == Cause::ServerResponse
        || served.cause == Cause::OneServer && served.place == late.place;
    let ratio = late.amount_ns as f64 / served.amount_ns.max(1) as f64;
    is_its && ratio >= ALIKE.start && (ratio < ALIKE.end || late.cause == Cause::HostStall)
}

/// A slow way: since packets began to wait for a link of it, or lately.
fn slow_path(evidence: &Evidence, links: &[Link]) -> Option<SlowPath> {
    let Evidence {
        paths, rtt, flows, ..
    } = evidence;
    let begins = links.iter().filter_map(Link::since_ns);
    let mut times = begins.chain([hops::last_third_ns(&rtt.rows)]);
    times.find_map(|since_ns| {
        hops::slow_path(&paths.rows, &rtt.rows, since_ns, flows, &paths.statement)
    })
}

/// The full queue lost packets, too.
fn note_overflow(found: &mut [Finding], loss: &Loss) {
    if let Some(finding) = found.iter_mut().max_by_key(|finding| finding.amount_ns) {
        let note = format!("; {} packets did not fit into the queue", loss.all());
        finding.text.push_str(&note);
    }
}

/// A process that is late to accept, and to answer as far as that is known.
fn stall(served: Option<Finding>, late: Finding) -> Finding {
    let text = |text: String| {
        format!("{text}: its process does not run all the time, or does one thing after the other")
    };
    let Some(served) = served else {
        return Finding {
            text: text(late.text),
            ..late
        };
    };
    let mut evidence = served.evidence;
    evidence.extend(late.evidence);
    Finding {
        cause: Cause::HostStall,
        text: text(format!("{}; {}", served.text, late.text)),
        evidence,
        place: late.place,
        ..served
    }
}
