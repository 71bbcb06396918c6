//! `make demo`: real traffic through a network on this machine, measured by `fathom` on its router,
//! and what it says beside the truth. `demo explain` is its second part: a page, a fault, and what
//! `fathom explain` says of it.

mod agent;
mod explained;
mod rows;
mod screen;
mod traffic;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_lab::{Direction, LinkConfig, Tap, Topology, obstacle};
use fathom_tests::{Comparison, Fathom, Finished, Passing, Record, pairs, passed_by_tap};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::agent::Agent;
use self::rows::{Row, Rows};
use self::screen::Screen;
use self::traffic::Traffic;

const MILLISECOND: Duration = Duration::from_millis(1);
/// How long the traffic runs unless told otherwise.
const SECONDS: u32 = 15;
/// How often the demonstration looks at what happens.
const TICK: Duration = Duration::from_millis(100);
/// What shells report for a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

const INTRODUCTION: &str = "\
A network is built on this machine, of namespaces that nothing else sees:

  client ── 10 ms ── router ── 25 ms, 50 Mbit/s, some jitter and loss ── server
     └─ fathom agent    └─ fathom rtt --interface wan0

Bulk transfers, requests, QUIC-like UDP, pings and DNS queries run from the client to the server, over IPv4 and IPv6.
fathom rtt sends nothing: it times the packets that pass the router anyway, towards the server and towards the client. The agent
on the client measures the same traffic in four other ways: response, traffic, profile, and hops, which sends probes.
";

const EXPLANATION: &str = "\
\"measured\" is the median of what fathom says, \"true\" that of what the emulated links recorded about the very same packets, and
\"difference\" the median of what fathom says too much (the links read the clock some 30 us after it does). Towards the client a round
trip is 20 ms. Towards the server it is 50 ms and the wait in the queue of the bottleneck, which the bulk transfers keep filled: every
conversation suffers, and fathom says by how much. What the programs themselves wait (DNS up to 5 ms, QUIC for its next packet) is in it, too.
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("Interrupted. Everything is cleaned up.");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("The demonstration failed: {error:#}. Everything is cleaned up.");
            ExitCode::FAILURE
        }
    }
}

/// The whole demonstration; whether it came to its end.
fn run() -> Result<bool> {
    if std::env::args().nth(1).as_deref() == Some("explain") {
        return explained::show().map(|()| true);
    }
    let seconds = match std::env::args().nth(1) {
        Some(text) => text
            .parse()
            .with_context(|| format!("\"{text}\" is no number of seconds"))?,
        None => SECONDS,
    };
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_interrupted))
            .context("watch for signals")?;
    }
    if let Some(why) = obstacle() {
        bail!("it needs root, for network namespaces and BPF ({why})");
    }
    println!("{INTRODUCTION}");
    let lab = build_lab().context("build the network")?;
    let tap = Tap::start(&lab.router, Topology::WAN_INTERFACE)?;
    let mut fathom = Fathom::start(&lab.router, &[Topology::WAN_INTERFACE], &[])?;
    let agent = Agent::start(&lab).context("start the agent")?;
    let mut traffic = Traffic::start(&lab, seconds).context("start the traffic")?;
    if !watch(&mut fathom, &mut traffic, seconds, &is_interrupted)? {
        return Ok(false);
    }
    let seen = traffic.finish().context("drive the traffic")?;
    let finished = fathom.finish()?;
    let records = agent.finish()?;
    conclude(&finished, &passed_by_tap(tap)?)?;
    agent::conclude(&records, &seen, &lab.wan)?;
    Ok(true)
}

fn build_lab() -> fathom_lab::Result<Topology> {
    let towards_server = Direction::delayed(25 * MILLISECOND)
        .rate(50_000_000, 250_000)
        .jitter(MILLISECOND)
        .loss(0.000_5);
    let towards_client = Direction::delayed(25 * MILLISECOND)
        .jitter(MILLISECOND)
        .loss(0.000_5);
    Topology::builder()
        .lan(LinkConfig::symmetric(10 * MILLISECOND))
        .wan(LinkConfig {
            forward: towards_server,
            backward: towards_client,
            seed: 1,
        })
        .build()
}

/// Shows what `fathom` says while the traffic runs; false when interrupted.
fn watch(
    fathom: &mut Fathom,
    traffic: &mut Traffic,
    seconds: u32,
    is_interrupted: &AtomicBool,
) -> Result<bool> {
    let mut screen = Screen::new(std::io::stdout().is_terminal());
    let mut rows = Rows::default();
    let mut seen = 0;
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds.into());
    while Instant::now() < end {
        if is_interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        traffic.check()?;
        if let Some(status) = fathom.process().status()? {
            bail!("fathom has ended with {status}: {}", fathom.errors());
        }
        std::thread::sleep(TICK);
        let records = fathom.records_after(seen);
        seen += records.len();
        for record in records {
            if let Record::Sample(sample) = record {
                rows.add(&sample);
            }
        }
        screen.show(start.elapsed(), &rows)?;
    }
    Ok(true)
}

/// Prints the table of measured and true round trips.
fn conclude(finished: &Finished, passed: &[Passing]) -> Result<()> {
    let samples = finished.samples();
    let comparison = Comparison::new(&samples, &pairs::all(passed));
    let mut rows: Vec<Row> = samples.iter().filter_map(Row::of_sample).collect();
    rows.sort_unstable();
    rows.dedup();
    println!("\nWhat fathom measured, and the truth:\n");
    println!(
        "{}  {:>7}  {:>10}  {:>10}  {:>10}  verdict",
        Row::HEADER,
        "samples",
        "measured",
        "true",
        "difference"
    );
    let mut inaccurate = 0;
    for row in &rows {
        let figures = comparison.figures_of(|pair| Row::of(&pair.flow, pair.method) == Some(*row));
        let is_good = figures.samples > 0 && figures.is_accurate();
        inaccurate += usize::from(!is_good);
        println!(
            "{row}  {:>7}  {:>7.2} ms  {:>7.2} ms  {:>+7} us  {}",
            figures.samples,
            figures.median_rtt_ns as f64 / 1e6,
            figures.median_truth_ns as f64 / 1e6,
            figures.bias_ns / 1_000,
            if is_good {
                "ok"
            } else {
                "OFF by more than 100 us + 0.5 %"
            },
        );
    }
    println!("\n{EXPLANATION}");
    let strange = comparison.unexplained.len();
    println!(
        "{} samples in all; {strange} of them of packets that the links do not know.",
        samples.len()
    );
    for sample in &comparison.unexplained {
        println!("  {sample:?}");
    }
    rows::check_complete(&rows)?;
    if inaccurate > 0 || strange > 0 {
        bail!(
            "{inaccurate} rows are off and {strange} samples are of no packets: is this machine very busy?"
        );
    }
    Ok(())
}
