//! Response latencies that `fathom response` finds at a router, against what the clients waited:
//! the workloads, and the comparison.

mod cases;
mod judged;

use anyhow::Result;
use fathom_lab::traffic::loops::{Loop, Workload, start_server};
use fathom_lab::{LinkConfig, Namespace, Passed, Tap, Topology};
use serde::Deserialize;

use crate::record::time_ns;
use crate::{Fathom, Finished, settle};

pub use cases::{cases, thinking_cases};
pub use judged::{Judged, judge};

/// Of the servers of all workloads.
pub const PORT: u16 = 8080;

/// Traffic whose latency is known, and what happens to it between the client and the capture.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is special about it.
    pub name: &'static str,
    /// What the clients do.
    pub workload: Workload,
    /// The way from the client to the point of measurement; `None` is a wire without any delay.
    pub lan: Option<LinkConfig>,
    /// The clients offer timestamps (RFC 7323).
    pub has_timestamps: bool,
}

/// An epoch of a flow, as printed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Epoch {
    /// When it ended.
    pub time: String,
    /// The client's port.
    pub source_port: u16,
    /// How long it was.
    pub duration_ns: u64,
    /// The estimate.
    pub latency_ns: Option<u64>,
    /// The same from the other direction.
    pub reverse_latency_ns: Option<u64>,
    /// How sure it is.
    pub confidence: String,
    /// Gaps that stand for a response.
    pub causal_gaps: u32,
    /// Requests that are outstanding together.
    pub concurrency: Option<f64>,
    /// Gaps that were too long.
    pub timeout_gaps: u32,
    /// Why there is no estimate.
    pub reason: Option<String>,
}

/// A request that had been unanswered for long, as printed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Wait {
    /// When it was looked at, in nanoseconds since 1970.
    #[serde(rename = "time", deserialize_with = "time_ns")]
    pub time_ns: u64,
    /// The client's port.
    pub source_port: u16,
    /// For how long.
    pub waiting_ns: u64,
}

impl Epoch {
    /// When it began, in ns since 1970.
    pub fn begin_ns(&self) -> Result<u64> {
        Ok(self.end_ns()? - self.duration_ns)
    }

    /// When it ended, in ns since 1970.
    pub fn end_ns(&self) -> Result<u64> {
        let end = humantime::parse_rfc3339(&self.time)?;
        Ok(u64::try_from(
            end.duration_since(std::time::UNIX_EPOCH)?.as_nanos(),
        )?)
    }
}

impl Case {
    /// Runs it in a lab of its own, with a `fathom response` at the router for each set of options.
    /// What the clients did, and what each `fathom` printed.
    pub fn run(&self, options: &[&[&str]]) -> Result<(Vec<Loop>, Vec<Finished>)> {
        self.run_beside(options, |_| Ok(()))
    }

    fn lab(&self) -> Result<RouterLab> {
        let lab = RouterLab::new(self.lan.as_ref())?;
        let [client, ..] = lab.hosts();
        client.set_tcp_timestamps(self.has_timestamps)?;
        Ok(lab)
    }

    /// The same with one `fathom response`, and what passed where it measured.
    pub fn record(&self, options: &[&str]) -> Result<(Vec<Loop>, Finished, Vec<Passed>)> {
        let lab = self.lab()?;
        let [client, router, server] = lab.hosts();
        let address = (Topology::SERVER_V4, PORT).into();
        let _server = start_server(server, address)?;
        let interfaces = [Topology::LAN_INTERFACE];
        let fathom = Fathom::start_command("response", router, &interfaces, options)?;
        let tap = Tap::start(router, Topology::LAN_INTERFACE)?;
        let loops = self.workload.run(client, address)?;
        lab.settle()?;
        let passed = tap.finish()?;
        Ok((loops, fathom.finish()?, passed))
    }

    /// The same beside other traffic, which is started in the client's namespace, and ends when
    /// what was returned is dropped.
    pub fn run_beside<T>(
        &self,
        options: &[&[&str]],
        beside: impl FnOnce(&Namespace) -> Result<T>,
    ) -> Result<(Vec<Loop>, Vec<Finished>)> {
        let lab = self.lab()?;
        let [client, router, server] = lab.hosts();
        let address = (Topology::SERVER_V4, PORT).into();
        let _server = start_server(server, address)?;
        let start = |options: &&[&str]| {
            Fathom::start_command("response", router, &[Topology::LAN_INTERFACE], options)
        };
        let fathoms = options.iter().map(start).collect::<Result<Vec<_>>>()?;
        let others = beside(client)?;
        let loops = self.workload.run(client, address)?;
        drop(others);
        lab.settle()?;
        let finished = fathoms.into_iter().map(Fathom::finish);
        Ok((loops, finished.collect::<Result<_>>()?))
    }
}

/// A client, a router and a server.
pub struct RouterLab(Lines);

enum Lines {
    Wires(Wires),
    Links(Box<Topology>),
}

impl RouterLab {
    /// With such a link between client and router, or with wires that do nothing to packets.
    pub fn new(lan: Option<&LinkConfig>) -> Result<Self> {
        Ok(Self(match lan {
            None => Lines::Wires(Wires::new()?),
            Some(lan) => Lines::Links(Box::new(Topology::builder().lan(lan.clone()).build()?)),
        }))
    }

    /// Client, router and server.
    pub fn hosts(&self) -> [&Namespace; 3] {
        match &self.0 {
            Lines::Wires(wires) => [&wires.client, &wires.router, &wires.server],
            Lines::Links(lab) => [&lab.client, &lab.router, &lab.server],
        }
    }

    /// Waits until the link has nothing on its way.
    pub fn settle(&self) -> Result<()> {
        match &self.0 {
            Lines::Wires(_) => Ok(()),
            Lines::Links(lab) => settle(lab),
        }
    }
}

/// The usual lab, with wires that do nothing to packets.
struct Wires {
    client: Namespace,
    router: Namespace,
    server: Namespace,
}

impl Wires {
    fn new() -> Result<Self> {
        let [client, router, server] = ["client", "router", "server"].map(Namespace::new);
        let (client, router, server) = (client?, router?, server?);
        router.enable_forwarding()?;
        let near = (
            Topology::CLIENT_V4,
            Topology::LAN_V4,
            Topology::LAN_INTERFACE,
        );
        let far = (
            Topology::SERVER_V4,
            Topology::WAN_V4,
            Topology::WAN_INTERFACE,
        );
        for (host, (own, gateway, interface)) in [(&client, near), (&server, far)] {
            host.connect(Topology::HOST_INTERFACE, &router, interface)?;
            host.add_address(Topology::HOST_INTERFACE, &format!("{own}/24"))?;
            router.add_address(interface, &format!("{gateway}/24"))?;
            host.add_route("default", &gateway.to_string())?;
        }
        Ok(Self {
            client,
            router,
            server,
        })
    }
}

/// Errors of a workload's epochs, relative to the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Epochs.
    pub epochs: usize,
    /// Of these, how many have an estimate.
    pub estimated: usize,
    /// The median with its sign.
    pub bias: f64,
    /// The median of the absolute errors.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// Of those with an estimate, the part that is off by more than a quarter.
    pub wrong: f64,
}

impl Errors {
    /// Of all epochs, or of those that are sure; `None` where there is no estimate.
    pub fn of(judged: &[Judged], is_sure: bool) -> Option<Self> {
        let chosen: Vec<_> = judged
            .iter()
            .filter(|one| one.is_sure() || !is_sure)
            .collect();
        let mut errors: Vec<f64> = chosen.iter().filter_map(|one| one.error()).collect();
        if errors.is_empty() {
            return None;
        }
        let bias = quantile(&mut errors, 0.5);
        for error in &mut errors {
            *error = error.abs();
        }
        Some(Self {
            epochs: chosen.len(),
            estimated: errors.len(),
            bias,
            median: quantile(&mut errors, 0.5),
            p90: quantile(&mut errors, 0.9),
            wrong: errors.iter().filter(|error| **error > 0.25).count() as f64
                / errors.len() as f64,
        })
    }
}

#[expect(clippy::cast_sign_loss, reason = "parts are from 0 to 1")]
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
