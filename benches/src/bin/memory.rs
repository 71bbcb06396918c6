//! What fathom takes of memory, in the kernel and for itself, with a full table of flows.

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use fathom_benches::live::{Answers, Bench, Finished, Memory};
use fathom_lab::summary::{Row, conclude};

const MEGABYTE: f64 = 1e6;

/// Measure the memory of `fathom rtt` while many flows are active (needs root).
///
/// All flows exchange data both ways, each a few times, so that every direction of every flow has
/// samples. The kernel's part is what it says of each map and program, the process's its largest
/// resident set without maps.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom binary, built for release.
    #[arg(long)]
    fathom: PathBuf,
    /// Where to put what it prints, until it is counted.
    #[arg(long, default_value = "target/benches-data")]
    out: PathBuf,
    /// Flows that are active at the same time.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1_000..=1_048_576))]
    flows: u32,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// A way to run fathom, and what it may take.
struct Case {
    options: &'static [&'static str],
    name: &'static str,
    /// Exchanges of every flow: so many seconds.
    rounds: u32,
    most_megabytes: f64,
    /// Whether the limit is for kernel and process together, or for the kernel.
    counts_process: bool,
}

const CASES: [Case; 3] = [
    Case {
        options: &[],
        name: "default settings, kernel",
        rounds: 3,
        most_megabytes: 40.0,
        counts_process: false,
    },
    // Long enough for the end of an interval, whose records leave while the next is measured: for
    // half of it there are two.
    Case {
        options: &["--interval", "5s", "--by", "flow"],
        name: "`--interval 5s --by flow`, kernel and process",
        rounds: 7,
        most_megabytes: 128.0,
        counts_process: true,
    },
    Case {
        options: &["--interval", "5s", "--by", "network"],
        name: "`--interval 5s --by network`, kernel and process",
        rounds: 7,
        most_megabytes: 64.0,
        counts_process: true,
    },
];

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make the folder {}", arguments.out.display()))?;
    let mut rows = Vec::new();
    for case in &CASES {
        let (memory, finished) = measure(case, &arguments)?;
        print(case, &memory, &finished);
        rows.push(row(case, &memory, &finished, arguments.flows));
    }
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

fn measure(case: &Case, arguments: &Arguments) -> anyhow::Result<(Memory, Finished)> {
    let bench = Bench::new()?;
    let output = arguments.out.join("memory.json");
    let fathom = bench.measure(&arguments.fathom, case.options, output)?;
    let mut exchanges = bench.exchanges(arguments.flows, Answers::Data)?;
    exchanges.send(case.rounds, arguments.flows)?;
    let memory = fathom.memory()?;
    Ok((memory, fathom.stop()?))
}

fn print(case: &Case, memory: &Memory, finished: &Finished) {
    println!("fathom rtt {}", case.options.join(" "));
    for object in &memory.kernel {
        println!(
            "  {:24} {:>8.2} MB",
            object.name,
            object.bytes as f64 / MEGABYTE
        );
    }
    println!(
        "  kernel in all            {:>8.2} MB",
        memory.kernel_bytes() as f64 / MEGABYTE
    );
    println!(
        "  process                  {:>8.2} MB now, {:.2} MB at most",
        memory.resident_bytes as f64 / MEGABYTE,
        memory.peak_bytes as f64 / MEGABYTE
    );
    println!(
        "  printed: {} samples, {} aggregates",
        finished.samples, finished.aggregates
    );
    for (name, count) in &finished.counts {
        println!("    {name}: {count}");
    }
}

fn row(case: &Case, memory: &Memory, finished: &Finished, flows: u32) -> Row {
    let kernel = memory.kernel_bytes() as f64 / MEGABYTE;
    let process = memory.peak_bytes as f64 / MEGABYTE;
    let counted = if case.counts_process {
        kernel + process
    } else {
        kernel
    };
    Row {
        what: format!("memory, {flows} active flows, {}", case.name),
        target: format!("at most {:.0} MB, none lost", case.most_megabytes),
        measured: format!(
            "{counted:.1} MB (kernel {kernel:.1}, process {process:.1} at most); {} samples lost",
            finished.lost()
        ),
        is_reached: Some(counted <= case.most_megabytes && finished.lost() == 0),
    }
}
