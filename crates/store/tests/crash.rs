//! What was acknowledged is there, once, whenever its writer is killed.
//!
//! The test runs itself as the writer, which says on standard output what is acknowledged. It kills
//! that process at a moment that the seed decides, and reads the store.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use fathom_record::{Nanoseconds, Time, record};
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

const WRITER: &str = "FATHOM_TEST_STORE";
const SEED: &str = "FATHOM_TEST_FIRST";
const KILLS: u64 = 200;
/// All records are read after each kill: there should not be too many.
const KILLS_OF_ONE: u64 = 20;
/// A few of these become a segment, and a few segments one.
const ROWS_AT_A_TIME: u64 = 50;

/// Small, so that logs end and segments merge all the time.
fn settings() -> Settings {
    Settings {
        log_age: Duration::from_millis(20),
        log_bytes: 64 << 10,
        ..Settings::default()
    }
}

/// What the killed process does.
fn write_for_ever(directory: &Path, first: u64) {
    let (mut writer, _) = Writer::open(directory, settings()).unwrap();
    let mut batches = Batches::new("host");
    let mut number = first;
    let mut output = std::io::stdout().lock();
    loop {
        for _ in 0..ROWS_AT_A_TIME {
            batches.put(&Numbered {
                time: Time(1_764_000_000_000_000_000 + number * 1_000_000),
                number,
                text: format!("record {number}"),
                wait_ns: number.is_multiple_of(3).then_some(Nanoseconds(number)),
            });
            number += 1;
        }
        for batch in batches.take() {
            writer.append(batch).unwrap();
        }
        writer.sync().unwrap();
        writeln!(output, "{number}").unwrap();
        output.flush().unwrap();
        writer.tick(Time::now()).unwrap();
        writer.merge_due(Time::now()).unwrap();
    }
}

/// The numbers of all records, each once.
fn numbers(directory: &Path) -> BTreeSet<u64> {
    let snapshot = Snapshot::of(directory).unwrap();
    let Some(kind) = snapshot.kind("numbered") else {
        return BTreeSet::new();
    };
    let mut rows = kind.open.clone();
    for path in &kind.segments {
        let file = std::fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        rows.extend(reader.build().unwrap().map(Result::unwrap));
    }
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
fn write_and_kill(directory: &Path, first: u64, lines: u64, pause: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture", "--include-ignored"])
        .env(WRITER, directory)
        .env(SEED, first.to_string())
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

#[test]
fn what_was_acknowledged_is_there_once() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        // xorshift64
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..KILLS / KILLS_OF_ONE {
        let directory = memory();
        let mut first = 0;
        for kill in 0..KILLS_OF_ONE {
            let pause = Duration::from_micros(random() % 3_000);
            let acknowledged = write_and_kill(directory.path(), first, 1 + random() % 12, pause);
            let found = numbers(directory.path());
            let expected: BTreeSet<u64> = (0..acknowledged).collect();
            let missing: Vec<_> = expected.difference(&found).take(5).collect();
            assert!(missing.is_empty(), "after kill {kill}: without {missing:?}");
            first = found.last().map_or(0, |last| last + 1);
            assert_eq!(found.len() as u64, first, "after kill {kill}: no gaps");
        }
        let (writer, recovered) = Writer::open(directory.path(), settings()).unwrap();
        assert_eq!(recovered.aside, Vec::<std::path::PathBuf>::new());
        writer.finish().unwrap();
        assert_eq!(numbers(directory.path()).len() as u64, first);
    }
}

/// A killed process leaves the same there as on a disk, which takes milliseconds to sync.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Is not a test, but what the test above runs.
#[test]
fn writer() {
    if let (Ok(directory), Ok(first)) = (std::env::var(WRITER), std::env::var(SEED)) {
        write_for_ever(directory.as_ref(), first.parse().unwrap());
    }
}
