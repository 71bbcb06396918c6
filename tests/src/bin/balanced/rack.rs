//! Client, balancer and servers on one switch, and what clients wait.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use fathom_lab::Switch;
use fathom_lab::traffic::farm::{Arrivals, Outcome, Pace, Server};
use fathom_tests::Balancer;

/// What clients ask.
const SERVICE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 79, 0, 1)), 80);
pub(crate) const SERVERS: usize = 4;
/// Requests that a server works on at a time.
pub(crate) const WORKERS: usize = 4;
/// How long a request takes a server that is not slow, on average.
pub(crate) const MEAN: Duration = Duration::from_millis(16);
const BALANCER: usize = 1;
const FIRST_SERVER: usize = 2;

/// What happens in a run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// For each server.
    pub(crate) slowdowns: Vec<Vec<(Duration, f64)>>,
    pub(crate) arrivals: Arrivals,
    /// The clients offer timestamps (RFC 7323).
    pub(crate) has_timestamps: bool,
    /// Lines of `[control]`, to try other settings by.
    pub(crate) control: String,
    pub(crate) seed: u64,
}

/// What came of it.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// How many requests each server has taken.
    pub(crate) taken: [u64; SERVERS],
}

impl Scenario {
    /// Runs it with this policy, and everything made anew.
    pub(crate) fn run(&self, policy: &str) -> Result<Run> {
        let names = [
            "client", "balancer", "server0", "server1", "server2", "server3",
        ];
        let switch = Switch::new(&names)?;
        for server in 0..SERVERS {
            switch.adopt(FIRST_SERVER + server, SERVICE.ip())?;
        }
        switch.hosts[0].set_tcp_timestamps(self.has_timestamps)?;
        let gateway = Switch::address(BALANCER).to_string();
        switch.hosts[0].add_route(&SERVICE.ip().to_string(), &gateway)?;
        let mut balancer = Balancer::start(&switch.hosts[BALANCER], &self.configuration(policy))?;
        let servers = (0..SERVERS).map(|server| {
            let pace = Pace {
                workers: WORKERS,
                mean: MEAN,
                slowdowns: self.slowdowns[server].clone(),
                seed: self.seed * 1000 + server as u64,
            };
            anyhow::Ok(Server::start(
                &switch.hosts[FIRST_SERVER + server],
                SERVICE,
                pace,
            )?)
        });
        let servers = servers.collect::<Result<Vec<_>>>()?;
        let outcome = self.arrivals.run(&switch.hosts[0], SERVICE)?;
        let taken = std::array::from_fn(|server| servers[server].taken());
        ensure!(balancer.stop()?, "the balancer leaves something behind");
        Ok(Run { outcome, taken })
    }

    fn configuration(&self, policy: &str) -> String {
        let (address, port) = (SERVICE.ip(), SERVICE.port());
        let mut text = format!(
            "[health]\ncheck = \"none\"\n[control]\npolicy = \"{policy}\"\n{}\n\
             [[service]]\nname = \"farm\"\naddress = \"{address}\"\nport = {port}\n",
            self.control
        );
        for server in 0..SERVERS {
            let address = Switch::address(FIRST_SERVER + server);
            let _ = write!(
                text,
                "[[server]]\nname = \"server{server}\"\naddress = \"{address}\"\n"
            );
        }
        text
    }
}
