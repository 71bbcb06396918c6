//! The other measurements: an agent on the client, what it says of the same traffic, and what the
//! applications and the links know of it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fathom_lab::{Fate, Link, Process, Topology, Way, wait_until};
use fathom_tests::binary;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::rows::{BULK_PORTS, REQUEST_PORT};
use crate::traffic::Seen;

/// How long the agent may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
const NS_PER_MS: f64 = 1e6;

/// `fathom agent` on the client; ends when dropped.
pub(crate) struct Agent {
    process: Process,
    directory: TempDir,
}

impl Agent {
    /// Starts it, and waits until it measures.
    pub(crate) fn start(lab: &Topology) -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory")?;
        let program = binary()?;
        let mut command = lab
            .client
            .command(program.to_str().context("a path in Unicode")?);
        command
            .args(["agent", "--format", "json", "--interval", "1s"])
            .args(["--metrics", "none", "--interface", Topology::HOST_INTERFACE])
            .args(["--measure", "response,traffic,hops,profile", "--output"])
            .arg(directory.path().join("records"))
            .arg("--socket")
            .arg(directory.path().join("socket"))
            .stderr(Stdio::null());
        let process = Process::start(&mut command)?;
        // Flows of before would be met in the middle.
        wait_until(PATIENCE, "the agent to measure", || {
            let mut status = Command::new(&program);
            status.args(["agent", "--socket"]);
            status.arg(directory.path().join("socket")).arg("status");
            status.output().is_ok_and(|told| told.status.success())
        })?;
        Ok(Self { process, directory })
    }

    /// Ends it; its records.
    pub(crate) fn finish(mut self) -> Result<Vec<Value>> {
        self.process.signal(Signal::SIGTERM)?;
        let status = self.process.wait_with_deadline(PATIENCE)?;
        ensure!(status.success(), "the agent ended with {status}");
        let text = std::fs::read_to_string(self.directory.path().join("records"))?;
        let records = text.lines().map(serde_json::from_str);
        records
            .collect::<Result<_, _>>()
            .context("read the records of the agent")
    }
}

/// A figure beside the truth.
struct Row {
    command: &'static str,
    what: &'static str,
    samples: usize,
    measured: f64,
    truth: f64,
    unit: &'static str,
    /// How far it may be off: a part of the truth, and as much as that besides.
    tolerance: (f64, f64),
}

impl Row {
    fn is_good(&self) -> bool {
        let (part, more) = self.tolerance;
        self.samples > 0 && (self.measured - self.truth).abs() <= part * self.truth + more
    }
}

/// Prints what each measurement says beside the truth.
///
/// # Errors
/// When one is off, or says nothing.
pub(crate) fn conclude(records: &[Value], seen: &Seen, wan: &Link) -> Result<()> {
    let rows = [
        response(records, seen),
        hops(records),
        profile(records, seen),
        traffic(records, wan),
    ];
    println!("\nWhat `fathom agent` on the client measured at the same time, and the truth:\n");
    println!(
        "command          what                                       samples    measured        true  verdict"
    );
    let mut wrong = Vec::new();
    for row in rows {
        let verdict = if row.is_good() { "ok" } else { "OFF" };
        let decimals = if row.unit.is_empty() { 0 } else { 2 };
        println!(
            "{:<15}  {:<41}  {:>7}  {:>7.decimals$} {:<2}  {:>7.decimals$} {:<2}  {verdict}",
            row.command, row.what, row.samples, row.measured, row.unit, row.truth, row.unit
        );
        if !row.is_good() {
            wrong.push(row.command);
        }
    }
    println!("\n{EXPLANATION}");
    if !wrong.is_empty() {
        bail!("{} is off: is this machine very busy?", wrong.join(", "));
    }
    Ok(())
}

const EXPLANATION: &str = "\
The wait for responses is what the clients clocked themselves, and so is connecting. The first router is 10 ms away. Lost packets are
those that the link dropped of the bulk transfers.
";

fn of_kind<'a>(records: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    records.iter().filter(move |record| record["kind"] == kind)
}

fn is_to(record: &Value, ports: &[u16]) -> bool {
    is_at(record, "destination_port", ports)
}

fn is_at(record: &Value, field: &str, ports: &[u16]) -> bool {
    let port = record[field].as_u64();
    ports.iter().any(|it| port == Some(u64::from(*it)))
}

/// The median; 0 of nothing, which its number of samples tells.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn in_ms(durations: impl IntoIterator<Item = Duration>) -> Vec<f64> {
    let durations = durations.into_iter();
    durations
        .map(|it| it.as_nanos() as f64 / NS_PER_MS)
        .collect()
}

#[expect(clippy::cast_sign_loss, reason = "a count is not negative")]
fn response(records: &[Value], seen: &Seen) -> Row {
    let own = of_kind(records, "response_aggregate").filter(|it| is_to(it, &[REQUEST_PORT]));
    // Clients of a short way ask more often: each wait counts, as in the truth.
    let waits = own.flat_map(|it| {
        let number = |name: &str| it[name].as_f64().unwrap_or_default();
        let count = number("responses_per_second") * number("duration_ns") / 1e9;
        let median = it["latency_p50_ns"].as_f64().map(|ns| ns / NS_PER_MS);
        median.into_iter().cycle().take(count.round() as usize)
    });
    let waits: Vec<_> = waits.collect();
    Row {
        command: "fathom response",
        what: "what clients wait for responses",
        samples: waits.len(),
        measured: median(waits),
        truth: median(in_ms(seen.waits())),
        unit: "ms",
        tolerance: (0.05, 1.0),
    }
}

fn hops(records: &[Value]) -> Row {
    let routers = [Topology::LAN_V4, Topology::LAN_V6].map(|it: IpAddr| it.to_string());
    let is_router = |record: &&Value| {
        let responder = record["responder"].as_str();
        responder.is_some_and(|it| routers.iter().any(|router| router == it))
    };
    let trips: Vec<_> = of_kind(records, "hop")
        .filter(is_router)
        .filter_map(|it| Some(it["rtt_p50_ns"].as_f64()? / NS_PER_MS))
        .collect();
    Row {
        command: "fathom hops",
        what: "round trip to the router, by probes",
        samples: trips.len(),
        measured: median(trips),
        truth: 20.0,
        unit: "ms",
        tolerance: (0.0, 0.5),
    }
}

/// Connections are told apart by the client's address and port.
fn profile(records: &[Value], seen: &Seen) -> Row {
    let told = of_kind(records, "profile").filter(|it| it["role"] == "client");
    let told = told.filter(|it| is_to(it, &[REQUEST_PORT]));
    let told = told.filter_map(|it| {
        let address: IpAddr = it["source"].as_str()?.parse().ok()?;
        let port = u16::try_from(it["source_port"].as_u64()?).ok()?;
        let client = SocketAddr::from((address, port));
        Some((client, it["establishment_ns"].as_f64()? / NS_PER_MS))
    });
    let told: HashMap<_, _> = told.collect();
    let both = seen.connects().into_iter();
    let both = both.filter_map(|(client, clocked)| Some((*told.get(&client)?, clocked)));
    let (measured, clocked): (Vec<_>, Vec<_>) = both.unzip();
    Row {
        command: "fathom profile",
        what: "until a connection is established",
        samples: measured.len(),
        measured: median(measured),
        truth: median(in_ms(clocked)),
        unit: "ms",
        tolerance: (0.02, 0.5),
    }
}

fn traffic(records: &[Value], wan: &Link) -> Row {
    let lost = of_kind(records, "traffic")
        .filter(|it| is_at(it, "destination_port", &BULK_PORTS))
        .filter_map(|it| it["packets_lost_after"].as_f64())
        .collect::<Vec<_>>();
    let truth = wan.truth();
    let dropped = truth.iter().filter(|packet| {
        let to_bulk = packet
            .header
            .is_some_and(|it| BULK_PORTS.contains(&it.destination_port));
        let is_lost = matches!(packet.fate, Fate::Lost | Fate::QueueDropped);
        to_bulk && is_lost && matches!(packet.way, Way::Forward)
    });
    Row {
        command: "fathom traffic",
        what: "packets of bulk transfers lost on their way",
        samples: lost.len(),
        measured: lost.iter().sum(),
        truth: dropped.count() as f64,
        unit: "",
        tolerance: (0.1, 5.0),
    }
}
