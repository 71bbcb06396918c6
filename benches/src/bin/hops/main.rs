//! What `fathom hops` costs and does to packets: nanoseconds of those that are not cloned, how soon
//! a probe leaves, and throughput.

mod cost;
mod delay;
mod harm;
mod packets;
mod programs;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use fathom_lab::summary::conclude;

/// Measure what `fathom hops` does to the packets of this host (needs root).
///
/// Everything is compared with the same without fathom, or with a contender, in turns. Traffic
/// stays in namespaces.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// Where to put what it prints, until it is counted.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// Only these; by default all.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Piece>,
    /// Turns of each contender.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: u32,
    /// Length of a turn of `delay`, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=20_000))]
    window: u64,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Piece {
    /// Nanoseconds of a packet that is not cloned.
    Cost,
    /// From a packet to its probe.
    Delay,
    /// Throughput under a shaper.
    Harm,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let folder = &arguments.out;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut rows = Vec::new();
    for piece in Piece::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(piece) {
            continue;
        }
        rows.extend(match piece {
            Piece::Cost => vec![cost::measure()?],
            Piece::Delay => {
                delay::measure(arguments.pairs, Duration::from_millis(arguments.window))?
            }
            Piece::Harm => harm::measure(&arguments.fathom, folder, arguments.pairs)?,
        });
    }
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}
