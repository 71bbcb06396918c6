//! The two ways of running the algorithms, over the same packets at the same times: natively, over
//! a capture file, and by the kernel. Both must give what each vector of `src/rtt/vectors` expects,
//! and both the same for packets that chance made.
#![cfg(feature = "live")]
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod batches;
#[path = "../common/compile.rs"]
mod compile;
mod flood;
mod frame;
mod hosts;
mod kernel;
mod native;
mod outcome;
mod random;
mod scenario;
mod shared;
#[path = "../common/test_run.rs"]
mod test_run;
mod transport;
mod tunnel;
mod turned;
mod words;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_capture::LinkType;
use kernel::Kernels;
use outcome::Run;
use scenario::Scenario;

/// All vectors: names and texts.
fn vectors() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rtt/vectors");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "vector")
        })
        .collect();
    paths.sort();
    let only = std::env::var("FATHOM_VECTOR").unwrap_or_default();
    paths
        .into_iter()
        .map(|path| {
            (
                path.file_stem().unwrap().to_string_lossy().into_owned(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .filter(|(name, _)| name.contains(&only))
        .collect()
}

/// The programs that can run the frames of this vector, none where the kernel has no such thing.
fn programs(scenario: &Scenario) -> &'static [&'static str] {
    if scenario.native_only.is_some() {
        return &[];
    }
    match scenario.link {
        LinkType::ETHERNET => &["ethernet_ingress", "xdp_ingress"],
        // A test run takes the protocol of a packet from where an Ethernet header has it, in the
        // middle of the source address: the vectors of this link have addresses to match.
        LinkType::RAW => &["ip_ingress"],
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
                let text = |outcome: Option<&outcome::Outcome>| {
                    outcome.map_or("nothing".to_owned(), ToString::to_string)
                };
                let _ = writeln!(
                    told,
                    "  expected {}\n       got {}",
                    text(expected),
                    text(own)
                );
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

/// Checks every vector by `check`, which says what is wrong; a vector that cannot be read is wrong,
/// too.
fn check_all(mut check: impl FnMut(&Scenario) -> String) {
    let mut told = String::new();
    for (name, text) in vectors() {
        let scenario = scenario::read(&text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let differences = check(&scenario);
        if !differences.is_empty() {
            let _ = writeln!(told, "{name}:\n{differences}");
        }
    }
    assert!(told.is_empty(), "\n{told}");
}

#[test]
fn the_native_path_gives_what_the_vectors_expect() {
    check_all(|scenario| {
        let run = native::run(scenario.link, &scenario.settings, &scenario.frames);
        differences(scenario, &run)
    });
}

#[test]
fn the_bpf_programs_give_what_the_vectors_expect_and_count_the_same() {
    if let Some(obstacle) = compile::obstacle() {
        println!("skipped: {obstacle}");
        return;
    }
    let mut kernels = Kernels::default();
    check_all(|scenario| {
        let mut told = String::new();
        for program in programs(scenario) {
            let kernel = kernels.with(program, &scenario.settings, &scenario.methods);
            let run = kernel.run(&scenario.frames);
            let natively = native::run(scenario.link, &scenario.settings, &scenario.frames);
            told.push_str(&differences(scenario, &run));
            if natively != run {
                let _ = write!(told, " natively\n{natively} by {program}\n{run}");
            }
        }
        told
    });
}

/// Writes what the fuzz targets start from, when `FATHOM_CORPUS` says where: the capture file of
/// every vector, and every frame by itself behind the three bytes of choices that the target
/// `packet` reads.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("FATHOM_CORPUS") else {
        println!("skipped: FATHOM_CORPUS does not say where the corpus goes");
        return;
    };
    let folder = Path::new(&folder);
    let (files, packets) = (folder.join("replay"), folder.join("packet"));
    fs::create_dir_all(&files).unwrap();
    fs::create_dir_all(&packets).unwrap();
    let links = [
        LinkType::ETHERNET,
        LinkType::RAW,
        LinkType::LINUX_SLL,
        LinkType::LINUX_SLL2,
        LinkType::NULL,
        LinkType::LOOP,
        LinkType::PPP,
        LinkType::PPP_HDLC,
        LinkType::PPP_WITH_DIRECTION,
        LinkType::PPP_ETHERNET,
        LinkType::C_HDLC,
    ];
    for (name, text) in vectors() {
        let scenario = scenario::read(&text).unwrap();
        let file = native::file(scenario.link, &scenario.frames);
        fs::write(files.join(&name), file).unwrap();
        let link = links
            .iter()
            .position(|link| *link == scenario.link)
            .unwrap_or(links.len());
        for (number, (_, frame)) in scenario.frames.iter().enumerate() {
            let seed = [&[link as u8, 0, 0][..], &frame.data].concat();
            fs::write(packets.join(format!("{name}-{number}")), seed).unwrap();
        }
    }
}
