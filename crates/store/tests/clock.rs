//! What a store does with a wall clock that is set while records come.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use fathom_record::{Fold, Nanoseconds, Time, record};
use fathom_store::{Batches, Settings, Snapshot, Status, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

record! {
    /// What was counted in an interval.
    #[record = "sample"]
    struct Sample {
        /// The end of it.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Which.
        pub number: u64,
    }
}

const SECOND: u64 = 1_000_000_000;
const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
/// Noon.
const BEGIN_S: u64 = 1_764_072_000;

fn days(count: u64) -> Duration {
    Duration::from_secs(count * DAY_S.unsigned_abs())
}

/// As an agent keeps them.
fn settings() -> Settings {
    Settings {
        max_age: Some(days(30)),
        minutes_after: Some(days(2)),
        hours_after: Some(days(14)),
        ..Settings::default()
    }
}

/// Measures every 10 s, and keeps that, while its clock is ahead by some seconds.
struct Agent {
    directory: tempfile::TempDir,
    writer: Option<Writer>,
    begin: Instant,
    passed_s: u64,
    /// The times of what it kept.
    times: Vec<u64>,
}

impl Agent {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (writer, _) = Writer::open(directory.path(), settings()).unwrap();
        Self {
            directory,
            writer: Some(writer),
            begin: Instant::now(),
            passed_s: 0,
            times: Vec::new(),
        }
    }

    fn keep(&mut self, time_s: u64) {
        let mut batches = Batches::new("host");
        batches.put(&Sample {
            time: Time(time_s * SECOND),
            duration_ns: Nanoseconds(10 * SECOND),
            number: self.times.len() as u64,
        });
        self.times.push(time_s);
        for batch in batches.take() {
            self.writer.as_mut().unwrap().append(batch).unwrap();
        }
    }

    fn run(&mut self, minutes: u64, ahead_s: i64) {
        for _ in 0..minutes * 6 {
            self.passed_s += 10;
            let time_s = (BEGIN_S + self.passed_s).saturating_add_signed(ahead_s);
            self.keep(time_s);
            let at = self.begin + Duration::from_secs(self.passed_s);
            let writer = self.writer.as_mut().unwrap();
            writer.tick_at(Time(time_s * SECOND), at).unwrap();
            writer.settle().unwrap();
        }
    }

    /// The process ends, or is killed, and another one begins.
    fn restart(&mut self, is_killed: bool) {
        let writer = self.writer.take().unwrap();
        if is_killed {
            drop(writer);
        } else {
            writer.finish().unwrap();
        }
        let (writer, recovered) = Writer::open(self.directory.path(), settings()).unwrap();
        assert_eq!(recovered.aside, Vec::<PathBuf>::new());
        self.writer = Some(writer);
    }

    fn status(&self) -> Status {
        self.writer.as_ref().unwrap().status()
    }

    /// Nothing is lost, twice, of another time, or out of order.
    fn has_all(&self) {
        let mut kept = Vec::new();
        let snapshot = Snapshot::of(self.directory.path()).unwrap();
        let kind = snapshot.kind("sample").unwrap();
        for segment in &kind.segments {
            let (rows, path) = (read(segment), segment.display());
            assert!(rows.is_sorted_by_key(|(time_s, _)| *time_s), "{path}");
            // It is where its name says.
            let name = segment.file_name().unwrap().to_str().unwrap();
            let begin_s: u64 = name.split('-').next().unwrap().parse().unwrap();
            let hour = |time_s: u64| (time_s - 1) / HOUR_S.unsigned_abs();
            assert_eq!(rows[0].0, begin_s + 1, "{path}");
            assert!(rows.iter().all(|row| hour(row.0) == hour(begin_s + 1)));
            kept.extend(rows);
        }
        kept.extend(kind.open.iter().flat_map(rows));
        kept.sort_by_key(|(_, number)| *number);
        let expected: Vec<_> = self.times.iter().copied().zip(0..).collect();
        assert_eq!(kept, expected);
    }
}

/// Time and number of each row.
fn read(segment: &Path) -> Vec<(u64, u64)> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(segment).unwrap());
    let batches = reader.unwrap().build().unwrap();
    batches.flat_map(|batch| rows(&batch.unwrap())).collect()
}

fn rows(batch: &arrow_array::RecordBatch) -> Vec<(u64, u64)> {
    let times = batch.column_by_name("time").unwrap();
    let times = times.as_primitive::<TimestampNanosecondType>().values();
    let numbers = batch.column_by_name("number").unwrap();
    let numbers = numbers.as_primitive::<UInt64Type>().values();
    let seconds = times.iter().map(|ns| ns.cast_unsigned() / SECOND);
    seconds.zip(numbers.iter().copied()).collect()
}

/// By an hour back and forth, in the middle of a log, by a day, and between two processes.
#[test]
fn nothing_is_lost_twice_or_out_of_order_when_the_clock_is_set() {
    let mut agent = Agent::new();
    for (minutes, ahead_s) in [
        (40, 0),
        (40, -HOUR_S),
        (40, HOUR_S),
        (30, DAY_S),
        (90, -600),
        (70, 0),
    ] {
        agent.run(minutes, ahead_s);
        agent.has_all();
        let is_killed = ahead_s < 0;
        agent.restart(is_killed);
        agent.has_all();
    }
    agent.run(130, 0);
    agent.has_all();
    let status = agent.status();
    assert!(status.merged_segments > 60, "{status:?}");
    assert_eq!(status.lost_rows + status.removed_segments, 0, "{status:?}");
}

/// Records of more than a month, while the clock is wrong by a day, and by a year.
#[test]
fn a_clock_that_is_ahead_for_a_while_removes_nothing() {
    let mut agent = Agent::new();
    let hours_ago = |hours: u64| BEGIN_S - hours * HOUR_S.unsigned_abs();
    for hours in (1..30 * 24).rev() {
        agent.keep(hours_ago(hours));
    }
    // In segments, as they came.
    agent.restart(false);
    for ahead_s in [DAY_S, 0, 365 * DAY_S, -400 * DAY_S] {
        agent.run(5, ahead_s);
        agent.restart(ahead_s != 0);
    }
    let left = |agent: &Agent| {
        let snapshot = Snapshot::of(agent.directory.path()).unwrap();
        let kind = snapshot.kind("sample").unwrap();
        let rows = kind.segments.iter().flat_map(|segment| read(segment));
        let old = rows.filter(|(time_s, _)| (hours_ago(30 * 24)..BEGIN_S).contains(time_s));
        old.count()
    };
    assert_eq!(left(&agent), 30 * 24 - 1);
}

/// A clock that stays ahead was behind before.
#[test]
fn a_clock_that_stays_ahead_is_believed() {
    let mut agent = Agent::new();
    agent.run(1, 0);
    agent.run(59, 40 * DAY_S);
    assert_eq!(agent.status().removed_segments, 0);
    agent.run(10, 40 * DAY_S);
    assert!(agent.status().removed_segments > 0);
    // What has come since is there.
    let snapshot = Snapshot::of(agent.directory.path()).unwrap();
    let kind = snapshot.kind("sample").unwrap();
    let kept = kind.segments.iter().flat_map(|segment| read(segment));
    let kept = kept.chain(kind.open.iter().flat_map(rows));
    assert_eq!(kept.count(), 69 * 6);
}
