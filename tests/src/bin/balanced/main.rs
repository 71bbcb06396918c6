//! What clients wait behind `fathom balance`, by policy: the same arrivals, the same servers that
//! get slow and recover, run after run in turns.

mod rack;
mod statistics;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use fathom_lab::Sequence;
use fathom_lab::summary::{Row, conclude};
use fathom_lab::traffic::farm::Arrivals;

use rack::{MEAN, Run, SERVERS, Scenario, WORKERS};
use statistics::Interval;

/// Requests of a client, one after the other.
const REQUESTS: u32 = 10;
const POLICIES: [&str; 3] = ["static", "latency", "watermark"];
/// Of clients that are mostly silent, and of those that send slowly.
const IDLE: Duration = Duration::from_millis(400);
const PIECES: usize = 8;
const PACE: Duration = Duration::from_millis(10);

/// Compares what clients wait behind `fathom balance`, by policy (needs root).
///
/// A client, a balancer and four servers on one switch; each run has everything made anew. Clients
/// come by chance, whatever others wait; the same ones come in each run of a pair, and the same
/// servers change their pace at the same times.
#[derive(Debug, Parser)]
struct Options {
    /// Runs of each policy, in turns, forwards and backwards.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    pairs: u16,
    /// How long clients come, of each run.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Of what the servers can do, what they have to.
    #[arg(long, value_delimiter = ',', default_values_t = [0.3, 0.5, 0.7])]
    loads: Vec<f64>,
    /// Policies.
    #[arg(long, value_delimiter = ',', default_values_t = POLICIES.map(str::to_owned))]
    policies: Vec<String>,
    /// What clients and servers do.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Workload::Requests, Workload::Idle, Workload::Uploads])]
    workloads: Vec<Workload>,
    /// Lines of `[control]`.
    #[arg(long, default_value = "")]
    control: String,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// What clients and servers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Clients ask soon after each answer; servers change their pace.
    Requests,
    /// The same with clients that think for 20 ms on average, and have timestamps, by which that is
    /// known afterwards.
    Thinking,
    /// The same without timestamps: thinking is taken for waiting.
    Bare,
    /// Clients are silent for 400 ms after each answer; all servers are as fast: no policy can
    /// gain, and one that takes silence for waiting loses.
    Idle,
    /// Requests of eight pieces, 10 ms apart; all servers are as fast.
    Uploads,
}

impl Workload {
    /// The loads at which it is compared.
    fn loads(self, options: &Options) -> &[f64] {
        match self {
            Self::Requests => &options.loads,
            Self::Thinking | Self::Bare | Self::Idle | Self::Uploads => &[0.5],
        }
    }

    fn text(self, load: f64) -> String {
        match self {
            Self::Requests => format!("load {load}"),
            Self::Thinking => format!("load {load}, clients that think"),
            Self::Bare => format!("load {load}, clients that think, without timestamps"),
            Self::Idle => "silent clients, servers as fast as each other".to_owned(),
            Self::Uploads => "slow uploads, servers as fast as each other".to_owned(),
        }
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let (mut rows, mut gained) = (Vec::new(), Vec::new());
    for &workload in &options.workloads {
        for &load in workload.loads(&options) {
            let Some(change) = compare(&options, workload, load)? else {
                continue;
            };
            rows.push(row(
                &workload.text(load),
                "not 5 % higher",
                change.to_string(),
                change.mean < 0.05,
            ));
            if workload == Workload::Requests {
                gained.push(change.mean);
            }
        }
    }
    if !gained.is_empty() {
        let average = gained.iter().sum::<f64>() / gained.len() as f64;
        rows.push(row(
            "on average over loads",
            "at least 37 % lower",
            format!("{:+.1} %", average * 100.0),
            average <= -0.37,
        ));
    }
    Ok(conclude(&rows, options.summary.as_deref())?)
}

fn row(what: &str, target: &str, measured: String, is_reached: bool) -> Row {
    Row {
        what: format!("balance, p99 that clients wait, latency over static, {what}"),
        target: target.to_owned(),
        measured,
        is_reached: Some(is_reached),
    }
}

/// All policies with this workload, in turns. Returns by how much the p99 of `latency` differs from
/// that of `static`, if both were chosen.
fn compare(options: &Options, workload: Workload, load: f64) -> Result<Option<Interval>> {
    let mut quantiles: Vec<Vec<f64>> = vec![Vec::new(); options.policies.len()];
    let text = workload.text(load);
    for pair in 0..options.pairs {
        let duration = Duration::from_secs(options.seconds);
        let mut scenario = scenario(workload, load, duration, u64::from(pair) + 1);
        scenario.control.clone_from(&options.control);
        let mut order = (0..options.policies.len()).collect::<Vec<_>>();
        if pair % 2 == 1 {
            order.reverse();
        }
        for policy in order {
            let run = scenario.run(&options.policies[policy])?;
            println!(
                "{text} pair {pair} {:10} {}",
                options.policies[policy],
                told(&run)
            );
            quantiles[policy].push(run.outcome.quantile(0.99).as_secs_f64());
        }
    }
    let of = |name: &str| {
        options
            .policies
            .iter()
            .position(|policy| policy == name)
            .map(|at| &quantiles[at])
    };
    let compared = |base: &str| {
        let interval = Interval::of_ratios(of("latency")?, of(base)?);
        println!("{text}: p99 of latency over {base}: {interval}");
        Some(interval)
    };
    compared("watermark");
    Ok(compared("static"))
}

fn told(run: &Run) -> String {
    let [median, p90, p99] =
        [0.5, 0.9, 0.99].map(|part| run.outcome.quantile(part).as_secs_f64() * 1e3);
    let total = run.taken.iter().sum::<u64>().max(1) as f64;
    let shares = run
        .taken
        .map(|taken| format!("{:.0}", taken as f64 * 100.0 / total))
        .join(" ");
    format!(
        "p50 {median:7.1} p90 {p90:7.1} p99 {p99:7.1} ms, {} requests, {} failures, shares {shares} %",
        run.outcome.requests.len(),
        run.outcome.failures.len()
    )
}

/// How many times as long as on average a server may take; it stays so for five seconds on average.
/// The simulation of the controller has the same.
const PACES: [f64; 6] = [0.77, 0.77, 1.0, 1.0, 2.0, 5.0];
const HOLD: f64 = 5.0;

/// For each server when it takes how many times as long, by chance.
fn changing(duration: Duration, random: &mut Sequence) -> Vec<Vec<(Duration, f64)>> {
    let mut slowdowns = vec![Vec::new(); SERVERS];
    for slowdowns in &mut slowdowns {
        let mut at = 0.0;
        while at < duration.as_secs_f64() {
            let pace = PACES[random.below(PACES.len() as u64) as usize];
            slowdowns.push((Duration::from_secs_f64(at), pace));
            at += random.exponential(HOLD);
        }
    }
    slowdowns
}

fn scenario(workload: Workload, load: f64, duration: Duration, seed: u64) -> Scenario {
    let capacity = (SERVERS * WORKERS) as f64 / MEAN.as_secs_f64();
    let usual = Duration::from_millis(20);
    let (pause, think, pieces) = match workload {
        Workload::Requests => (usual, Duration::ZERO, 1),
        Workload::Thinking | Workload::Bare => (Duration::ZERO, usual, 1),
        Workload::Idle => (IDLE, Duration::ZERO, 1),
        Workload::Uploads => (usual, Duration::ZERO, PIECES),
    };
    Scenario {
        slowdowns: match workload {
            Workload::Requests | Workload::Thinking | Workload::Bare => {
                changing(duration, &mut Sequence::new(seed))
            }
            Workload::Idle | Workload::Uploads => vec![Vec::new(); SERVERS],
        },
        arrivals: Arrivals {
            per_second: load * capacity / f64::from(REQUESTS),
            requests: REQUESTS,
            pause,
            think,
            pieces,
            pace: PACE,
            duration,
            patience: Duration::from_secs(30),
            seed,
        },
        has_timestamps: workload != Workload::Bare,
        control: String::new(),
        seed,
    }
}
