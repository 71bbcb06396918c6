//! What was acknowledged is there, once, whenever its writer is killed.
//!
//! The test runs itself as the writer, which says on standard output what is acknowledged. It kills
//! that process at a moment that the seed decides, and reads the store.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use fathom_record::{Fold, Nanoseconds, Record, Time, record};
use fathom_store::{Batches, Settings, Snapshot, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

record! {
    /// A numbered record.
    #[record = "numbered"]
    struct Numbered {
        /// When.
        pub time: Time,
        /// Which.
        pub number: u64,
        /// Something that takes room.
        pub text: String,
        /// How long.
        pub wait_ns: Option<Nanoseconds>,
    }
}

record! {
    /// Records of which there are fewer when they are old.
    #[record = "counted"]
    struct Counted {
        /// When the interval ended.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long it was.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Of which flow.
        pub flow: u64,
        /// How many records.
        #[field(fold = Fold::Sum)]
        pub records: u64,
        /// Their numbers.
        #[field(fold = Fold::Sum)]
        pub numbers: u64,
    }
}

const WRITER: &str = "FATHOM_TEST_STORE";
const FIRST: &str = "FATHOM_TEST_FIRST";
const IS_COUNTED: &str = "FATHOM_TEST_IS_COUNTED";
const KILLS: u64 = 200;
/// All records are read after each kill: there should not be too many.
const KILLS_OF_ONE: u64 = 20;
/// A few of these become a segment, and a few segments one.
const ROWS_AT_A_TIME: u64 = 50;

/// From one look for segments that should merge to the next.
const UPKEEP: Duration = Duration::from_secs(10);

/// Small, so that logs end, and segments merge and are rolled up, all the time.
fn settings() -> Settings {
    Settings {
        log_age: Duration::from_millis(20),
        log_bytes: 64 << 10,
        minutes_after: Some(Duration::from_secs(1)),
        ..Settings::default()
    }
}

/// What the killed process does.
fn write_for_ever(directory: &Path, first: u64, is_counted: bool) {
    let (mut writer, _) = Writer::open(directory, settings()).unwrap();
    let mut batches = Batches::new("host");
    let mut number = first;
    let mut output = std::io::stdout().lock();
    let begin = Instant::now();
    let mut turn = 0;
    loop {
        for _ in 0..ROWS_AT_A_TIME {
            // Some minutes, and now and then an hour, in a few thousand.
            let time = Time(1_764_000_000_000_000_000 + number * 100_000_000);
            let counted = Counted {
                time,
                duration_ns: Nanoseconds(100_000_000),
                flow: number % 7,
                records: 1,
                numbers: number,
            };
            let numbered = Numbered {
                time,
                number,
                text: format!("record {number}"),
                wait_ns: number.is_multiple_of(3).then_some(Nanoseconds(number)),
            };
            let record: &dyn Record = if is_counted { &counted } else { &numbered };
            batches.put(record);
            number += 1;
        }
        for batch in batches.take() {
            writer.append(batch).unwrap();
        }
        writer.sync().unwrap();
        writeln!(output, "{number}").unwrap();
        output.flush().unwrap();
        turn += 1;
        if turn % 2 == 0 {
            // Beside the records that come next.
            let at = begin + UPKEEP * (turn / 2);
            writer.tick_at(Time::now(), at).unwrap();
        } else {
            writer.merge_due(Time::now()).unwrap();
            writer.roll_up_due(Time::now()).unwrap();
        }
    }
}

/// The records of a kind.
fn rows(directory: &Path, kind: &str) -> Vec<RecordBatch> {
    let snapshot = Snapshot::of(directory).unwrap();
    let Some(kind) = snapshot.kind(kind) else {
        return Vec::new();
    };
    let mut rows = kind.open.clone();
    for path in &kind.segments {
        let file = std::fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        rows.extend(reader.build().unwrap().map(Result::unwrap));
    }
    rows
}

/// How many records were counted, in how many rows. Their numbers are those from 0 on, each once.
fn counted(directory: &Path) -> (u64, usize) {
    let rows = rows(directory, "counted");
    let sum = |name: &str| -> u64 {
        let column = |rows: &RecordBatch| rows[name].as_primitive::<UInt64Type>().clone();
        let columns = rows.iter().map(column);
        columns
            .map(|column| column.values().iter().sum::<u64>())
            .sum()
    };
    let records = sum("records");
    assert_eq!(sum("numbers"), records * records.saturating_sub(1) / 2);
    (records, rows.iter().map(RecordBatch::num_rows).sum())
}

/// The numbers of all records, each once.
fn numbers(directory: &Path) -> BTreeSet<u64> {
    let rows = rows(directory, "numbered");
    let mut numbers = BTreeSet::new();
    for rows in rows {
        let column = rows.column_by_name("number").unwrap();
        for number in column.as_primitive::<UInt64Type>().values() {
            assert!(numbers.insert(*number), "{number} is there twice");
        }
    }
    numbers
}

/// Lets a process write from `first` on, and kills it. Returns what it had acknowledged: all
/// before.
fn write_and_kill(
    directory: &Path,
    first: u64,
    is_counted: bool,
    lines: u64,
    pause: Duration,
) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture", "--include-ignored"])
        .env(WRITER, directory)
        .env(FIRST, first.to_string())
        .env(IS_COUNTED, is_counted.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = first;
    let mut seen = 0;
    while seen < lines {
        let line = output.next().unwrap().unwrap();
        if let Ok(number) = line.parse() {
            acknowledged = number;
            seen += 1;
        }
    }
    // Into the middle of whatever it does.
    std::thread::park_timeout(pause);
    child.kill().unwrap();
    child.wait().unwrap();
    for line in output.map_while(Result::ok) {
        acknowledged = line.parse().unwrap_or(acknowledged);
    }
    acknowledged
}

/// Moments to kill at, from a seed.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Kills writers of many stores. `look` says how many records a store has, which are those from 0
/// on.
fn kill_writers(is_counted: bool, look: impl Fn(&Path) -> u64) {
    let mut moments = Moments(0x9E37_79B9_7F4A_7C15);
    for _ in 0..KILLS / KILLS_OF_ONE {
        let directory = memory();
        let mut first = 0;
        for kill in 0..KILLS_OF_ONE {
            let pause = Duration::from_micros(moments.next() % 3_000);
            let lines = 1 + moments.next() % 12;
            let path = directory.path();
            let acknowledged = write_and_kill(path, first, is_counted, lines, pause);
            first = look(path);
            assert!(
                first >= acknowledged,
                "after kill {kill}: {first} of {acknowledged}"
            );
        }
        let (mut writer, recovered) = Writer::open(directory.path(), settings()).unwrap();
        assert_eq!(recovered.aside, Vec::<std::path::PathBuf>::new());
        writer.roll_up_due(Time::now()).unwrap();
        writer.finish().unwrap();
        assert_eq!(look(directory.path()), first);
    }
}

#[test]
fn what_was_acknowledged_is_there_once() {
    kill_writers(false, |directory| {
        let found = numbers(directory);
        let next = found.last().map_or(0, |last| last + 1);
        assert_eq!(found.len() as u64, next, "no gaps");
        next
    });
}

/// The same while records become fewer.
#[test]
fn what_is_rolled_up_is_there_once() {
    let (rows, records) = (Cell::new(0), Cell::new(0));
    kill_writers(true, |directory| {
        let (counted, in_rows) = counted(directory);
        records.set(records.get() + counted);
        rows.set(rows.get() + in_rows as u64);
        counted
    });
    let (rows, records) = (rows.get(), records.get());
    assert!(
        rows < records / 2,
        "{records} records are still {rows} rows"
    );
}

/// A killed process leaves the same there as on a disk, which takes milliseconds to sync.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Is not a test, but what the test above runs.
#[test]
fn writer() {
    let of = |name: &str| std::env::var(name);
    if let (Ok(directory), Ok(first), Ok(is_counted)) = (of(WRITER), of(FIRST), of(IS_COUNTED)) {
        let (first, is_counted) = (first.parse().unwrap(), is_counted.parse().unwrap());
        write_for_ever(directory.as_ref(), first, is_counted);
    }
}
