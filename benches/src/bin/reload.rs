//! Whether an agent loses anything while it reads its configuration again under load.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use fathom_benches::live::{Answers, Bench, ask_agent};
use fathom_benches::{lines, made_anew};
use fathom_lab::summary::{Row, conclude};

/// What is measured at first, and what later.
const ALL: &[&str] = &["rtt", "response", "traffic", "profile"];
const FEWER: &[&str] = &["rtt", "traffic"];
/// Seconds of traffic before and behind the reload.
const SECONDS: u32 = 3;

/// Offer samples to `fathom agent` while it reads its configuration again, and count what it keeps
/// (needs root).
///
/// All flows have a request and its acknowledgement in turn. Each flow must have as many samples as
/// it had requests; one that was measured before and behind the reload is there twice.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// A directory for its files, which is made anew.
    #[arg(long, default_value = "target/benches-data/reload")]
    out: PathBuf,
    /// Samples a second.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    rate: u32,
    /// Connections that they come from.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=65_536))]
    flows: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// What an agent kept.
#[derive(Debug, Default)]
struct Kept {
    /// Samples of each client.
    samples: HashMap<String, u64>,
    /// What was counted as lost, by measurement and name, since its measurements began;
    losses: HashMap<String, u64>,
    /// and of those before.
    lost_before: u64,
}

impl Kept {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        for line in BufReader::new(file).lines() {
            kept.add(&line.context("read records")?);
        }
        Ok(kept)
    }

    fn add(&mut self, line: &str) {
        let value = |name: &str| lines::value(line, name).unwrap_or_default();
        let number = |name: &str| value(name).parse().unwrap_or(0);
        match value("kind") {
            "rtt_aggregate" => {
                // The direction of the answers has none.
                let samples = number("rtt_samples");
                if samples > 0 {
                    let client = value("source").to_owned();
                    *self.samples.entry(client).or_default() += samples;
                }
            }
            // The last that the measurements before had to say has been read.
            "agent" => self.lost_before += self.losses.drain().map(|(_, lost)| lost).sum::<u64>(),
            "count" if value("name").contains("lost") => {
                let name = format!("{}: {}", value("measurement"), value("name"));
                self.losses.insert(name, number("count"));
            }
            _ => {}
        }
    }

    fn lost(&self) -> u64 {
        self.lost_before + self.losses.values().sum::<u64>()
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let cases = [("the same", ALL), ("fewer", FEWER)];
    let rows = cases.map(|(name, after)| measure(&arguments, name, after));
    let rows: Vec<_> = rows.into_iter().collect::<anyhow::Result<_>>()?;
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

/// Every request is measured.
fn configuration(measured: &[&str]) -> String {
    format!("[agent]\nmeasure = {measured:?}\n[rtt]\nsample-interval = \"0s\"\nflows = 65536\n")
}

fn measure(arguments: &Arguments, name: &str, after: &[&str]) -> anyhow::Result<Row> {
    let out = made_anew(&arguments.out)?;
    let file = out.join("fathom.toml");
    fs::write(&file, configuration(ALL))?;
    let bench = Bench::new()?;
    let agent = bench.configured_agent(&arguments.fathom, &file, &out)?;
    let mut exchanges = bench.exchanges(arguments.flows, Answers::Acknowledgements)?;
    let rounds = 2 * SECONDS * arguments.rate / arguments.flows;
    let (sent, took) = thread::scope(|scope| {
        let sending = scope.spawn(|| exchanges.send(rounds, arguments.rate));
        thread::sleep(Duration::from_secs(SECONDS.into()));
        let took = reload(&arguments.fathom, &out, &configuration(after));
        let sent = sending.join().map_err(|_| anyhow::anyhow!("no traffic"));
        anyhow::Ok((sent??, took?))
    })?;
    let said = agent.stop()?.said;
    print!("{said}");

    let kept = Kept::read(&out.join("records.json"))?;
    let offered = u64::from(rounds);
    let samples = || kept.samples.values();
    let absent = u64::from(arguments.flows).saturating_sub(samples().count() as u64);
    let missing = samples().map(|count| offered.saturating_sub(*count));
    let missing = missing.sum::<u64>() + absent * offered;
    let twice: u64 = samples().map(|count| count.saturating_sub(offered)).sum();
    let rate = f64::from(arguments.flows * rounds) / sent.as_secs_f64();
    println!(
        "{name}: {rate:.0} samples a second offered, {} in all: {missing} missing, {twice} twice, {} counted as lost; the reload took {took:.2?}",
        arguments.flows * rounds,
        kept.lost()
    );
    Ok(Row {
        what: format!(
            "agent, reload with {name} measurements, {} samples a second offered",
            arguments.rate
        ),
        target: "none missing, none lost".to_owned(),
        measured: format!(
            "{missing} missing, {} lost of {} ({rate:.0} a second); {twice} counted twice, in {:.2} s",
            kept.lost(),
            arguments.flows * rounds,
            took.as_secs_f64()
        ),
        is_reached: Some(missing == 0 && kept.lost() == 0),
    })
}

/// Has the agent read this configuration, and says how long that takes.
fn reload(fathom: &Path, directory: &Path, configuration: &str) -> anyhow::Result<Duration> {
    fs::write(directory.join("fathom.toml"), configuration)?;
    let begin = Instant::now();
    ask_agent(fathom, directory, "reload")?;
    Ok(begin.elapsed())
}
