//! What the balancer costs a packet, over an empty program, and in memory.

// The world of the balancer's fixtures, and the fixtures themselves: what they show to work is what
// is measured.
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests' own: they need more of it, and fail by it"
)]
#[path = "../../../../crates/balance/tests/packets/balancer.rs"]
mod balancer;
mod cases;
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests' own: they need more of it, and fail by it"
)]
#[path = "../../../../crates/balance/tests/packets/fixtures/mod.rs"]
mod fixtures;
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests' own: they need more of it, and fail by it"
)]
#[path = "../../../../crates/balance/tests/packets/frame.rs"]
mod frame;
mod memory;
mod process;
mod turns;
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests' own: they need more of it, and fail by it"
)]
#[path = "../../../../crates/balance/tests/packets/world.rs"]
mod world;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fathom_lab::summary::{Row, conclude};

use cases::{Case, Cost, Measured};
use turns::Turns;

/// Measure what the balancer costs a packet, by `BPF_PROG_TEST_RUN` (needs root).
///
/// An empty program and the production program take turns; both first make the buffer the frame
/// that arrives, of the next flow. Figures are nanoseconds a packet over the empty program, formed
/// within each round. What undoes the encapsulation is counted as the balancer's.
#[derive(Debug, Parser)]
struct Arguments {
    /// Packets of each program in each round.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    packets: u32,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Measure each fixture of the balancer's tests too.
    #[arg(long)]
    fixtures: bool,
    /// The fathom binary, built for release: with it, what ten services take of memory, and the
    /// process of a processor, is measured too.
    #[arg(long)]
    fathom: Option<PathBuf>,
    /// How long the process is watched, without packets and with many, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: loading BPF programs needs root");
        return Ok(());
    }
    println!(
        "{} packets a program and round, {} rounds; ns a packet over an empty program",
        arguments.packets, arguments.rounds
    );
    println!(
        "{:62} {:>7} {:>7} {:>7}  target",
        "packet", "least", "median", "empty"
    );
    let mut rows = Vec::new();
    let turns = Turns::load(1024, Measured::No);
    println!(
        "bpf_ktime_get_ns alone: {:.0} ns; to undo an encapsulation, which is in the figures: {:.0} ns",
        turns.clock(&arguments)?,
        turns.undo(&arguments)?
    );
    let mut costs = Vec::new();
    for case in Case::all() {
        let turns = Turns::load(case.places, case.measured);
        let cost = turns.measure(&case, &arguments)?;
        print(&case, &cost);
        rows.extend(case.row(&cost));
        costs.push((case, cost));
    }
    rows.extend(cases::measuring(&costs));
    if arguments.fixtures {
        cases::fixtures(&arguments)?;
    }
    rows.push(memory::of_a_connection());
    if let Some(fathom) = &arguments.fathom {
        rows.push(memory::of_services(fathom)?);
        rows.extend(process::rows(
            fathom,
            Duration::from_secs(arguments.seconds),
        )?);
    }
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

fn print(case: &Case, cost: &Cost) {
    let verdict = case.most_ns.map_or_else(String::new, |most| {
        let verdict = if cost.median_ns <= most {
            "ok"
        } else {
            "MISSED"
        };
        format!("{most:.0} {verdict}")
    });
    println!(
        "{:62} {:>7.0} {:>7.0} {:>7.0}  {verdict}",
        case.name, cost.least_ns, cost.median_ns, cost.empty_ns
    );
}

impl Case {
    /// The row of the summary, if there is a target.
    fn row(&self, cost: &Cost) -> Option<Row> {
        self.most_ns.map(|most| Row {
            what: format!("kernel, balancer, {}", self.name),
            target: format!("at most {most:.0} ns over an empty program"),
            measured: format!("{:.0} ns (least {:.0})", cost.median_ns, cost.least_ns),
            is_reached: Some(cost.median_ns <= most),
        })
    }
}
