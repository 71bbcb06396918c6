//! Records the workloads of responses, for tests that replay them: what a router has of the
//! clients, and what these waited.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use fathom_lab::stolen_time;
use fathom_tests::recording::{write_capture, write_waits};
use fathom_tests::responses::{Errors, PORT, cases, judge, thinking_cases};
use fathom_tests::{Agreement, Fathom};

/// Records closed loops of requests in the lab, three seconds each (ten with clients that think),
/// and compares what is told live with what is told of the recording (needs root).
#[derive(Debug, Parser)]
struct Options {
    /// Workloads whose names have this part; by default all.
    #[arg(long)]
    only: Vec<String>,
    /// Where to.
    folder: PathBuf,
}

fn main() -> Result<()> {
    let Options { only, folder } = Options::parse();
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    stolen_time(); // from now on
    std::fs::create_dir_all(&folder)?;
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|part| name.contains(part));
    let (mut apart, mut sure_count, mut far_count) = (0, 0, 0);
    let all = cases().into_iter().chain(thinking_cases());
    for case in all.filter(|case| is_chosen(case.name)) {
        let (loops, live, passed) = case.record(&[])?;
        let capture = folder.join(format!("{}.pcap.zst", case.name));
        write_capture(&capture, &passed, PORT)?;
        write_waits(&folder.join(format!("{}.waits", case.name)), &loops)?;
        let replayed = Fathom::replay_command("response", &capture, &[])?;
        let agreement = Agreement::of(&live.epochs(), &replayed.epochs(), &loops)?;
        let judged = judge(&live.epochs(), &loops)?;
        let far = judged.iter().filter(|one| one.is_sure() && one.is_far());
        let far: Vec<_> = far.collect();
        let sure = Errors::of(&judged, true);
        sure_count += sure.map_or(0, |errors| errors.epochs);
        far_count += far.len();
        let sure = sure.map_or_else(
            || "nothing sure".to_owned(),
            |errors| format!("median {:.2} %", errors.median * 100.0),
        );
        println!("{:24} {sure}; live and replayed: {agreement}", case.name);
        for one in far {
            println!("  sure, and off by more than a quarter: {one:?}");
        }
        apart += agreement.apart.len();
    }
    println!("{far_count} of {sure_count} sure epochs are off by more than a quarter, live");
    ensure!(
        apart == 0,
        "{apart} epochs are not the same live and replayed"
    );
    Ok(())
}
