//! What a bulk flow gets through a shaper of its own host, with probes and without.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use fathom_benches::statistics::{interval, median};
use fathom_lab::summary::Row;
use fathom_lab::traffic::tools;
use fathom_lab::{Namespace, Process, wait_until};
use nix::sys::signal::Signal;

const LEAST_SHARE: f64 = 0.99;
const ROUTERS: usize = 10;
const LENGTH_S: u32 = 5;
/// Before these, while the flow starts.
const OMITTED_S: u32 = 1;
const PATIENCE: Duration = Duration::from_secs(30);
const TOWARDS_CLIENT: &str = "near0";
const TOWARDS_SERVER: &str = "far0";

/// How often a probe is sent, and the options for that.
struct Period {
    period_ms: u32,
    options: &'static [&'static str],
}

const PERIODS: [Period; 3] = [
    // The command line allows 100 a second to each hop; ten hops have 1,000.
    Period {
        period_ms: 1,
        options: &["--rate", "100"],
    },
    Period {
        period_ms: 10,
        options: &["--rate", "100", "--rate-mode", "global"],
    },
    Period {
        period_ms: 100,
        options: &["--rate", "10", "--rate-mode", "global"],
    },
];

/// A client, routers, and a server; the last namespace is the server's.
struct Route {
    hosts: Vec<Namespace>,
}

/// For each period, runs with probes and without in turns, ABBA.
pub(crate) fn measure(fathom: &Path, folder: &Path, pairs: u32) -> anyhow::Result<Vec<Row>> {
    let path = Route::new()?;
    PERIODS
        .iter()
        .map(|period| compare(&path, fathom, folder, period, pairs))
        .collect()
}

fn compare(
    path: &Route,
    fathom: &Path,
    folder: &Path,
    period: &Period,
    pairs: u32,
) -> anyhow::Result<Row> {
    let (mut with, mut without, mut probes) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        for is_first in [true, false] {
            if is_first == (pair % 2 == 0) {
                without.push(path.throughput()?);
            } else {
                let probing = Probing::start(path, fathom, folder, period)?;
                with.push(path.throughput()?);
                probes.push(probing.finish()? / f64::from(OMITTED_S + LENGTH_S));
            }
        }
    }
    let shares: Vec<f64> = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without)
        .collect();
    let (low, high) = interval(shares.iter().copied());
    let (with, without) = (median(with), median(without));
    let (share, probes) = (with / without, median(probes));
    println!(
        "every {} ms: {:.2} Mbit/s with probes, {:.2} without; {pairs} pairs, {:.4} (of pairs {:.4}, 95 % interval {low:.4} to {high:.4}); {probes:.0} probes a second of the flow",
        period.period_ms,
        with / 1e6,
        without / 1e6,
        share,
        median(shares)
    );
    Ok(Row {
        what: format!(
            "`hops`, throughput of a bulk flow under a shaper of 50 Mbit/s, a probe every {} ms",
            period.period_ms
        ),
        target: format!("at least {} % of without", LEAST_SHARE * 100.0),
        measured: format!(
            "{:.2} % ({:.2} and {:.2} Mbit/s, medians of {pairs} runs of {LENGTH_S} s each; {probes:.0} probes a second)",
            share * 100.0,
            with / 1e6,
            without / 1e6
        ),
        is_reached: Some(share >= LEAST_SHARE),
    })
}

impl Route {
    fn new() -> anyhow::Result<Self> {
        let hosts = (0..=ROUTERS + 1).map(|number| Namespace::new(&format!("node{number}")));
        let hosts: Vec<Namespace> = hosts.collect::<Result<_, _>>()?;
        for (number, pair) in hosts.windows(2).enumerate() {
            let [near, far] = pair else { continue };
            near.connect(TOWARDS_SERVER, far, TOWARDS_CLIENT)?;
            near.add_address(TOWARDS_SERVER, &format!("10.79.{number}.1/24"))?;
            far.add_address(TOWARDS_CLIENT, &format!("10.79.{number}.2/24"))?;
        }
        for (number, host) in hosts.iter().enumerate() {
            host.lift_icmp_limits()?;
            if number > 1 {
                host.add_route("10.79.0.0/24", &format!("10.79.{}.1", number - 1))?;
            }
            if number < ROUTERS {
                host.add_route(
                    &format!("10.79.{ROUTERS}.0/24"),
                    &format!("10.79.{number}.2"),
                )?;
            }
            host.enable_forwarding()?;
        }
        hosts[0].run(&format!(
            "tc qdisc add dev {TOWARDS_SERVER} root tbf rate 50mbit burst 64kb limit 8mb"
        ))?;
        Ok(Self { hosts })
    }

    /// Bits a second that a bulk flow gets to the server.
    fn throughput(&self) -> anyhow::Result<f64> {
        const PORT: u16 = 5_201;
        let (client, server) = (&self.hosts[0], &self.hosts[ROUTERS + 1]);
        let _server = tools::iperf3_server(server, PORT)?;
        let address = format!("10.79.{ROUTERS}.2:{PORT}").parse()?;
        let output = tools::iperf3_client(
            client,
            address,
            LENGTH_S,
            &["--omit", &OMITTED_S.to_string()],
        )?
        .output(PATIENCE)?;
        let text = String::from_utf8_lossy(&output.stdout);
        received_rate(&text).with_context(|| format!("iperf3 failed: {text}"))
    }
}

/// Of the receiver's summary in the report of iperf3.
fn received_rate(report: &str) -> Option<f64> {
    let (_, received) = report.split_once("\"sum_received\"")?;
    let (_, rate) = received.split_once("\"bits_per_second\":")?;
    rate.split([',', '\n', '}']).next()?.trim().parse().ok()
}

/// A running `fathom hops`, whose probes go to a file.
struct Probing {
    process: Process,
    probes: PathBuf,
}

impl Probing {
    fn start(path: &Route, fathom: &Path, folder: &Path, period: &Period) -> anyhow::Result<Self> {
        let [probes, messages] = ["hops.probes", "hops.messages"].map(|name| folder.join(name));
        let create =
            |file: &Path| File::create(file).with_context(|| format!("create {}", file.display()));
        let mut command = path.hosts[0].command(&fathom.to_string_lossy());
        command
            .args(["hops", "--verbose", "--interface", TOWARDS_SERVER])
            .args(["--format", "csv"])
            // So that the rate alone decides.
            .args(["--budget", "3000", "--budget-per-destination", "3000"])
            .args(period.options)
            .stdout(create(&probes)?)
            .stderr(create(&messages)?);
        let mut process = Process::start(&mut command)?;
        let said = || fs::read_to_string(&messages).unwrap_or_default();
        let mut has_ended = false;
        let attached = format!("{TOWARDS_SERVER}: ");
        let waited = wait_until(PATIENCE, "fathom to attach its programs", || {
            has_ended = !matches!(process.status(), Ok(None));
            has_ended || said().contains(&attached)
        });
        ensure!(
            waited.is_ok() && !has_ended,
            "fathom does not probe: {}",
            said()
        );
        Ok(Self { process, probes })
    }

    /// Ends it, and says how many probes it sent in the flow that had the most: iperf3 has one to
    /// talk of, too.
    fn finish(mut self) -> anyhow::Result<f64> {
        const SOURCE_PORT: usize = 10;
        self.process.signal(Signal::SIGINT)?;
        let status = self.process.wait_with_deadline(PATIENCE)?;
        ensure!(status.success(), "fathom ended with {status}");
        let text = fs::read_to_string(&self.probes).context("read the probes")?;
        let mut flows: BTreeMap<&str, u32> = BTreeMap::new();
        for port in text
            .lines()
            .filter_map(|line| line.split(',').nth(SOURCE_PORT))
        {
            *flows.entry(port).or_default() += 1;
        }
        Ok(flows.into_values().max().unwrap_or(0).into())
    }
}
