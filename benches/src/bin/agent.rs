//! What an agent takes of a processor and of memory while very many flows talk.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fathom_benches::live::{Answers, Bench};
use fathom_benches::made_anew;
use fathom_lab::summary::{Row, conclude};

const MEGABYTE: f64 = 1e6;
/// Of one processor.
const MOST_CPU: f64 = 0.05;
const MOST_MEGABYTES: f64 = 64.0;
/// Until it has seen all flows, and records of an interval leave.
const WARM_UP: u32 = 15;
/// Seconds between two looks at the memory, of which the most counts.
const BETWEEN: u32 = 5;

/// Measure the processor time and memory of `fathom agent` (needs root).
///
/// All flows exchange data both ways once a second. The agent measures what it does by default, and
/// keeps it in a store.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// The directory of the store, which is made anew.
    #[arg(long, default_value = "target/benches-data/agent")]
    out: PathBuf,
    /// Flows that talk.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1_000..=65_536))]
    flows: u32,
    /// Seconds, after the first fifteen: two of the longest intervals.
    #[arg(long, default_value_t = 130, value_parser = clap::value_parser!(u32).range(10..=600))]
    seconds: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let out = made_anew(&arguments.out)?;
    let bench = Bench::new()?;
    let agent = bench.agent(&arguments.fathom, &out)?;
    let mut exchanges = bench.exchanges(arguments.flows, Answers::Data)?;
    exchanges.send(WARM_UP, arguments.flows)?;
    let before = agent.cpu_time()?;
    let (mut elapsed, mut anonymous, mut kernel) = (Duration::ZERO, 0, 0);
    for _ in 0..arguments.seconds / BETWEEN {
        elapsed += exchanges.send(BETWEEN, arguments.flows)?;
        let memory = agent.memory()?;
        anonymous = anonymous.max(memory.anonymous_bytes);
        kernel = kernel.max(memory.kernel_bytes());
    }
    let cpu = agent.cpu_time()?.as_secs_f64() - before.as_secs_f64();
    let cpu = cpu / elapsed.as_secs_f64();
    let finished = agent.stop()?;
    print!("{}", finished.said);
    let (anonymous, kernel) = (anonymous as f64 / MEGABYTE, kernel as f64 / MEGABYTE);
    let row = |what: &str, target: String, measured: String, is_reached| Row {
        what: format!("agent, {} flows that all talk, {what}", arguments.flows),
        target,
        measured,
        is_reached: Some(is_reached),
    };
    let rows = [
        row(
            "processor time",
            format!("at most {:.0} % of one", MOST_CPU * 100.0),
            format!("{:.1} %", cpu * 100.0),
            cpu <= MOST_CPU,
        ),
        row(
            "memory of the process",
            format!("at most {MOST_MEGABYTES} MB"),
            format!("{anonymous:.1} MB, and {kernel:.1} MB in the kernel"),
            anonymous <= MOST_MEGABYTES,
        ),
    ];
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}
