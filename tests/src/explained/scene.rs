//! A network with clients, servers and an agent.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fathom_lab::traffic::dns::{self, Think};
use fathom_lab::traffic::tools::{iperf3_server, start_server};
use fathom_lab::{Chain, Direction, Family, LinkConfig, Process, Sequence, Worker, wait_until};
use nix::sys::signal::Signal;

use super::client;
use super::fault::{Fault, Going};
use crate::{attached_programs, binary};

pub(super) const DNS_PORT: u16 = 53;
/// Routers in a row.
const ROUTERS: usize = 3;
/// Servers of the service.
const SERVERS: u8 = 3;
/// Connections that last, to each server.
const EACH: usize = 3;
/// How long the agent may take to attach its programs, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// What servers take at first.
const THINK: Duration = Duration::from_millis(3);

/// Everything that runs; it ends when dropped.
pub(super) struct Scene {
    pub(super) chain: Chain,
    /// One way over each link, from the client's on.
    pub(super) delays: Vec<Duration>,
    pub(super) iperf3: SocketAddr,
    servers: Vec<(Process, std::process::ChildStdin)>,
    addresses: Vec<SocketAddr>,
    _iperf3: Process,
    _dns: dns::Server,
}

impl Scene {
    /// A network without faults; `server` is the program with the command `serve`. Where `faults`
    /// need two ways, or a longer one, they are there.
    pub(super) fn build(server: &Path, faults: &[Fault], random: &mut Sequence) -> Result<Self> {
        let mut delay = || Duration::from_micros(1_000 + random.below(5_000));
        let delays: Vec<_> = (0..=ROUTERS).map(|_| delay()).collect();
        let is_longer = faults.contains(&Fault::RouteChange);
        let detour = if is_longer {
            delays[1] + 4 * delay() + 3 * THINK
        } else {
            delays[1]
        };
        let mut builder = Chain::builder(ROUTERS);
        for (number, delay) in (1..).zip(&delays) {
            builder = builder.link(number, LinkConfig::symmetric(*delay));
        }
        let branch = [
            LinkConfig::symmetric(detour),
            LinkConfig::symmetric(delays[2]),
        ];
        let chain = builder.branch(2, branch).build()?;
        if faults.contains(&Fault::SlowPath) {
            chain.reroute(2, &[0, 1])?;
        }
        let port = 20_000 + random.below(10_000) as u16;
        let mut servers = Vec::new();
        let mut addresses = Vec::new();
        for number in 1..=SERVERS {
            let address = Ipv4Addr::new(10, 90, 0, number);
            chain.server.add_address("lo", &format!("{address}/32"))?;
            let address = SocketAddr::from((address, port));
            servers.push(start(&chain, server, address)?);
            addresses.push(address);
        }
        let main = chain.server_address(Family::V4);
        let resolver = Ipv4Addr::new(10, 90, 0, 53);
        chain.server.add_address("lo", &format!("{resolver}/32"))?;
        let resolver = SocketAddr::from((resolver, DNS_PORT));
        let dns = dns::Server::start(&chain.server, resolver, Think::default())?;
        let iperf3 = SocketAddr::from((main, port + 1));
        let scene = Self {
            _iperf3: iperf3_server(&chain.server, iperf3.port())?,
            chain,
            delays,
            iperf3,
            servers,
            addresses,
            _dns: dns,
        };
        scene.tell_all("think", THINK)?;
        Ok(scene)
    }

    /// The service, as `fathom explain` takes it.
    pub(super) fn service(&self) -> String {
        format!(":{}", self.addresses[0].port())
    }

    /// Lets clients come.
    pub(super) fn ask(&self) -> Result<Vec<Worker<()>>> {
        let Self {
            chain, addresses, ..
        } = self;
        let mut workers = client::lasting(&chain.client, addresses, EACH)?;
        workers.push(client::uploading(&chain.client, addresses[0])?);
        workers.push(client::coming(&chain.client, addresses)?);
        let resolver = SocketAddr::from((Ipv4Addr::new(10, 90, 0, 53), DNS_PORT));
        workers.push(client::looking_up(&chain.client, resolver)?);
        Ok(workers)
    }

    /// One direction of a link as it is without faults.
    pub(super) fn direction(&self, link: usize) -> Direction {
        Direction::delayed(self.delays[link - 1])
    }

    /// The processes of the servers.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.servers
            .iter()
            .map(|(process, _)| process.id().cast_signed())
            .collect()
    }

    /// Tells a server how long to take for something.
    pub(super) fn tell(&self, server: usize, what: &str, time: Duration) -> Result<Going> {
        let (_, mut input) = (&self.servers[server].0, &self.servers[server].1);
        writeln!(input, "{what} {}", time.as_micros()).context("tell a server")?;
        Ok(Going::default())
    }

    pub(super) fn tell_all(&self, what: &str, time: Duration) -> Result<Going> {
        (0..self.servers.len()).try_for_each(|server| self.tell(server, what, time).map(drop))?;
        Ok(Going::default())
    }

    /// Measures all that there is in the store `directory`, and waits until it does.
    pub(super) fn measure(&self, directory: &Path) -> Result<Process> {
        let config = directory.join("fathom.toml");
        let hops = "[hops]\nrate = 40\n[profile]\nactive-timeout = \"1s\"\n";
        std::fs::write(&config, hops).context("write the configuration")?;
        let mut command = self.chain.client.command(path(&binary()?)?);
        command
            .args([
                "agent",
                "--interval",
                "1s",
                "--host",
                "client",
                "--interface",
                "eth0",
            ])
            .args([
                "--measure",
                "rtt,response,traffic,profile,hops",
                "--metrics",
                "127.0.0.1:0",
            ])
            .args(["--config", path(&config)?])
            .args(["--socket", path(&directory.join("agent.sock"))?])
            .args(["--store", path(&store(directory))?])
            .stderr(std::fs::File::create(directory.join("agent.log"))?);
        let agent = Process::start(&mut command)?;
        // Those of packets, and those of hops.
        let attached = || {
            let count = attached_programs(&self.chain.client, Chain::HOST_INTERFACE);
            count.is_ok_and(|count| count >= 4)
        };
        let waited = wait_until(PATIENCE, "the agent to attach its programs", attached);
        waited.with_context(|| {
            std::fs::read_to_string(directory.join("agent.log")).unwrap_or_default()
        })?;
        Ok(agent)
    }
}

pub(super) fn store(directory: &Path) -> PathBuf {
    directory.join("store")
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is not UTF-8")
}

fn start(
    chain: &Chain,
    server: &Path,
    address: SocketAddr,
) -> Result<(Process, std::process::ChildStdin)> {
    let _: IpAddr = address.ip();
    let (reader, writer) = std::io::pipe()?;
    let mut command = chain.server.command(path(server)?);
    command.arg("serve").arg(address.to_string()).stdin(reader);
    let filter = format!("tcp sport = :{} and src {}", address.port(), address.ip());
    let process = start_server(&chain.server, command, &filter)?;
    let writer = std::process::ChildStdin::from(std::os::fd::OwnedFd::from(writer));
    Ok((process, writer))
}

/// Ends the agent, and has what it measured explained.
pub(super) fn explain(
    mut agent: Process,
    directory: &Path,
    service: &str,
    since: Duration,
) -> Result<serde_json::Value> {
    agent.signal(Signal::SIGTERM)?;
    let status = agent.wait_with_deadline(PATIENCE)?;
    ensure!(status.success(), "the agent ended with {status}");
    let output = Command::new(binary()?)
        .args(["explain", "--format", "json", "--service", service])
        .args(["--since", &format!("{}s", since.as_secs())])
        .args(["--store", path(&store(directory))?])
        .stderr(Stdio::inherit())
        .output()?;
    serde_json::from_slice(&output.stdout).context("fathom explain printed no explanation")
}
