//! What a request costs in the kernel, over a program that only parses and looks its flow up.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;
use fathom_benches::native::{response_bins, response_flow};
use fathom_benches::programs::{Programs, Step};
use fathom_benches::statistics::median;
use fathom_benches::wire::{Segment, TcpFlags, Timestamps};
use fathom_lab::summary::{Row, conclude};
use fathom_measure::Scope;
use fathom_measure::kernel::prepare;
use fathom_measure::response::Settings;
use libbpf_rs::{MapCore, MapFlags, ObjectBuilder};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/response.bpf.o"));

/// Flows that take turns, in the cold case, and packets of a round.
const FLOWS: u32 = 65_536;
const REQUEST_BYTES: u32 = 120;
const RESPONSE_BYTES: u32 = 400;
/// What the reference returns when the flow was in the table: `TC_ACT_OK` of `linux/pkt_cls.h`.
const FOUND: u32 = 0;
/// Behind Ethernet: the source address; behind IPv4, the sequence number and the acknowledgement.
const SOURCE_ADDRESS: usize = 14 + 12;
const SEQUENCE: usize = 14 + 20 + 4;
const ACKNOWLEDGEMENT: usize = 14 + 20 + 8;
/// Behind TCP's fixed header, two bytes that fill, and the option's kind, length and value: what is
/// echoed.
const ECHO: usize = 14 + 20 + 20 + 2 + 2 + 4;

/// Measure what a request costs a `fathom response`, by `BPF_PROG_TEST_RUN` (needs root).
///
/// A reference that parses the packet and looks its flow up in an LRU hash, and the production
/// program take turns over requests that each acknowledge a response. Figures are nanoseconds a
/// packet; the difference is formed within each round.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of 65,536 packets; the median counts.
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
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
    let programs = load()?;
    println!(
        "{FLOWS} packets a program and round, {} rounds, medians; ns a packet",
        arguments.rounds
    );
    println!(
        "{:24} {:>10} {:>10} {:>10}",
        "flows", "reference", "fathom", "more"
    );
    println!(
        "bpf_ktime_get_ns alone: {:.1} ns over an empty program",
        clock(&programs, arguments.rounds)?
    );
    let cases = [
        (1, false, 50.0),
        (1, true, 62.0),
        (FLOWS, false, 90.0),
        (FLOWS, true, 102.0),
    ];
    let rows = cases.map(|(flows, has_timestamps, most)| {
        let [reference, production, more] =
            measure(&programs, flows, has_timestamps, arguments.rounds)?;
        let with = if has_timestamps { ", timestamps" } else { "" };
        let name = format!("{flows}{with}");
        println!("{name:<24} {reference:>10.1} {production:>10.1} {more:>10.1}");
        Ok(Row {
            what: format!("kernel, request of a response measurement, {flows} flows{with}"),
            target: format!(
                "at most {most:.0} ns over a program that only parses and looks one LRU entry up"
            ),
            measured: format!("{more:.0} ns ({production:.0} ns and {reference:.0} ns)"),
            is_reached: Some(more <= most),
        })
    });
    let rows = rows.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let bytes = size_of::<response_flow>() + size_of::<response_bins>();
    println!("{bytes} bytes of state a flow");
    Ok(conclude(&rows, arguments.summary.as_deref())?)
}

/// Loads the programs as the library does for its defaults.
fn load() -> anyhow::Result<Programs> {
    let mut object = ObjectBuilder::default()
        .open_memory(OBJECT)
        .context("open the BPF object")?;
    let settings = Settings {
        scope: Scope {
            flows: FLOWS + 1024,
            ..Scope::live()
        },
        ..Settings::live()
    };
    prepare(&mut object, &[&settings])?;
    Programs::load(object)
}

/// What reading the clock takes, in nanoseconds: every request does it once.
fn clock(programs: &Programs, rounds: u32) -> anyhow::Result<f64> {
    programs.set_steps([Step::default(); 2])?;
    let frame = [0; 64];
    let round = |_| {
        let clock = programs.run("clock", &frame, FLOWS)?;
        Ok(clock.packet_ns - programs.run("empty", &frame, FLOWS)?.packet_ns)
    };
    let costs: anyhow::Result<Vec<f64>> = (0..rounds).map(round).collect();
    Ok(median(costs?))
}

/// Nanoseconds a packet of the reference and of the production program, and the difference.
/// `has_timestamps`: the server's clock ticks once a millisecond, and each request echoes it.
fn measure(
    programs: &Programs,
    flows: u32,
    has_timestamps: bool,
    rounds: u32,
) -> anyhow::Result<[f64; 3]> {
    let echo = if has_timestamps { ECHO as u32 } else { 0 };
    programs
        .map(".data.echo")?
        .update(&[0; 4], &echo.to_ne_bytes(), MapFlags::ANY)?;
    let (client, server) = (
        if has_timestamps {
            "198.18.0.1:40001".parse()?
        } else {
            "198.18.0.1:40000".parse()?
        },
        "198.51.100.1:443".parse()?,
    );
    let mut costs = Vec::new();
    // The first rounds open the flows and warm up.
    for round in 0..rounds + 2 {
        // Each flow moves on: within the run if there is one, else from run to run.
        let (within, passed) = if flows == 1 {
            (1, round * FLOWS)
        } else {
            (0, round)
        };
        let segment = Segment {
            sequence: passed.wrapping_mul(REQUEST_BYTES),
            acknowledgement: passed.wrapping_mul(RESPONSE_BYTES),
            flags: TcpFlags::ACK,
            payload_bytes: REQUEST_BYTES as u16,
            timestamps: has_timestamps.then_some(Timestamps {
                value: 1,
                echo: 1, // the programs write the time here
            }),
        };
        let frame = segment.frame(client, server);
        let steps = if within == 1 {
            let step = |offset, by| Step { offset, by };
            [
                step(SEQUENCE, REQUEST_BYTES),
                step(ACKNOWLEDGEMENT, RESPONSE_BYTES),
            ]
        } else {
            [
                // In another order than they were opened in.
                Step {
                    offset: SOURCE_ADDRESS + 2,
                    by: if round == 0 { 1 << 16 } else { 0x9e37 << 16 },
                },
                Step::default(),
            ]
        };
        programs.set_steps(steps)?;
        let production = programs.run("production", &frame, FLOWS)?;
        if round == 0 {
            programs.run("learn", &frame, FLOWS)?;
        }
        let reference = programs.run("reference", &frame, FLOWS)?;
        ensure!(reference.returned == FOUND, "the flow is not in the table");
        costs.push((reference.packet_ns, production.packet_ns));
    }
    let costs = &costs[2..];
    Ok([
        median(costs.iter().map(|cost| cost.0)),
        median(costs.iter().map(|cost| cost.1)),
        median(costs.iter().map(|cost| cost.1 - cost.0)),
    ])
}
