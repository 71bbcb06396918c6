//! What a packet costs in the kernel, over an empty program and against one that only parses and
//! looks an entry up.

mod programs;
mod scenario;

use std::path::PathBuf;

use anyhow::ensure;
use clap::Parser;
use fathom_benches::programs::{Programs, Step};
use fathom_benches::statistics::median;
use fathom_lab::summary::{Row, conclude};
use fathom_measure::rtt::Settings;

use programs::{Contender, has_flow, load, run};
use scenario::Scenario;

/// Room for the connections of [`Scenario::many_flows`].
const MANY_FLOWS: u32 = 98_304;

/// Measure what fathom's program costs a packet, by `BPF_PROG_TEST_RUN` (needs root).
///
/// An empty program, a reference that parses the packet and looks its flow up in the same map, and
/// the production program take turns; all of them first change a field of the packet, so that it is
/// a new one each time. Figures are nanoseconds a packet over the empty program; the ratio is
/// formed within each round.
#[derive(Debug, Parser)]
struct Arguments {
    /// Packets of each program in each round.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    packets: u32,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Append the row of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// Nanoseconds over the empty program.
#[derive(Debug, Clone, Copy)]
struct Cost {
    clock_ns: f64,
    reference_ns: f64,
    production_ns: f64,
    ratio: f64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: loading BPF programs needs root");
        return Ok(());
    }
    let defaults = Settings::live();
    println!(
        "{} packets a program and round, {} rounds, medians; ns a packet over an empty program",
        arguments.packets, arguments.rounds
    );
    println!(
        "{:44} {:>10} {:>10} {:>7}",
        "packet", "reference", "fathom", "ratio"
    );
    let mut clock_ns = Vec::new();
    let mut rows = Vec::new();
    let programs = load(&defaults)?;
    for scenario in Scenario::all() {
        let cost = measure(&programs, &scenario, &arguments)?;
        print(scenario.name, &cost);
        clock_ns.push(cost.clock_ns);
        rows.extend(row(&scenario, &cost));
    }
    drop(programs);
    let roomy = Settings {
        flows: MANY_FLOWS,
        ..defaults.clone()
    };
    let scenario = Scenario::many_flows();
    let cost = measure(&load(&roomy)?, &scenario, &arguments)?;
    print(scenario.name, &cost);
    rows.extend(row(&scenario, &cost));
    let with_events = Settings {
        has_events: true,
        ..defaults
    };
    let scenario = Scenario::known_value();
    let cost = measure(&load(&with_events)?, &scenario, &arguments)?;
    print(&format!("{}, --events", scenario.name), &cost);
    println!("bpf_ktime_get_ns: {:.1} ns", median(clock_ns));
    println!("--interval changes nothing in the kernel.");
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

fn print(name: &str, cost: &Cost) {
    println!(
        "{name:44} {:>10.1} {:>10.1} {:>7.2}",
        cost.reference_ns, cost.production_ns, cost.ratio
    );
}

fn row(scenario: &Scenario, cost: &Cost) -> Option<Row> {
    let most = scenario.most_ratio?;
    Some(Row {
        what: format!("kernel, {}, over an empty program", scenario.name),
        target: format!("at most {most} of a program that only parses and looks one LRU entry up"),
        measured: format!(
            "{:.2} ({:.0} ns and {:.0} ns)",
            cost.ratio, cost.production_ns, cost.reference_ns
        ),
        is_reached: Some(cost.ratio <= most),
    })
}

/// Runs all contenders over a packet, in turns.
fn measure(
    programs: &Programs,
    scenario: &Scenario,
    arguments: &Arguments,
) -> anyhow::Result<Cost> {
    programs.set_steps([Step::default(); 2])?;
    for frame in &scenario.before {
        run(programs, Contender::Production, frame, 1)?;
    }
    if let Some(opening) = scenario.opening {
        programs.set_steps([opening, Step::default()])?;
        let frame = scenario.frame_after(0);
        run(programs, Contender::Production, &frame, arguments.packets)?;
    }
    programs.set_steps(scenario.steps)?;
    let mut costs = Vec::new();
    // The first round warms up.
    for round in 0..=arguments.rounds {
        let frame = scenario.frame_after(round.wrapping_mul(arguments.packets));
        let run = |contender| run(programs, contender, &frame, arguments.packets);
        let empty_ns = run(Contender::Empty)?.packet_ns;
        let reference = run(Contender::Reference)?;
        let production_ns = run(Contender::Production)?.packet_ns - empty_ns;
        if round == 0 && scenario.has_flow {
            run(Contender::Learn)?;
        }
        let clock_ns = run(Contender::Clock)?.packet_ns - empty_ns;
        ensure!(
            round == 0 || has_flow(reference) == scenario.has_flow,
            "{}: the flow is {}in the table",
            scenario.name,
            if has_flow(reference) { "" } else { "not " }
        );
        let reference_ns = reference.packet_ns - empty_ns;
        costs.push(Cost {
            clock_ns,
            reference_ns,
            production_ns,
            ratio: production_ns / reference_ns,
        });
    }
    let of = |figure: fn(&Cost) -> f64| median(costs[1..].iter().map(figure));
    Ok(Cost {
        clock_ns: of(|cost| cost.clock_ns),
        reference_ns: of(|cost| cost.reference_ns),
        production_ns: of(|cost| cost.production_ns),
        ratio: of(|cost| cost.ratio),
    })
}
