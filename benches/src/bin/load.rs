//! What fathom takes of a processor at a given rate of samples, and whether it loses any.

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use fathom_benches::live::{Answers, Bench};
use fathom_lab::summary::{Row, conclude};

/// The most that the target allows, as a share of one core.
const MOST_SHARE: f64 = 0.15;
/// The least part of the asked rate that must have been offered: a sender that fell further behind
/// has not tried what is asked.
const LEAST_OFFERED: f64 = 0.98;

/// Offer samples to `fathom rtt` on a live interface, and count what it prints (needs root).
///
/// Requests and the acknowledgements that echo their timestamps cross a veth pair between two
/// namespaces; every request is measured (--sample-interval 0) and printed as JSON to a file.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// Where to put what it prints, until it is counted.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// Samples a second.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    rate: u32,
    /// Connections that they come from.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1_000..=65_536))]
    flows: u32,
    /// Seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Append the row of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let bench = Bench::new()?;
    let output = arguments.out.join("load.json");
    let fathom = bench.measure(&arguments.fathom, &["--sample-interval", "0"], output)?;
    let mut exchanges = bench.exchanges(arguments.flows, Answers::Acknowledgements)?;
    // Opens the flows, and gives a sample of each.
    exchanges.send(1, arguments.rate)?;
    let opening = u64::from(arguments.flows);

    let rounds = arguments.seconds * arguments.rate / arguments.flows;
    let offered = u64::from(rounds) * u64::from(arguments.flows);
    let before = fathom.cpu_time()?;
    let elapsed = exchanges.send(rounds, arguments.rate)?;
    let used = fathom.cpu_time()?.saturating_sub(before);
    let finished = fathom.stop()?;

    let offered_rate = offered as f64 / elapsed.as_secs_f64();
    // At the rate that was asked for, also where the sender fell behind.
    let share = used.as_secs_f64() / offered as f64 * f64::from(arguments.rate);
    let missing = (offered + opening).saturating_sub(finished.samples);
    println!(
        "{offered} samples of {} flows offered, behind one of each, in {:.2} s ({offered_rate:.0} a second): {} printed, {missing} missing, {} counted as lost",
        arguments.flows,
        elapsed.as_secs_f64(),
        finished.samples,
        finished.lost()
    );
    println!(
        "processor: {used:.2?} in {elapsed:.2?}: {:.1} % of a core at {} a second",
        100.0 * share,
        arguments.rate
    );
    for (name, count) in &finished.counts {
        println!("  {name}: {count}");
    }
    let is_offered = offered_rate >= LEAST_OFFERED * f64::from(arguments.rate);
    if !is_offered {
        println!(
            "the sender was too slow to offer what is asked: run it again on a machine that does nothing else"
        );
    }
    let row = Row {
        what: format!(
            "user space, live, {} samples a second offered",
            arguments.rate
        ),
        target: format!("none lost, under {:.0} % of a core", 100.0 * MOST_SHARE),
        measured: format!(
            "{missing} lost of {offered} ({offered_rate:.0} a second offered), {:.1} %",
            100.0 * share
        ),
        is_reached: Some(is_offered && finished.samples == offered + opening && share < MOST_SHARE),
    };
    Ok(conclude(&[row], arguments.summary.as_deref())?)
}
