//! What the store takes: time for a record on its way in, bytes of a row, and time of the views
//! beside DuckDB on the same files.

mod queries;
mod records;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use fathom_lab::summary::{Row, conclude};
use fathom_store::{Batches, Settings, Snapshot, Writer};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use records::{ROWS, end_of, put};

/// Rows a second that one agent may have: 65,536 flows that all talk are 26,000.
const LEAST_RATE: f64 = 50_000.0;
const MOST_ROW_BYTES: f64 = 80.0;
/// Of DuckDB's time.
const MOST_RATIO: f64 = 1.5;
/// Records of so many are handed over together, as the agent does.
const BATCH_ROWS: usize = 8_192;

/// Fill a store with records of flows, and ask it, beside DuckDB.
#[derive(Debug, Parser)]
struct Arguments {
    /// The fathom-server binary; without it, only what concerns writing is measured.
    #[arg(long)]
    server: Option<PathBuf>,
    /// The directory of the store, which is made anew.
    #[arg(long, default_value = "target/benches-data/store")]
    out: PathBuf,
    /// Rows in all: traffic, responses, and round trips of two directions of each flow.
    #[arg(long, default_value_t = 50_000_000)]
    rows: u64,
    /// Flows that have records in each interval.
    #[arg(long, default_value_t = 2_000)]
    flows: u64,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.out.exists() {
        std::fs::remove_dir_all(&arguments.out)
            .with_context(|| format!("cannot remove {}", arguments.out.display()))?;
    }
    let intervals = (arguments.rows / ROWS / arguments.flows).max(1);
    let mut rows = vec![fill(&arguments, intervals)?, row_bytes(&arguments.out)?];
    match &arguments.server {
        Some(server) => {
            for view in queries::ask_all(server, &arguments.out)? {
                rows.push(view.row(MOST_RATIO));
            }
        }
        None => {
            println!("skipped: there is no fathom-server to ask, `make build-server` builds it");
        }
    }
    conclude(&rows, arguments.summary.as_deref())?;
    std::fs::remove_dir_all(&arguments.out)?;
    Ok(())
}

/// Writes all records, merges included.
fn fill(arguments: &Arguments, intervals: u64) -> anyhow::Result<Row> {
    let (mut writer, _) = Writer::open(&arguments.out, Settings::default())?;
    let mut batches = Batches::new("gateway");
    let begin = processor_s()?;
    let mut making_s = 0.0;
    for interval in 0..intervals {
        let made = processor_s()?;
        put(&mut batches, interval, arguments.flows);
        making_s += processor_s()? - made;
        if batches.rows() >= BATCH_ROWS || interval + 1 == intervals {
            for batch in batches.take() {
                writer.append(batch)?;
            }
        }
        // As much as the agent does in that time.
        writer.merge_due(end_of(interval))?;
    }
    let status = writer.finish()?;
    let seconds = processor_s()? - begin;
    let rate = status.rows as f64 / seconds;
    println!(
        "{} rows of {} flows took {seconds:.1} s of a processor, of which {making_s:.1} s made them: {rate:.0} a second, {} segments, {} merged",
        status.rows, arguments.flows, status.segments, status.merged_segments
    );
    Ok(Row {
        what: "store, rows that a second of a processor makes and keeps, merges included"
            .to_owned(),
        target: format!("at least {LEAST_RATE:.0}"),
        measured: format!("{rate:.0}"),
        is_reached: Some(rate >= LEAST_RATE),
    })
}

/// What this process has taken of processors.
fn processor_s() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn row_bytes(store: &Path) -> anyhow::Result<Row> {
    let snapshot = Snapshot::of(store)?;
    let mut measured = None;
    for kind in snapshot.kinds() {
        let rows = queries::rows_of(kind)?;
        let bytes = kind.bytes as f64 / rows as f64;
        println!(
            "{}: {rows} rows, {bytes:.1} bytes each, {} segments",
            kind.name,
            kind.segments.len()
        );
        if kind.name == "rtt_aggregate" {
            measured = Some(bytes);
        }
    }
    let bytes = measured.context("there are no rows of rtt_aggregate")?;
    Ok(Row {
        what: "store, bytes of a row of rtt_aggregate with its histogram of 20 samples".to_owned(),
        target: format!("at most {MOST_ROW_BYTES:.0}"),
        measured: format!("{bytes:.1}"),
        is_reached: Some(bytes <= MOST_ROW_BYTES),
    })
}
