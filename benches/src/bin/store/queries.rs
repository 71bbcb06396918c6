//! The same questions to `fathom-server` and to DuckDB, in turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use fathom_lab::summary::Row;

/// Each is asked so often; the median counts.
const TURNS: usize = 3;
/// A turn that took longer is the last one: what disturbs it is short beside it.
const LONG_S: f64 = 30.0;
/// DuckDB may take so much memory; fathom-server has its 1,024 MiB.
const DUCKDB_MIB: &str = "8192";

/// A view, and questions whose answers need all of its rows, or those of an hour and a network.
/// `HOUR` is a condition for the hour. `agents` and `labels` have a row or two an hour: there is
/// nothing to compare.
const QUESTIONS: [(&str, &str); 12] = [
    (
        "flows",
        "SELECT destination, count(*), sum(bytes), max(rtt_p99_ns), max(client_rtt_p99_ns), max(latency_p99_ns) FROM flows GROUP BY destination ORDER BY 3 DESC, 1 LIMIT 10",
    ),
    (
        "flows, an hour and a network",
        "SELECT source, count(*), sum(bytes), max(rtt_p99_ns), max(latency_p99_ns) FROM flows WHERE HOUR AND prefix(source, 24) = '10.0.0.0/24' GROUP BY source ORDER BY 3 DESC, 1 LIMIT 10",
    ),
    (
        "servers",
        "SELECT destination, destination_port, max(latency_p50_ns), max(latency_p99_ns), sum(flows), round(sum(responses_per_second)) FROM servers GROUP BY 1, 2 ORDER BY 5 DESC, 1 LIMIT 10",
    ),
    (
        "servers, an hour and a network",
        "SELECT destination, max(latency_p99_ns), sum(flows) FROM servers WHERE HOUR AND prefix(destination, 24) = '192.0.0.0/24' GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT 10",
    ),
    (
        "hops",
        "SELECT responder, count(*), sum(probes_lost), max(rtt_p99_ns) FROM hops GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
    ),
    (
        "hops, an hour and a network",
        "SELECT ttl, count(*), max(rtt_p99_ns) FROM hops WHERE HOUR AND prefix(source, 24) = '10.0.0.0/24' GROUP BY 1 ORDER BY 1",
    ),
    (
        "connections",
        "SELECT process, count(*), sum(total_bytes_sent), max(total_duration_ns), avg(total_rtt_mean_ns) FROM connections GROUP BY 1 ORDER BY 1",
    ),
    (
        "connections, an hour and a network",
        "SELECT process, count(*), sum(total_bytes_sent) FROM connections WHERE HOUR AND prefix(destination, 24) = '192.0.0.0/24' GROUP BY 1 ORDER BY 1",
    ),
    (
        "processes",
        "SELECT process, count(*), extract(minute FROM max(last_time)) FROM processes GROUP BY 1 ORDER BY 1",
    ),
    (
        "dns",
        "SELECT query_name, count(*), max(latency_ns), sum(retries) FROM dns GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
    ),
    (
        "dns, an hour and a network",
        "SELECT query_name, count(*), max(latency_ns) FROM dns WHERE HOUR AND prefix(resolver, 24) = '10.255.1.0/24' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
    ),
    (
        "hosts",
        "SELECT host, kind, records FROM hosts ORDER BY 1, 2",
    ),
];

/// How long the answer to a question took.
pub(crate) struct Asked {
    name: &'static str,
    own_s: f64,
    duckdb_s: Option<f64>,
}

impl Asked {
    pub(crate) fn row(&self, rows: u64, most_ratio: f64) -> Row {
        let ratio = self.duckdb_s.map(|duckdb| self.own_s / duckdb);
        Row {
            what: format!(
                "store of {rows} rows, the view `{}`, beside DuckDB",
                self.name
            ),
            target: format!("at most {most_ratio} times its time"),
            measured: match (ratio, self.duckdb_s) {
                (Some(ratio), Some(duckdb)) => {
                    format!("{ratio:.2} ({:.2} s, DuckDB {duckdb:.2} s)", self.own_s)
                }
                _ => format!("{:.2} s; DuckDB is not installed", self.own_s),
            },
            is_reached: ratio.map(|ratio| ratio <= most_ratio),
        }
    }
}

/// Asks all of them, those of an hour about this one.
pub(crate) fn ask_all(server: &Path, store: &Path, hour: u64) -> anyhow::Result<Vec<Asked>> {
    let python = python();
    let hour = within(hour);
    let asked = QUESTIONS.iter().map(|&(name, question)| {
        let question = question.replace("HOUR", &hour);
        let (mut own, mut duckdb, mut inside) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let (seconds, answer) = ask_server(server, store, &question)?;
            own.push(seconds);
            let Some(python) = &python else { continue };
            let (seconds, other) = ask_duckdb(python, store, &question)?;
            let (statement_s, other) = other.split_once('\n').context("it says how long")?;
            duckdb.push(seconds);
            inside.push(statement_s.parse::<f64>()?);
            ensure!(
                is_same(&answer, other),
                "the answers to {question} differ:\n{answer}\nand, of DuckDB:\n{other}"
            );
            if seconds + own[0] > LONG_S {
                break;
            }
        }
        let own_s = median(own).context("it was asked")?;
        let duckdb_s = median(duckdb);
        println!(
            "{name}: {own_s:.2} s; DuckDB {:.2} s, of which the statement {:.2} s",
            duckdb_s.unwrap_or_default(),
            median(inside).unwrap_or_default()
        );
        Ok(Asked {
            name,
            own_s,
            duckdb_s,
        })
    });
    asked.collect()
}

/// A condition for one hour, so many after the first record.
fn within(hour: u64) -> String {
    let after = |hours| format!("TIMESTAMP '2025-11-25 00:00:00' + INTERVAL '{hours} hours'");
    format!("time > {} AND time <= {}", after(hour), after(hour + 1))
}

fn median(mut seconds: Vec<f64>) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// Values with commas between. Quantiles of a histogram are the middle of a bucket here, and its
/// beginning there.
fn is_same(one: &str, other: &str) -> bool {
    let values = |text: &str| -> Vec<String> {
        let values = text.split([',', '\n']).map(|it| it.trim().to_owned());
        values.filter(|it| !it.is_empty()).collect()
    };
    let (one, other) = (values(one), values(other));
    let close = |(one, other): (&String, &String)| match (one.parse::<f64>(), other.parse::<f64>())
    {
        (Ok(one), Ok(other)) => (one - other).abs() <= 0.02 * one.abs(),
        _ => one == other,
    };
    one.len() == other.len() && !one.is_empty() && one.iter().zip(&other).all(close)
}

fn ask_server(server: &Path, store: &Path, question: &str) -> anyhow::Result<(f64, String)> {
    let mut command = Command::new(server);
    command
        .args(["query", "--format", "csv", "--store"])
        .arg(store)
        .arg(question);
    let (seconds, text) = timed(&mut command)?;
    let (_, answer) = text.split_once('\n').context("there is no answer")?;
    Ok((seconds, answer.to_owned()))
}

fn ask_duckdb(python: &Path, store: &Path, question: &str) -> anyhow::Result<(f64, String)> {
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command
        .arg(benches.join("views.py"))
        .arg(benches.join("../crates/server/src/query/views"))
        .arg(store)
        .args([DUCKDB_MIB, question]);
    timed(&mut command)
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
