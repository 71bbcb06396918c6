//! Flows, routers and the kernel's part in virtual time: who is asked how often.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use fathom_record::{FlowKey, Protocol};

use crate::hops::Settings;
use crate::hops::engine::Engine;
use crate::hops::event::{Answered, Event, Opened, Sent};
use crate::hops::native::{HOPS_BURST, HOPS_TTL_MAX, hops_header};
use crate::hops::schedule::{Plan, Rate};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Between looks of user space.
const POLL: u64 = 20 * MS;

/// A connection: a packet each way every `pause`.
struct Connection {
    number: u32,
    /// Its application has sent its last packet: it is probed without.
    is_quiet: bool,
    ends: u64,
    next: u64,
    pause: u64,
    ceiling: u8,
    dues: [u64; HOPS_TTL_MAX as usize],
    intervals: [u64; HOPS_TTL_MAX as usize],
}

/// One destination behind `routers`.
struct World {
    engine: Engine,
    now: u64,
    routers: u8,
    connections: Vec<Connection>,
    opened: u32,
    packets: u64,
    /// When, in which connection and at which TTL.
    probes: Vec<(u64, u32, u8)>,
    answers: VecDeque<(u64, Answered)>,
}

impl World {
    fn new(routers: u8) -> Self {
        Self::with_rate(routers, Rate::default())
    }

    /// All flows through a router ask it so often.
    fn asked_for(routers: u8, per_second: f64) -> Self {
        let rate = Rate {
            first: per_second,
            most: per_second,
            is_shared: false,
            is_asked: true,
        };
        Self::with_rate(routers, rate)
    }

    fn with_rate(routers: u8, rate: Rate) -> Self {
        let settings = Settings {
            rate,
            highest_ttl: 30,
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            idle: Duration::from_secs(10),
            has_probes: false,
            is_own_flow: false,
        };
        Self {
            engine: Engine::new(settings, SECOND),
            now: SECOND,
            routers,
            connections: Vec::new(),
            opened: 0,
            packets: 0,
            probes: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    fn open(&mut self, lasts: u64, pause: u64) {
        self.opened += 1;
        let key = FlowKey {
            protocol: Protocol::TCP,
            source: [10, 0, 0, 1].into(),
            source_port: self.opened as u16,
            destination: [192, 0, 2, 1].into(),
            destination_port: 443,
        };
        let opened = Opened {
            time: self.now,
            flow: self.opened,
            key,
            interface: "eth0",
        };
        self.engine.take(&Event::Opened(opened), &mut |_| {});
        self.connections.push(Connection {
            number: self.opened,
            is_quiet: false,
            ends: self.now + lasts,
            next: self.now + pause,
            pause,
            ceiling: 0,
            dues: [0; HOPS_TTL_MAX as usize],
            intervals: [0; HOPS_TTL_MAX as usize],
        });
    }

    /// As `hops_take_turns()` does.
    fn leave(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_quiet {
            self.packets += 2;
            self.engine.hear(connection.number, self.now);
        }
        let mut burst = HOPS_BURST;
        for ttl in 1..=connection.ceiling {
            let index = usize::from(ttl) - 1;
            if connection.dues[index] > self.now || burst == 0 {
                continue;
            }
            burst -= 1;
            let paced = connection.dues[index] + connection.intervals[index];
            let late = self.now + connection.intervals[index];
            connection.dues[index] = if paced > self.now { paced } else { late };
            let probe = self.probes.len() as u32;
            self.probes.push((self.now, connection.number, ttl));
            let sent = Sent {
                time: self.now,
                flow: connection.number,
                probe,
                ttl,
                is_idle: false,
                length: 40,
                is_edited: false,
            };
            self.engine.take(&Event::Sent(sent), &mut |_| {});
            if ttl <= self.routers {
                let time = self.now + u64::from(ttl) * 2 * MS;
                let answer = answer(sent, time);
                let index = self.answers.partition_point(|(other, _)| *other <= time);
                self.answers.insert(index, (time, answer));
            }
        }
    }

    fn run(&mut self, lasts: u64, mut begin: impl FnMut(&mut Self)) {
        let end = self.now + lasts;
        while self.now < end {
            self.now += MS;
            begin(self);
            while self
                .answers
                .front()
                .is_some_and(|(time, _)| *time <= self.now)
            {
                let (_, answer) = self.answers.pop_front().unwrap();
                let answer = Event::Answered(Box::new(answer));
                self.engine.take(&answer, &mut |_| {});
            }
            for index in 0..self.connections.len() {
                if self.connections[index].next <= self.now {
                    self.connections[index].next += self.connections[index].pause;
                    self.leave(index);
                }
            }
            let now = self.now;
            for over in self.connections.extract_if(.., |it| it.ends <= now) {
                let closed = Event::Closed { flow: over.number };
                self.engine.take(&closed, &mut |_| {});
            }
            if self.now.is_multiple_of(POLL) {
                self.engine.watched(self.packets, self.now);
                for (number, plan) in self.engine.tick(self.now, &mut |_| {}) {
                    self.follow(number, &plan);
                }
            }
        }
    }

    fn follow(&mut self, number: u32, plan: &Plan) {
        let connection = self.connections.iter_mut();
        let Some(connection) = connection.into_iter().find(|it| it.number == number) else {
            return;
        };
        connection.ceiling = plan.ceiling;
        connection.intervals = plan.intervals_us.map(|us| u64::from(us) * 1000);
        if let Some(dues) = &plan.dues {
            connection.dues = **dues;
        }
    }

    /// Probes at a TTL from `since` on.
    fn asked(&self, ttl: u8, since: u64) -> usize {
        let probes = self.probes.iter();
        probes
            .filter(|(time, _, own)| *own == ttl && *time >= since)
            .count()
    }
}

fn answer(sent: Sent, time: u64) -> Answered {
    Answered {
        time,
        flow: sent.flow,
        probe: sent.probe,
        ttl: sent.ttl,
        sent: sent.time,
        responder: IpAddr::from([10, 1, 0, sent.ttl]),
        reply_ttl: 65 - sent.ttl,
        is_repeated: false,
        cpu: 0,
        identification: 0,
        header: hops_header::default(),
        extracted: None,
        message: vec![11, 0, 0, 0],
    }
}

#[test]
fn many_short_connections_ask_the_way_once() {
    let mut world = World::new(3);
    // 96 connections a second, each of 50 ms and 20 packets.
    world.run(240 * SECOND, |world| {
        if world.now % (10 * MS) < MS && world.now % SECOND < 960 * MS {
            world.open(50 * MS, 5 * MS);
        }
    });
    let (sent, packets) = (world.probes.len(), world.packets);
    let purposes = world.engine.purposes;
    println!(
        "{} connections, {sent} probes beside {packets} packets: {purposes:?}",
        world.opened
    );
    assert!(world.opened > 23_000);
    assert!((sent as u64) * 100 < packets);
    assert_eq!(purposes.explored, 3, "each router is found once");
    assert!(purposes.beyond * 5 < sent as u64, "{purposes:?}");
    // What is known goes on being measured, although no connection lasts.
    for ttl in 1..=3 {
        let asked = world.asked(ttl, 60 * SECOND);
        assert!(asked > 90, "TTL {ttl}: {asked}");
    }
    let askers: std::collections::HashSet<u32> =
        world.probes.iter().map(|(_, own, _)| *own).collect();
    assert!(
        askers.len() * 10 < world.opened as usize,
        "{}",
        askers.len()
    );
}

#[test]
fn flows_that_last_are_asked_for_themselves_and_share_the_rate() {
    let mut world = World::new(8);
    for _ in 0..28 {
        world.open(1000 * SECOND, 10 * MS);
    }
    world.run(60 * SECOND, |_| {});
    assert!((world.probes.len() as u64) * 100 < world.packets);
    for number in 1..=28 {
        for ttl in 1..=8 {
            let mut own = world
                .probes
                .iter()
                .filter(|(_, own, at)| *own == number && *at == ttl);
            assert!(own.by_ref().count() >= 3, "flow {number}, TTL {ttl}");
        }
    }
    let purposes = world.engine.purposes;
    assert_eq!(purposes.explored, 8);
    assert!(purposes.beyond <= 40, "{purposes:?}");
}

#[test]
fn a_flow_of_few_packets_is_explored_and_then_asked_seldom() {
    let mut world = World::new(8);
    world.open(1000 * SECOND, 500 * MS);
    world.run(120 * SECOND, |_| {});
    for ttl in 1..=8 {
        assert!(world.asked(ttl, 0) >= 4, "TTL {ttl}");
    }
    // Two a second, and an advance.
    assert!(world.probes.len() < 300, "{}", world.probes.len());
}

#[test]
fn a_rate_that_was_asked_for_is_kept() {
    let mut world = World::asked_for(2, 20.0);
    world.open(100 * SECOND, 20 * MS);
    world.run(10 * SECOND, |_| {});
    for ttl in 1..=2 {
        assert!(world.asked(ttl, 0) >= 150, "{}", world.asked(ttl, 0));
    }
}

#[test]
fn flows_whose_applications_are_silent_give_way() {
    let mut world = World::asked_for(2, 40.0);
    for _ in 0..40 {
        world.open(100 * SECOND, 100 * MS);
        world.connections.last_mut().unwrap().is_quiet = true;
    }
    for _ in 0..5 {
        world.open(100 * SECOND, 25 * MS);
    }
    world.run(20 * SECOND, |_| {});
    let asked = |is_quiet: bool| {
        let probes = world.probes.iter().filter(|(time, flow, ttl)| {
            *time > 10 * SECOND && *ttl == 1 && (*flow <= 40) == is_quiet
        });
        probes.count()
    };
    let (busy, quiet) = (asked(false), asked(true));
    // 4 a second in each of 5, and an eighth of that in each of 40: 40 a second for 11 s.
    assert!((200..=240).contains(&busy), "{busy}");
    assert!((180..=240).contains(&quiet), "{quiet}");
}
