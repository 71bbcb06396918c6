//! What the store takes: time for a record on its way in, bytes of a row, and time of the views
//! beside DuckDB on the same files.

mod queries;

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use anyhow::Context;
use clap::Parser;
use fathom_benches::processor_s;
use fathom_benches::records::{self, GROUP, GROUP_ROWS, INTERVAL_NS, SECOND, end_of, rows_of};
use fathom_lab::summary::{Row, conclude};
use fathom_store::{Batch, Batches, Settings, Snapshot, Writer};
use nix::sys::resource::UsageWho;

/// Rows a second that one agent may have: 65,536 flows that all talk are 26,000.
const LEAST_RATE: f64 = 50_000.0;
const MOST_ROW_BYTES: f64 = 80.0;
/// Of DuckDB's time.
const MOST_RATIO: f64 = 1.5;
/// In an interval, so that hours are worth a segment.
const LEAST_ROWS: u64 = 1_000;
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
    /// Ask the store that an earlier run kept there, and keep it.
    #[arg(long)]
    keep: bool,
    /// Rows in all, of all kinds; a few more make intervals alike.
    #[arg(long, default_value_t = 50_000_000)]
    rows: u64,
    /// The days that they are of, if that leaves each interval a thousand.
    #[arg(long, default_value_t = 7)]
    days: u64,
    /// Append the rows of the summary table to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    if !arguments.keep || !arguments.out.exists() {
        if arguments.out.exists() {
            std::fs::remove_dir_all(&arguments.out)
                .with_context(|| format!("cannot remove {}", arguments.out.display()))?;
        }
        rows.push(fill(&arguments)?);
    }
    let (all, row) = row_bytes(&arguments.out)?;
    rows.push(row);
    match &arguments.server {
        Some(server) => {
            let (intervals, _) = measures(&arguments);
            let middle = intervals * INTERVAL_NS / 2 / (3_600 * SECOND);
            for asked in queries::ask_all(server, &arguments.out, middle)? {
                rows.push(asked.row(all, MOST_RATIO));
            }
        }
        None => {
            println!("skipped: there is no fathom-server to ask, `make build-server` builds it");
        }
    }
    conclude(&rows, arguments.summary.as_deref())?;
    if !arguments.keep {
        std::fs::remove_dir_all(&arguments.out)?;
    }
    Ok(())
}

/// How many intervals there are, and flows in each.
fn measures(arguments: &Arguments) -> (u64, u64) {
    let intervals = arguments.days * 86_400 * SECOND / INTERVAL_NS;
    let intervals = intervals.min(arguments.rows / LEAST_ROWS).max(1);
    let groups = arguments.rows.div_ceil(intervals * GROUP_ROWS);
    (intervals, groups.max(1) * GROUP)
}

/// Writes all records, merges included.
fn fill(arguments: &Arguments) -> anyhow::Result<Row> {
    let (intervals, flows) = measures(arguments);
    let (mut writer, _) = Writer::open(&arguments.out, Settings::default())?;
    let begin = processor_s(UsageWho::RUSAGE_SELF)?;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<(u64, Vec<Batch>)>(2);
        scope.spawn(move || make(intervals, flows, |made| sender.send(made).is_ok()));
        let mut segments = 0;
        for (interval, batches) in receiver {
            for batch in batches {
                writer.append(batch)?;
            }
            if writer.status().segments > segments {
                segments = writer.status().segments;
                merge_all(&mut writer, interval)?;
            }
        }
        merge_all(&mut writer, intervals)
    })?;
    let status = writer.finish()?;
    let seconds = processor_s(UsageWho::RUSAGE_SELF)? - begin;
    let rate = status.rows as f64 / seconds;
    println!(
        "{} rows in {intervals} intervals of {flows} flows took {seconds:.1} s of a processor: {rate:.0} a second, {} segments, {} merged",
        status.rows, status.segments, status.merged_segments
    );
    Ok(Row {
        what: "store, rows that a second of a processor makes and keeps, merges included"
            .to_owned(),
        target: format!("at least {LEAST_RATE:.0}"),
        measured: format!("{rate:.0}"),
        is_reached: Some(rate >= LEAST_RATE),
    })
}

/// Makes the records, some at a time, until the taker wants no more.
fn make(intervals: u64, flows: u64, mut take: impl FnMut((u64, Vec<Batch>)) -> bool) {
    let mut batches = Batches::new("gateway");
    for interval in 0..intervals {
        records::make(interval, flows, &mut |record| batches.put(record));
        let is_enough = batches.rows() >= BATCH_ROWS || interval + 1 == intervals;
        if is_enough && !take((interval, batches.take())) {
            break;
        }
    }
}

fn merge_all(writer: &mut Writer, interval: u64) -> anyhow::Result<()> {
    loop {
        let merged = writer.status().merged_segments;
        writer.merge_due(end_of(interval))?;
        if writer.status().merged_segments == merged {
            return Ok(());
        }
    }
}

/// How many rows there are, and what one takes.
fn row_bytes(store: &Path) -> anyhow::Result<(u64, Row)> {
    let snapshot = Snapshot::of(store)?;
    let (mut all, mut measured) = (0, None);
    for kind in snapshot.kinds() {
        let rows = rows_of(kind)?;
        let bytes = kind.bytes as f64 / rows as f64;
        all += rows;
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
    let row = Row {
        what: "store, bytes of a row of rtt_aggregate with its histogram of 20 samples".to_owned(),
        target: format!("at most {MOST_ROW_BYTES:.0}"),
        measured: format!("{bytes:.1}"),
        is_reached: Some(bytes <= MOST_ROW_BYTES),
    };
    Ok((all, row))
}
