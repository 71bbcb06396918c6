//! The two ways of running the algorithms, over the same packets at the same times: natively, over a capture file, and by the kernel. Both
//! must give what each vector of `src/rtt/vectors` expects, and both the same for packets that chance made.
#![cfg(feature = "live")]

mod frame;
mod hosts;
mod kernel;
mod native;
mod outcome;
mod random;
mod scenario;
mod shared;
mod transport;
mod words;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_capture::LinkType;
use kernel::Kernel;
use outcome::Run;
use scenario::Scenario;

/// All vectors: names and texts.
fn vectors() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rtt/vectors");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "vector"))
        .collect();
    paths.sort();
    let only = std::env::var("FATHOM_VECTOR").unwrap_or_default();
    paths
        .into_iter()
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
        .filter(|(name, _)| name.contains(&only))
        .collect()
}

/// The programs that can run the frames of this vector, none where the kernel has no such thing.
fn programs(scenario: &Scenario) -> &'static [&'static str] {
    if scenario.native_only.is_some() {
        return &[];
    }
    match scenario.link {
        LinkType::ETHERNET => &["ethernet_ingress", "ethernet_egress", "xdp_ingress"],
        // A test run takes the protocol of a packet from where an Ethernet header has it, in the middle of the source address: the vectors
        // of this link have addresses to match.
        LinkType::RAW => &["ip_ingress", "ip_egress"],
        _ => &[],
    }
}

/// What differs from the expectation, in words; empty when nothing does.
fn differences(scenario: &Scenario, run: &Run) -> String {
    let mut told = String::new();
    let longest = scenario.expected.len().max(run.outcomes.len());
    for number in 0..longest {
        match (scenario.expected.get(number), run.outcomes.get(number)) {
            (Some(expected), Some(own)) if own.meets(expected) => {}
            (expected, own) => {
                let text = |outcome: Option<&outcome::Outcome>| outcome.map_or("nothing".to_owned(), ToString::to_string);
                let _ = writeln!(told, "  expected {}\n       got {}", text(expected), text(own));
            }
        }
    }
    for (name, expected) in &scenario.counts {
        let own = run.counts.get(name.as_str()).copied().unwrap_or_default();
        if own != *expected {
            let _ = writeln!(told, "  expected {expected} {name}\n       got {own}");
        }
    }
    told
}

/// Runs every vector by `run`, which gives the runs by the names of their ways.
fn check(mut run: impl FnMut(&Scenario) -> Vec<(&'static str, Run)>) -> usize {
    let (mut told, mut runs) = (String::new(), 0);
    for (name, text) in vectors() {
        let scenario = scenario::read(&text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        for (way, run) in run(&scenario) {
            let differences = differences(&scenario, &run);
            if !differences.is_empty() {
                let _ = writeln!(told, "{name} ({way}):\n{differences}");
            }
            runs += 1;
        }
    }
    assert!(told.is_empty(), "\n{told}");
    runs
}

#[test]
fn the_native_path_gives_what_the_vectors_expect() {
    let runs = check(|scenario| vec![("native", native::run(scenario.link, &scenario.settings, &scenario.frames))]);
    println!("{runs} vectors");
}

#[test]
fn the_bpf_programs_give_what_the_vectors_expect() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let runs = check(|scenario| {
        let programs = programs(scenario);
        if programs.is_empty() {
            return Vec::new();
        }
        let mut kernel = Kernel::load(&scenario.settings, &scenario.methods);
        programs.iter().map(|program| (*program, kernel.run(program, &scenario.frames))).collect()
    });
    println!("{runs} runs of programs");
}

#[test]
fn both_paths_count_the_same_in_every_vector() {
    if let Some(obstacle) = kernel::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    for (name, text) in vectors() {
        let scenario = scenario::read(&text).unwrap();
        let settings = fathom_measure::rtt::Settings { has_events: true, ..scenario.settings.clone() };
        for program in programs(&scenario).iter().take(1) {
            let natively = native::run(scenario.link, &settings, &scenario.frames);
            let in_kernel = Kernel::load(&settings, &scenario.methods).run(program, &scenario.frames);
            assert!(natively == in_kernel, "{name}\nnatively\n{natively}in the kernel\n{in_kernel}");
        }
    }
}
