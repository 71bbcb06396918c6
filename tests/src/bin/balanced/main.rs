//! What clients wait behind `fathom balance`, by policy: the same arrivals, the same servers that get slow and recover, run after run in turns.

mod rack;
mod statistics;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fathom_lab::Sequence;
use fathom_lab::summary::{Row, conclude};
use fathom_lab::traffic::farm::Arrivals;

use rack::{MEAN, Run, SERVERS, Scenario, WORKERS};
use statistics::Interval;

/// Requests of a client, one after the other.
const REQUESTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
const POLICIES: [&str; 3] = ["static", "latency", "watermark"];

/// What is asked for on the command line.
struct Options {
    pairs: usize,
    loads: Vec<f64>,
    seconds: u64,
    policies: Vec<String>,
    /// The servers change their pace.
    is_changing: bool,
    /// Lines of `[control]`.
    control: String,
    summary: Option<PathBuf>,
}

fn main() -> Result<()> {
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let options = Options::read(std::env::args().skip(1))?;
    let mut improvements = Vec::new();
    for &load in &options.loads {
        improvements.extend(compare(&options, load)?.map(|change| (load, change)));
    }
    if improvements.is_empty() {
        return Ok(());
    }
    let average = improvements
        .iter()
        .map(|(_, change)| change.mean)
        .sum::<f64>()
        / improvements.len() as f64;
    println!(
        "p99 of latency over static, on average over loads: {:+.1} %",
        average * 100.0
    );
    let mut rows = vec![row(
        "on average over loads",
        "at least 37 % lower",
        format!("{:+.1} %", average * 100.0),
        average <= -0.37,
    )];
    rows.extend(improvements.iter().map(|(load, change)| {
        let is_reached = change.mean < 0.05;
        row(
            &format!("load {load}"),
            "not 5 % higher",
            change.to_string(),
            is_reached,
        )
    }));
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

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            pairs: 10,
            loads: vec![0.3, 0.5, 0.7],
            seconds: 20,
            policies: POLICIES.map(str::to_owned).to_vec(),
            is_changing: true,
            control: String::new(),
            summary: None,
        };
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        while let Some(argument) = arguments.next() {
            let value = arguments.next().context("each option takes a value")?;
            match argument.as_str() {
                "--pairs" => options.pairs = value.parse()?,
                "--seconds" => options.seconds = value.parse()?,
                "--loads" => {
                    options.loads = list(&value)
                        .iter()
                        .map(|load| load.parse())
                        .collect::<Result<_, _>>()?;
                }
                "--pace" => options.is_changing = value == "changing",
                "--control" => options.control = value,
                "--policies" => options.policies = list(&value),
                "--summary" => options.summary = Some(value.into()),
                _ => bail!(
                    "usage: balanced [--pairs N] [--seconds S] [--loads A,B] [--policies A,B] [--pace changing|steady] [--control LINES] [--summary FILE]"
                ),
            }
        }
        Ok(options)
    }
}

/// All policies at this load, in turns. Returns by how much the p99 of `latency` differs from that of `static`, if both were chosen.
fn compare(options: &Options, load: f64) -> Result<Option<Interval>> {
    let mut quantiles: Vec<Vec<f64>> = vec![Vec::new(); options.policies.len()];
    for pair in 0..options.pairs {
        let mut scenario = changing(load, Duration::from_secs(options.seconds), pair as u64 + 1);
        scenario.control.clone_from(&options.control);
        if !options.is_changing {
            scenario.slowdowns = vec![Vec::new(); SERVERS];
        }
        let mut order = (0..options.policies.len()).collect::<Vec<_>>();
        if pair % 2 == 1 {
            order.reverse();
        }
        for policy in order {
            let run = scenario.run(&options.policies[policy])?;
            println!(
                "load {load} pair {pair} {:10} {}",
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
        println!("load {load}: p99 of latency over {base}: {interval}");
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

/// How many times as long as on average a server may take; it stays so for five seconds on average. The simulation of the controller has the same.
const PACES: [f64; 6] = [0.77, 0.77, 1.0, 1.0, 2.0, 5.0];
const HOLD: f64 = 5.0;

/// Servers that change their pace by chance.
fn changing(load: f64, duration: Duration, seed: u64) -> Scenario {
    let mut random = Sequence::new(seed);
    let mut slowdowns = vec![Vec::new(); SERVERS];
    for slowdowns in &mut slowdowns {
        let mut at = 0.0;
        while at < duration.as_secs_f64() {
            let pace = PACES[random.below(PACES.len() as u64) as usize];
            slowdowns.push((Duration::from_secs_f64(at), pace));
            at += random.exponential(HOLD);
        }
    }
    let capacity = (SERVERS * WORKERS) as f64 / MEAN.as_secs_f64();
    Scenario {
        slowdowns,
        arrivals: Arrivals {
            per_second: load * capacity / f64::from(REQUESTS),
            requests: REQUESTS,
            pause: PAUSE,
            duration,
            patience: Duration::from_secs(30),
            seed,
        },
        control: String::new(),
        seed,
    }
}
