//! The same questions to `fathom-server` and to DuckDB, in turns.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use fathom_lab::summary::Row;
use fathom_store::Kind;
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Each is asked so often; the median counts.
const TURNS: usize = 3;
/// Both may take so much, in MiB.
const MEMORY_MIB: &str = "4096";

/// A view, and a question whose answer needs all of its rows.
const QUESTIONS: [(&str, &str); 3] = [
    (
        "flows",
        "SELECT count(*), sum(bytes), max(rtt_p99_ns), max(client_rtt_p99_ns), max(latency_p99_ns) FROM flows",
    ),
    (
        "servers",
        "SELECT count(*), max(latency_p50_ns), max(latency_p99_ns), round(sum(responses_per_second)) FROM servers",
    ),
    ("hosts", "SELECT count(*), sum(records) FROM hosts"),
];

/// How long a view took.
pub(crate) struct View {
    name: &'static str,
    own_s: f64,
    duckdb_s: Option<f64>,
}

impl View {
    pub(crate) fn row(&self, most_ratio: f64) -> Row {
        let ratio = self.duckdb_s.map(|duckdb| self.own_s / duckdb);
        Row {
            what: format!(
                "store, the view `{}` over all rows, beside DuckDB",
                self.name
            ),
            target: format!("at most {most_ratio} times its time"),
            measured: match (ratio, self.duckdb_s) {
                (Some(ratio), Some(duckdb)) => {
                    format!("{ratio:.2} ({:.1} s, DuckDB {duckdb:.1} s)", self.own_s)
                }
                _ => format!("{:.1} s; DuckDB is not installed", self.own_s),
            },
            is_reached: ratio.map(|ratio| ratio <= most_ratio),
        }
    }
}

/// Asks for each view.
pub(crate) fn ask_all(server: &Path, store: &Path) -> anyhow::Result<Vec<View>> {
    let python = python();
    let views = QUESTIONS.iter().map(|&(name, question)| {
        let (mut own, mut duckdb) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let (seconds, answer) = ask_server(server, store, question)?;
            own.push(seconds);
            let Some(python) = &python else { continue };
            let (seconds, other) = ask_duckdb(python, store, question)?;
            duckdb.push(seconds);
            println!(
                "{name}, turn {turn}: {:.2} s, DuckDB {seconds:.2} s: {answer} and {other}",
                own[turn]
            );
            ensure!(
                is_same(&answer, &other),
                "the answers differ: {answer} and, of DuckDB, {other}"
            );
        }
        Ok(View {
            name,
            own_s: median(own).context("it was asked")?,
            duckdb_s: median(duckdb),
        })
    });
    views.collect()
}

fn median(mut seconds: Vec<f64>) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// Numbers with commas between. Quantiles of a histogram are the middle of a bucket, whose place
/// both round in their own way.
fn is_same(one: &str, other: &str) -> bool {
    let numbers = |text: &str| -> Vec<f64> {
        text.split(',')
            .filter_map(|it| it.trim().parse().ok())
            .collect()
    };
    let (one, other) = (numbers(one), numbers(other));
    let close = |(one, other): (&f64, &f64)| (one - other).abs() <= 0.02 * one.abs();
    one.len() == other.len() && !one.is_empty() && one.iter().zip(&other).all(close)
}

fn ask_server(server: &Path, store: &Path, question: &str) -> anyhow::Result<(f64, String)> {
    let mut command = Command::new(server);
    command
        .args([
            "query", "--format", "csv", "--memory", MEMORY_MIB, "--store",
        ])
        .arg(store)
        .arg(question);
    let (seconds, text) = timed(&mut command)?;
    let answer = text.lines().nth(1).context("there is no answer")?;
    Ok((seconds, answer.to_owned()))
}

fn ask_duckdb(python: &Path, store: &Path, question: &str) -> anyhow::Result<(f64, String)> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command
        .arg(benches.join("views.py"))
        .arg(benches.join("../crates/server/src/query/views"))
        .arg(store)
        .args([MEMORY_MIB, question]);
    let (seconds, text) = timed(&mut command)?;
    Ok((seconds, text.trim().to_owned()))
}

fn timed(command: &mut Command) -> anyhow::Result<(f64, String)> {
    let begin = Instant::now();
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    let seconds = begin.elapsed().as_secs_f64();
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {told}");
    Ok((seconds, String::from_utf8(output.stdout)?))
}

/// Where `make setup` puts the engines of others.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let python = cache.join("fathom/python/bin/python");
    python.exists().then_some(python)
}

/// How many rows the segments of a kind have.
pub(crate) fn rows_of(kind: &Kind) -> anyhow::Result<u64> {
    let rows = kind.segments.iter().map(|path| {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        Ok(reader.metadata().file_metadata().num_rows().cast_unsigned())
    });
    rows.sum()
}
