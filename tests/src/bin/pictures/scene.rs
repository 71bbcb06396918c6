//! Two networks behind a gateway, two providers of the same content, and what goes wrong with them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use fathom_lab::traffic::loops::{Loop, Service, Shape, Workload, start_server};
use fathom_lab::traffic::{tcp, tools};
use fathom_lab::{
    Chain, Direction, Link, LinkConfig, LinkEnd, Namespace, Process, Way, Worker, wait_until,
};
use fathom_tests::{attached_programs, binary};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

const MILLISECOND: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 443;
const BULK_PORT: u16 = 5201;
/// Where the gateway measures: its link to all providers.
const UPLINK: &str = "link2";
/// Of each network with each provider.
const CONNECTIONS: u32 = 5;

pub(crate) const BERLIN: Ipv4Addr = Ipv4Addr::new(10, 78, 1, 1);
pub(crate) const HAMBURG: Ipv4Addr = Ipv4Addr::new(10, 80, 1, 1);
pub(crate) const NORTH: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 10);
pub(crate) const SOUTH: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
/// The router at the far end of the link that fills.
pub(crate) const BEHIND_NARROW: &str = "10.78.3.2";

/// How long both take for a response; and North while it is slow.
const THINK: Duration = Duration::from_millis(12);
const SLOW_THINK: Duration = Duration::from_millis(60);
/// Between connections of a request each.
const PAUSE: Duration = Duration::from_millis(100);
/// One way from the gateway to each.
pub(crate) const NORTH_DELAY: Duration = Duration::from_millis(3 + 4 + 1);
pub(crate) const SOUTH_DELAY: Duration = Duration::from_millis(3 + 12);
/// One way over Berlin's link and Hamburg's.
const BERLIN_DELAY: Duration = Duration::from_millis(2);
const HAMBURG_DELAY: Duration = Duration::from_millis(5);
/// The part of packets that Hamburg's link loses.
const LOSS: f64 = 0.02;

/// When faults begin, after the start: all is well before each.
const SLOW_AT: Duration = Duration::from_secs(15);
const FULL_LINK_AT: Duration = Duration::from_secs(50);
const FULL_ACCESS_AT: Duration = Duration::from_secs(85);
const LOSSY_AT: Duration = Duration::from_secs(118);
const END: Duration = Duration::from_secs(136);
/// How long one lasts.
const FAULT: Duration = Duration::from_secs(15);

/// Something that goes wrong, and when it does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) from: SystemTime,
    pub(crate) to: SystemTime,
}

/// Everything that runs; it ends when dropped.
pub(crate) struct Scene {
    agent: Process,
    start: Instant,
    /// Whether North is slow to answer those who come.
    is_slow: Arc<AtomicBool>,
    /// Connections that last.
    lasting: Vec<Worker<fathom_lab::Result<Vec<Loop>>>>,
    /// Connections that come and go: handshakes tell round trips without what servers take.
    coming: Vec<Worker<fathom_lab::Result<()>>>,
    chain: Chain,
    hamburg: Namespace,
    hamburg_link: Link,
    _south: Namespace,
    _south_link: Link,
    _servers: [tcp::Server; 2],
    _bulk: Process,
}

/// ```text
///   Berlin ── 2 ms ── gateway ── 3 ms ── router ── 4 ms, 20 Mbit/s ── router ── 1 ms ── North
///   Hamburg ── 5 ms ─────┘                  └───────────── 12 ms ────────────────────── South
/// ```
fn chain() -> Result<Chain> {
    let narrow = LinkConfig {
        forward: Direction::delayed(4 * MILLISECOND).rate(20_000_000, 160_000),
        backward: Direction::delayed(4 * MILLISECOND),
        seed: 1,
    };
    let chain = Chain::builder(3)
        .link(1, LinkConfig::symmetric(BERLIN_DELAY))
        .link(2, LinkConfig::symmetric(3 * MILLISECOND))
        .link(3, narrow)
        .link(4, LinkConfig::symmetric(MILLISECOND))
        .build()?;
    chain.server.add_address("lo", &format!("{NORTH}/32"))?;
    Ok(chain)
}

/// A host beside the chain, at its own link to router `number`, whose end has the second address.
fn attach(
    chain: &Chain,
    number: usize,
    name: &str,
    [own, gateway]: [Ipv4Addr; 2],
    delay: Duration,
) -> Result<(Namespace, Link)> {
    let router = &chain.routers[number - 1];
    let host = Namespace::new(name)?;
    let link = Link::start(
        LinkEnd::new(&host, Chain::HOST_INTERFACE),
        LinkEnd::new(router, name),
        LinkConfig::symmetric(delay),
    )?;
    host.add_address(Chain::HOST_INTERFACE, &format!("{own}/24"))?;
    router.add_address(name, &format!("{gateway}/24"))?;
    host.add_route("default", &gateway.to_string())?;
    Ok((host, link))
}

impl Scene {
    /// Builds it, and lets an agent on the gateway measure into the store.
    pub(crate) fn build(store: &Path) -> Result<Self> {
        let chain = chain()?;
        let gateway = Ipv4Addr::new(10, 80, 1, 2);
        let (hamburg, hamburg_link) =
            attach(&chain, 1, "hamburg", [HAMBURG, gateway], HAMBURG_DELAY)?;
        for (number, router) in (1..).zip(&chain.routers).skip(1) {
            // Routers answer by the address that they answer Berlin by.
            router.run(&format!(
                "ip route add 10.80.1.0/24 via 10.78.{number}.1 src 10.78.{number}.2"
            ))?;
        }
        let ends = [Ipv4Addr::new(10, 81, 1, 1), Ipv4Addr::new(10, 81, 1, 2)];
        let (south, south_link) = attach(&chain, 2, "south", ends, 12 * MILLISECOND)?;
        south.add_address("lo", &format!("{SOUTH}/32"))?;
        chain.routers[1].add_route("203.0.113.0/24", &ends[0].to_string())?;
        let servers = [
            start_server(&chain.server, (NORTH, PORT).into())?,
            start_server(&south, (SOUTH, PORT).into())?,
        ];
        Ok(Self {
            agent: agent(&chain, store)?,
            start: Instant::now(),
            is_slow: Arc::default(),
            lasting: Vec::new(),
            coming: Vec::new(),
            _bulk: tools::iperf3_server(&chain.server, BULK_PORT)?,
            chain,
            hamburg,
            hamburg_link,
            _south: south,
            _south_link: south_link,
            _servers: servers,
        })
    }

    /// Lets clients of both networks have connections to both providers for so long.
    fn ask(&mut self, north: Service, duration: Duration) -> Result<()> {
        let clients = [&self.chain.client, &self.hamburg];
        let providers = [(NORTH, north), (SOUTH, Service::Constant(THINK))];
        for (place, client) in (1..).zip(clients) {
            for (number, (provider, service)) in (1..).zip(providers) {
                let workload = Workload {
                    connections: CONNECTIONS,
                    think: Some(Service::Exponential(60 * MILLISECOND)),
                    response_bytes: 6_000,
                    duration,
                    seed: 100 * place + 10 * number,
                    ..Workload::new(Shape::Window(1), service)
                };
                let client = client.clone();
                let server = SocketAddr::from((provider, PORT));
                let work = Worker::start("clients", move |_| workload.run(&client, server))?;
                self.lasting.push(work);
            }
        }
        Ok(())
    }

    /// Lets clients of both networks come to both providers, with a request each.
    fn come(&mut self) -> Result<()> {
        for client in [&self.chain.client, &self.hamburg] {
            for provider in [NORTH, SOUTH] {
                let (client, is_slow) = (client.clone(), Arc::clone(&self.is_slow));
                let server = SocketAddr::from((provider, PORT));
                let work = Worker::start("connections", move |stop| {
                    while !stop.is_set() {
                        let is_slow = provider == NORTH && is_slow.load(Ordering::Relaxed);
                        let time = if is_slow { SLOW_THINK } else { THINK };
                        let request = Workload {
                            duration: Duration::ZERO,
                            ..Workload::new(Shape::Window(1), Service::Constant(time))
                        };
                        request.run(&client, server)?;
                        stop.sleep_until(Instant::now() + PAUSE);
                    }
                    Ok(())
                });
                self.coming.push(work?);
            }
        }
        Ok(())
    }

    /// North is slow to answer.
    pub(crate) fn slow_server(&mut self) -> Result<Fault> {
        let service = Service::Step(THINK, SLOW_THINK, SLOW_AT);
        self.ask(service, SLOW_AT + FAULT)?;
        self.come()?;
        let fault = self.during(SLOW_AT, || {
            self.is_slow.store(true, Ordering::Relaxed);
            Ok(())
        })?;
        self.is_slow.store(false, Ordering::Relaxed);
        // The connections end with it, and others come.
        let rest = END.saturating_sub(self.start.elapsed());
        self.ask(Service::Constant(THINK), rest)?;
        let (slow, usual) = (SLOW_THINK.as_millis(), THINK.as_millis());
        Ok(fault.called(format!(
            "North takes {slow} ms to answer instead of {usual} ms"
        )))
    }

    /// An upload of Berlin's fills the link to North.
    pub(crate) fn full_link(&self) -> Result<Fault> {
        let fault = self.during(FULL_LINK_AT, || self.bulk(&[]))?;
        Ok(fault.called(
            "an upload from Berlin to North fills the link 10.78.2.2 - 10.78.3.2, which carries \
             20 Mbit/s and has a queue of 64 ms",
        ))
    }

    /// A download of Berlin's fills its own link.
    pub(crate) fn full_access(&self) -> Result<Fault> {
        let link = self.chain.link(1);
        let usual = Direction::delayed(BERLIN_DELAY);
        let narrow = usual.clone().rate(10_000_000, 75_000);
        let fault = self.during(FULL_ACCESS_AT, || {
            link.reconfigure(Way::Backward, narrow);
            self.bulk(&["--reverse"])
        })?;
        link.reconfigure(Way::Backward, usual);
        Ok(fault.called(
            "a download to Berlin fills Berlin's own link, which carries 10 Mbit/s and has a queue \
             of 60 ms",
        ))
    }

    /// Hamburg's link loses packets; how many it lost.
    pub(crate) fn lossy_access(&self) -> Result<(Fault, u64)> {
        let link = &self.hamburg_link;
        let usual = Direction::delayed(HAMBURG_DELAY);
        let lossy = usual.clone().loss(LOSS);
        let lost_before = link.totals(Way::Backward).lost;
        let fault = self.during(LOSSY_AT, || {
            link.reconfigure(Way::Backward, lossy);
            Ok(())
        })?;
        link.reconfigure(Way::Backward, usual);
        let lost = link.totals(Way::Backward).lost - lost_before;
        let what = format!(
            "Hamburg's own link loses {} % of the packets to Hamburg, {lost} in all",
            100.0 * LOSS
        );
        Ok((fault.called(what), lost))
    }

    /// Makes a fault so long after the start, for as long as faults last.
    fn during(&self, after: Duration, begin: impl FnOnce() -> Result<()>) -> Result<Fault> {
        sleep_until(self.start + after);
        let (from, end) = (SystemTime::now(), Instant::now() + FAULT);
        begin()?;
        sleep_until(end);
        Ok(Fault {
            what: String::new(),
            from,
            to: SystemTime::now(),
        })
    }

    /// A transfer between Berlin and North, for as long as faults last.
    fn bulk(&self, options: &[&str]) -> Result<()> {
        let server = SocketAddr::from((NORTH, BULK_PORT));
        let seconds = u32::try_from(FAULT.as_secs())?;
        let mut transfer = tools::iperf3_client(&self.chain.client, server, seconds, options)?;
        transfer.wait_with_deadline(PATIENCE)?;
        Ok(())
    }

    /// Waits for the clients, and ends the agent, so that all is in the store.
    pub(crate) fn end(mut self) -> Result<()> {
        for work in self.lasting {
            work.join().context("requests failed")?;
        }
        for work in self.coming {
            work.finish().context("connections failed")?;
        }
        self.agent.signal(Signal::SIGTERM)?;
        let status = self.agent.wait_with_deadline(PATIENCE)?;
        ensure!(status.success(), "the agent ended with {status}");
        Ok(())
    }
}

impl Fault {
    fn called(self, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { what, ..self }
    }
}

fn agent(chain: &Chain, store: &Path) -> Result<Process> {
    let gateway = &chain.routers[0];
    let mut command = gateway.command(&binary()?.to_string_lossy());
    command
        .args(["agent", "--interval", "1s", "--metrics", "none"])
        .args(["--host", "gateway", "--interface", UPLINK])
        .args(["--measure", "rtt,response,traffic,hops", "--store"])
        .arg(store)
        .arg("--socket")
        .arg(store.with_extension("sock"));
    let agent = Process::start(command.stderr(Stdio::null()))?;
    wait_until(PATIENCE, "the agent to attach its programs", || {
        // Those of packets, and those of hops.
        attached_programs(gateway, UPLINK).is_ok_and(|count| count >= 4)
    })?;
    Ok(agent)
}

fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}
