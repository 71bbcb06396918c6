//! What goes wrong, and how.

use std::fmt;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_lab::traffic::tools::iperf3_client;
use fathom_lab::{Direction, Family, PacketKind, Process, Rule, Sequence, Way, Worker};
use nix::sys::signal::Signal;

use super::scene::{DNS_PORT, Scene};

/// A fault that is made in the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Other traffic fills the queue of a link in the middle, on the way to the server.
    HopForward,
    /// The same on the way back.
    HopReverse,
    /// All servers take longer.
    SlowServer,
    /// One of three servers does.
    OneServer,
    /// A link loses packets.
    LossyLink,
    /// The client's own upload fills the queue of its link.
    Bufferbloat,
    /// Servers do not read.
    ReceiveBuffer,
    /// Servers do not accept.
    AcceptQueue,
    /// Some DNS queries get lost.
    Dns,
    /// One of two ways that flows are balanced over gets slower.
    SlowPath,
    /// All flows go another way, which is longer.
    RouteChange,
    /// The processes of servers do not run for most of the time.
    Processor,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::HopForward,
        Self::HopReverse,
        Self::SlowServer,
        Self::OneServer,
        Self::LossyLink,
        Self::Bufferbloat,
        Self::ReceiveBuffer,
        Self::AcceptQueue,
        Self::Dns,
        Self::SlowPath,
        Self::RouteChange,
        Self::Processor,
    ];

    /// Whether both can be made at a time: each at other links, and with other processes.
    pub(super) fn goes_with(self, other: Self) -> bool {
        let places = |fault| match fault {
            Self::HopForward | Self::HopReverse => &["queue"][..],
            Self::Bufferbloat => &["queue", "first link"],
            Self::LossyLink => &["first link", "last link", "queue"],
            Self::Dns => &["last link"],
            Self::SlowPath | Self::RouteChange => &["way", "queue"],
            Self::SlowServer | Self::OneServer | Self::ReceiveBuffer => &["server"],
            Self::AcceptQueue | Self::Processor => &["server", "accept"],
        };
        places(self)
            .iter()
            .all(|place| !places(other).contains(place))
    }

    /// What `fathom explain` should call it.
    pub fn cause(self) -> &'static str {
        match self {
            Self::HopForward | Self::HopReverse => "hop_queue",
            Self::SlowServer => "server_response",
            Self::OneServer => "one_server",
            Self::LossyLink => "loss",
            Self::Bufferbloat => "client_side",
            Self::ReceiveBuffer => "receive_buffer",
            Self::AcceptQueue => "accept_queue",
            Self::Dns => "dns",
            Self::SlowPath => "slow_path",
            Self::RouteChange => "route_change",
            Self::Processor => "host_stall",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::HopForward => "congested hop, forward",
            Self::HopReverse => "congested hop, reverse",
            Self::SlowServer => "slow server",
            Self::OneServer => "one slow server of three",
            Self::LossyLink => "lossy link",
            Self::Bufferbloat => "bufferbloat at the client",
            Self::ReceiveBuffer => "full receive buffer",
            Self::AcceptQueue => "full accept queue",
            Self::Dns => "DNS timeouts",
            Self::SlowPath => "one slow balanced path",
            Self::RouteChange => "route change",
            Self::Processor => "server's CPU taken away",
        })
    }
}

/// A fault that is going on, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Going {
    _processes: Vec<Process>,
    _workers: Vec<Worker<()>>,
}

/// A whole number from `range`.
fn draw(random: &mut Sequence, range: std::ops::RangeInclusive<u64>) -> u64 {
    range.start() + random.below(range.end() - range.start() + 1)
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

impl Fault {
    /// Makes it, with parameters by chance.
    pub(super) fn begin(self, scene: &Scene, random: &mut Sequence) -> Result<Going> {
        match self {
            Self::HopForward => congest(scene, draw(random, 2..=3) as usize, Way::Forward, random),
            Self::HopReverse => congest(scene, draw(random, 2..=3) as usize, Way::Backward, random),
            Self::Bufferbloat => congest(scene, 1, Way::Forward, random),
            Self::SlowServer => scene.tell_all("think", milliseconds(draw(random, 25..=90))),
            Self::OneServer => {
                let time = milliseconds(draw(random, 30..=90));
                scene.tell(random.below(3) as usize, "think", time)
            }
            Self::ReceiveBuffer => scene.tell_all("read", milliseconds(draw(random, 60..=150))),
            Self::AcceptQueue => scene.tell_all("accept", milliseconds(draw(random, 700..=1500))),
            Self::LossyLink => Ok(lose(scene, random)),
            Self::Dns => Ok(lose_queries(scene, random)),
            Self::SlowPath => Ok(slow_way(scene, draw(random, 8..=30))),
            Self::RouteChange => scene
                .chain
                .reroute(2, &[1])
                .map(|()| Going::default())
                .map_err(Into::into),
            Self::Processor => take_processor(scene, draw(random, 70..=85)),
        }
    }
}

/// Limits a link, and fills its queue by TCP connections that pass it.
fn congest(scene: &Scene, link: usize, way: Way, random: &mut Sequence) -> Result<Going> {
    let bits_per_second = draw(random, 10..=20) * 1_000_000;
    let queue_ms = draw(random, 40..=90);
    let queue_bytes = bits_per_second / 8_000 * queue_ms;
    let direction = scene.direction(link).rate(bits_per_second, queue_bytes);
    scene.chain.link(link).reconfigure(way, direction);
    let near = match link - 1 {
        0 => &scene.chain.client,
        router => {
            lead_back(scene, router)?;
            &scene.chain.routers[router - 1]
        }
    };
    let mut options = vec!["--parallel", "2"];
    if way == Way::Backward {
        options.push("--reverse");
    }
    let process = iperf3_client(near, scene.iperf3, 60, &options)?;
    Ok(Going {
        _processes: vec![process],
        _workers: Vec::new(),
    })
}

/// Has the routers behind `router` know the way to it.
fn lead_back(scene: &Scene, router: usize) -> Result<()> {
    let address = format!("{}/32", scene.chain.responder(router, Family::V4));
    for (number, behind) in (1..).zip(&scene.chain.routers).skip(router) {
        behind.add_route(&address, &format!("10.78.{number}.1"))?;
    }
    Ok(())
}

fn lose(scene: &Scene, random: &mut Sequence) -> Going {
    let link = draw(random, 1..=4) as usize;
    let part = draw(random, 20..=60) as f64 / 1e3;
    let ways: &[Way] = match random.below(3) {
        0 => &[Way::Forward],
        1 => &[Way::Backward],
        _ => &[Way::Forward, Way::Backward],
    };
    for way in ways {
        scene
            .chain
            .link(link)
            .reconfigure(*way, scene.direction(link).loss(part));
    }
    Going::default()
}

/// One query of some gets lost.
fn lose_queries(scene: &Scene, random: &mut Sequence) -> Going {
    let step = draw(random, 2..=5);
    let direction = (0..60).fold(scene.direction(4), |direction, number| {
        let rule = Rule::nth(1 + number * step, PacketKind::Udp).on_port(DNS_PORT);
        direction.rule(rule.drop())
    });
    scene.chain.link(4).reconfigure(Way::Forward, direction);
    Going::default()
}

fn slow_way(scene: &Scene, more_ms: u64) -> Going {
    let delay = scene.delays[1] + milliseconds(more_ms);
    let link = &scene.chain.branches[0].links[0];
    link.reconfigure(Way::Forward, Direction::delayed(delay));
    Going::default()
}

/// Stops the processes of servers for a part of each 100 ms, as a quota of a control group does.
fn take_processor(scene: &Scene, stopped_ms: u64) -> Result<Going> {
    let pids = scene.pids();
    let worker = Worker::start("quota", move |stop| {
        while !stop.is_set() {
            signal(&pids, Signal::SIGSTOP);
            thread::sleep(milliseconds(stopped_ms));
            signal(&pids, Signal::SIGCONT);
            thread::sleep(milliseconds(100 - stopped_ms));
        }
    });
    let worker = worker.context("take the processor away")?;
    Ok(Going {
        _processes: Vec::new(),
        _workers: vec![worker],
    })
}

fn signal(pids: &[i32], signal: Signal) {
    for pid in pids {
        // One that has ended needs no processor.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), signal);
    }
}
