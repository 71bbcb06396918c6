//! What `fathom explain` says of faults that are made in the lab: cause by verdict.

mod matrix;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use fathom_lab::summary::conclude;
use fathom_tests::explained::{Case, Fault, serve};

use matrix::Matrix;

/// Makes faults in the lab, and compares them with what `fathom explain` says (needs root).
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Be a server of the lab.
    Serve {
        /// Where it listens.
        address: SocketAddr,
    },
}

#[derive(Debug, Args)]
struct Run {
    /// A file with a seed a line: each fault, no fault and some pairs of faults are made with each.
    #[arg(long)]
    seeds: Option<PathBuf>,
    /// So many seeds of the file; by default all.
    #[arg(long)]
    first: Option<usize>,
    /// Seeds, instead of a file.
    #[arg(long, value_delimiter = ',')]
    seed: Vec<u64>,
    /// Faults whose names have this part; by default all, and none.
    #[arg(long)]
    only: Vec<String>,
    /// Pairs of faults for each seed.
    #[arg(long, default_value_t = 4)]
    pairs: usize,
    /// Keep stores and explanations in this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Options { command, run } = Options::parse();
    if let Some(Command::Serve { address }) = command {
        return serve(address);
    }
    if let Some(why) = fathom_lab::obstacle() {
        println!("skipped: {why}");
        return Ok(());
    }
    let server = std::env::current_exe().context("find the running executable")?;
    let mut matrix = Matrix::default();
    for (number, case) in (1..).zip(run.cases()?) {
        let scratch = tempfile::tempdir()?;
        let directory = match &run.keep {
            Some(keep) => keep.join(number.to_string()),
            None => scratch.path().to_owned(),
        };
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("make {}", directory.display()))?;
        let told = case.run(&server, &directory)?;
        if run.keep.is_some() {
            std::fs::write(
                directory.join("explanation.json"),
                told.explanation.to_string(),
            )?;
        }
        println!("{number} {}", matrix::line(&case, &told));
        matrix.add(&case, &told);
    }
    print!("{matrix}");
    Ok(conclude(&matrix.rows(), run.summary.as_deref())?)
}

impl Run {
    fn cases(&self) -> Result<Vec<Case>> {
        let mut seeds = self.seed.clone();
        if let Some(path) = &self.seeds {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("read {}", path.display()))?;
            for line in text.lines().take(self.first.unwrap_or(usize::MAX)) {
                seeds.push(
                    line.trim()
                        .parse()
                        .with_context(|| format!("`{line}` is no seed"))?,
                );
            }
        }
        let is_chosen = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let mut cases = Vec::new();
        for seed in seeds {
            let single = Fault::ALL
                .iter()
                .filter(|fault| is_chosen(&fault.to_string()));
            cases.extend(single.map(|fault| Case {
                faults: vec![*fault],
                seed,
            }));
            if is_chosen("none") {
                cases.push(Case {
                    faults: Vec::new(),
                    seed,
                });
            }
            let pairs = Case::pairs(seed).into_iter().take(self.pairs);
            cases.extend(pairs.filter(|_| is_chosen("pairs")));
        }
        Ok(cases)
    }
}
