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
use fathom_measure::kernel::OfPackets;
use fathom_measure::rtt::{Samples, Settings};
use fathom_measure::{Scope, response, traffic};

use programs::{Contender, has_flow, load, run};
use scenario::Scenario;

/// Room for the connections of [`Scenario::many_flows`].
const MANY_FLOWS: u32 = 98_304;

/// What measurements may cost that share their programs, of the sum of what each costs alone.
const MOST_TOGETHER: f64 = 0.7;

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
    /// Measure only packets whose description contains this, and none by several measurements.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Append the row of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

impl Arguments {
    fn wants(&self, scenario: &Scenario) -> bool {
        let only = self.only.as_deref();
        only.is_none_or(|text| scenario.name.contains(text))
    }
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
    for (settings, mut scenarios) in everything() {
        scenarios.retain(|scenario| arguments.wants(scenario));
        if scenarios.is_empty() {
            continue;
        }
        let programs = load(&[&settings])?;
        for scenario in scenarios {
            let cost = measure(&programs, &scenario, &arguments)?;
            println!(
                "{:44} {:>10.1} {:>10.1} {:>7.2}",
                scenario.name, cost.reference_ns, cost.production_ns, cost.ratio
            );
            clock_ns.push(cost.clock_ns);
            rows.extend(row(&scenario, &cost));
        }
    }
    if arguments.only.is_none() {
        rows.extend(together(&arguments)?);
    }
    println!("bpf_ktime_get_ns: {:.1} ns", median(clock_ns));
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

/// Packets, by the settings that they are measured with.
fn everything() -> [(Settings, Vec<Scenario>); 4] {
    let defaults = Settings::live();
    let roomy = Settings {
        scope: Scope {
            flows: MANY_FLOWS,
            ..Scope::live()
        },
        ..defaults.clone()
    };
    let with_events = Settings {
        has_events: true,
        ..defaults.clone()
    };
    let by_interval = Settings {
        samples: Samples::InBatches,
        ..defaults.clone()
    };
    [
        (defaults, Scenario::all().into()),
        (roomy, vec![Scenario::many_flows()]),
        (with_events, vec![Scenario::known_value_with_events()]),
        (by_interval, vec![Scenario::new_flow_by_interval()]),
    ]
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

/// What measurements cost that share their programs, beside what each costs alone: `rtt` and
/// `response`, and these with `traffic`.
fn together(arguments: &Arguments) -> anyhow::Result<Vec<Row>> {
    let (rtt, response) = (Settings::live(), response::Settings::live());
    let traffic = traffic::Settings::live();
    let sets: [&[&dyn OfPackets]; 5] = [
        &[&rtt],
        &[&response],
        &[&traffic],
        &[&rtt, &response],
        &[&rtt, &response, &traffic],
    ];
    println!(
        "\n{:44} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}",
        "packet", "rtt", "response", "traffic", "the two", "together", "of sum"
    );
    let mut rows = Vec::new();
    for scenario in [Scenario::known_value(), Scenario::new_value()] {
        let programs: anyhow::Result<Vec<_>> = sets.iter().map(|set| load(set)).collect();
        let programs = programs?;
        for one in &programs {
            one.set_steps([Step::default(); 2])?;
            for frame in &scenario.before {
                run(one, Contender::Production, frame, 1)?;
            }
            one.set_steps(scenario.steps)?;
        }
        let mut costs: [Vec<f64>; 5] = Default::default();
        let mut shares = Vec::new();
        for round in 0..=arguments.rounds {
            let frame = scenario.frame_after(round.wrapping_mul(arguments.packets));
            let of = |one| -> anyhow::Result<f64> {
                let run = |contender| run(one, contender, &frame, arguments.packets);
                Ok(run(Contender::Production)?.packet_ns - run(Contender::Empty)?.packet_ns)
            };
            let round: anyhow::Result<Vec<_>> = programs.iter().map(of).collect();
            let round = round?;
            shares.push(round[4] / (round[0] + round[1] + round[2]));
            for (costs, cost) in costs.iter_mut().zip(round) {
                costs.push(cost);
            }
        }
        let [rtt, response, traffic, two, all] = costs.map(median);
        let share = median(shares);
        println!(
            "{:44} {rtt:>8.1} {response:>8.1} {traffic:>8.1} {two:>8.1} {all:>8.1} {share:>7.2}",
            scenario.name
        );
        rows.push(Row {
            what: format!(
                "kernel, {}, rtt, response and traffic together",
                scenario.name
            ),
            target: format!("at most {MOST_TOGETHER} of the sum of what they cost alone"),
            measured: format!("{share:.2} ({all:.0} ns)"),
            is_reached: Some(share <= MOST_TOGETHER),
        });
    }
    Ok(rows)
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
