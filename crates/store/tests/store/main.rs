//! What a store does with records, files and disks that are not as they should be.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod segments;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use fathom_record::{Histogram, Nanoseconds, Port, Time, record};
use fathom_store::{
    Batches, Error, HistogramColumn, Recovered, Settings, Snapshot, Status, Writer,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

record! {
    /// Of each type one.
    #[record = "example"]
    #[derive(Debug, Clone, PartialEq)]
    struct Example {
        /// When.
        pub time: Time,
        /// A number.
        pub number: Option<u64>,
        /// A duration.
        pub wait_ns: Option<Nanoseconds>,
        /// A part.
        pub part: Option<f64>,
        /// An answer.
        pub is_so: Option<bool>,
        /// A text.
        pub text: Option<String>,
        /// A port.
        pub port: Option<Port>,
        /// How long, and how often.
        pub wait_histogram: Option<Histogram>,
    }
}

const SECOND: u64 = 1_000_000_000;
/// A second after an hour began.
const BEGIN: u64 = 1_764_072_001 * SECOND;

fn at(second: u64) -> Example {
    Example {
        time: Time(BEGIN + second * SECOND),
        number: Some(second),
        wait_ns: None,
        part: None,
        is_so: None,
        text: None,
        port: None,
        wait_histogram: None,
    }
}

fn append(writer: &mut Writer, records: &[Example]) -> Result<(), Error> {
    let mut batches = Batches::new("host");
    for record in records {
        batches.put(record);
    }
    batches
        .take()
        .into_iter()
        .try_for_each(|batch| writer.append(batch))
}

/// A segment of its own.
fn keep(directory: &Path, records: &[Example]) -> Status {
    let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
    append(&mut writer, records).unwrap();
    writer.finish().unwrap()
}

/// The rows of the segments, then those in no segment yet.
fn rows(directory: &Path) -> Vec<RecordBatch> {
    let snapshot = Snapshot::of(directory).unwrap();
    let Some(kind) = snapshot.kind("example") else {
        return Vec::new();
    };
    let segments = kind.segments.iter().flat_map(|path| {
        let file = fs::File::open(path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        reader
            .build()
            .unwrap()
            .map(Result::unwrap)
            .collect::<Vec<_>>()
    });
    segments.chain(kind.open.iter().cloned()).collect()
}

fn numbers(directory: &Path) -> Vec<u64> {
    let rows = rows(directory);
    let columns = rows
        .iter()
        .map(|rows| rows.column_by_name("number").unwrap().clone());
    columns
        .flat_map(|column| column.as_primitive::<UInt64Type>().values().to_vec())
        .collect()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let snapshot = Snapshot::of(directory).unwrap();
    snapshot
        .kind("example")
        .map_or(Vec::new(), |kind| kind.segments.clone())
}

/// A row as the record that it was.
fn record_at(rows: &RecordBatch, row: usize) -> Example {
    let column = |name| {
        let column = rows.column_by_name(name).unwrap();
        column.is_valid(row).then_some(column)
    };
    let number = |name| Some(column(name)?.as_primitive::<UInt64Type>().value(row));
    let time = column("time")
        .unwrap()
        .as_primitive::<TimestampNanosecondType>();
    Example {
        time: Time(time.value(row).cast_unsigned()),
        number: number("number"),
        wait_ns: number("wait_ns").map(Nanoseconds),
        part: column("part").map(|it| {
            it.as_primitive::<arrow_array::types::Float64Type>()
                .value(row)
        }),
        is_so: column("is_so").map(|it| it.as_boolean().value(row)),
        text: column("text").map(|it| it.as_string::<i32>().value(row).to_owned()),
        port: column("port").map(|it| {
            Port(
                it.as_primitive::<arrow_array::types::UInt16Type>()
                    .value(row),
            )
        }),
        wait_histogram: column("wait_histogram")
            .and_then(|it| HistogramColumn::of(it.as_list())?.histogram(row)),
    }
}

/// With a histogram as the store knows it: samples are in the middle of their buckets.
fn examples() -> impl Strategy<Value = Example> {
    let histogram =
        prop::collection::vec((0..u64::MAX, 1_u64..1 << 40), 0..5).prop_map(|samples| {
            let begin = |ns: u64| {
                let mut one = Histogram::new();
                one.record(ns);
                let (bucket, _) = one.buckets().next().unwrap();
                *Histogram::bucket_bounds(bucket).start()
            };
            Histogram::of_buckets(samples.into_iter().map(|(ns, count)| (begin(ns), count)))
        });
    (
        0..u64::MAX / 4,
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        prop::option::of(-1e9..1e9),
        any::<Option<bool>>(),
        any::<Option<String>>(),
        any::<Option<u16>>(),
        prop::option::of(histogram),
    )
        .prop_map(
            |(time, number, wait, part, is_so, text, port, wait_histogram)| Example {
                time: Time(time),
                number,
                wait_ns: wait.map(Nanoseconds),
                part,
                is_so,
                text,
                port: port.map(Port),
                wait_histogram,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// From the log, and from a segment, where they are in the order of their times.
    #[test]
    fn records_read_back_as_they_were(records in prop::collection::vec(examples(), 1..20)) {
        let directory = tempfile::tempdir().unwrap();
        let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
        append(&mut writer, &records).unwrap();
        let read = || -> Vec<Example> {
            let rows = rows(directory.path());
            rows.iter().flat_map(|rows| (0..rows.num_rows()).map(|row| record_at(rows, row))).collect()
        };
        prop_assert_eq!(&read(), &records);
        writer.finish().unwrap();
        let mut sorted = records;
        sorted.sort_by_key(|record| record.time);
        prop_assert_eq!(read(), sorted);
    }
}

#[test]
fn what_is_no_store_is_left_alone() {
    let open = |path: &Path| Writer::open(path, Settings::default()).map(drop);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("letter.txt"), "dear reader").unwrap();
    assert!(matches!(open(directory.path()), Err(Error::NoStore { .. })));
    assert!(matches!(
        Snapshot::of(directory.path()),
        Err(Error::NoStore { .. })
    ));
    let newer = tempfile::tempdir().unwrap();
    fs::write(newer.path().join("version"), "3\n").unwrap();
    assert!(matches!(open(newer.path()), Err(Error::Newer { .. })));
    // An older one is newer from then on: what has to do with it does not know what is in it.
    let older = tempfile::tempdir().unwrap();
    keep(older.path(), &[at(0)]);
    fs::write(older.path().join("version"), "1\n").unwrap();
    assert_eq!(numbers(older.path()), [0]);
    open(older.path()).unwrap();
    let version = fs::read_to_string(older.path().join("version")).unwrap();
    assert_eq!((version.trim(), numbers(older.path())), ("2", vec![0]));
    let taken = tempfile::tempdir().unwrap();
    let first = Writer::open(taken.path(), Settings::default()).unwrap();
    let own = std::process::id().to_string();
    assert!(matches!(open(taken.path()), Err(Error::Taken { pid, .. }) if pid == own));
    drop(first);
    open(taken.path()).unwrap();
}

/// Cut off, changed, foreign, half written, half removed: each is put right or aside, and the rest
/// is there.
#[test]
fn files_that_are_not_whole_are_put_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for second in 0..3 {
        keep(path, &[at(second)]);
    }
    let [_, cut, changed] = segments(path).try_into().unwrap();
    let whole = fs::read(&cut).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    fs::write(&changed, vec![0; 500]).unwrap();
    let day = cut.parent().unwrap();
    fs::write(day.join("mine.csv"), "1,2").unwrap();
    fs::write(day.join("1764072000-9-9.part"), "PAR1").unwrap();
    let (writer, recovered) = Writer::open(path, Settings::default()).unwrap();
    assert_eq!(recovered.aside.len(), 3, "{recovered:?}");
    assert!(
        recovered
            .aside
            .iter()
            .all(|it| it.starts_with(path.join("aside")) && it.is_file())
    );
    assert!(!day.join("1764072000-9-9.part").exists());
    assert_eq!(numbers(path), [0]);
    writer.finish().unwrap();
    let (_, recovered) = Writer::open(path, Settings::default()).unwrap();
    assert_eq!(recovered, Recovered::default());
}

/// At whatever byte a log ends, or is changed, what was before is there.
#[test]
fn a_log_is_read_as_far_as_it_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (mut writer, _) = Writer::open(path, Settings::default()).unwrap();
    let mut ends = vec![0];
    let log = fs::read_dir(path.join("log"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for second in 0..3 {
        append(&mut writer, &[at(second)]).unwrap();
        ends.push(fs::metadata(&log).unwrap().len() as usize);
    }
    drop(writer);
    let whole = fs::read(&log).unwrap();
    let whole_frames = |length: usize| ends.iter().filter(|end| **end <= length).count() as u64 - 1;
    for length in (0..whole.len()).step_by(7) {
        fs::write(&log, &whole[..length]).unwrap();
        let expected: Vec<u64> = (0..whole_frames(length)).collect();
        assert_eq!(numbers(path), expected, "cut at {length}");
        let mut changed = whole.clone();
        changed[length] ^= 0x55;
        fs::write(&log, &changed).unwrap();
        assert_eq!(numbers(path), expected, "changed at {length}");
    }
    // The next writer says what it found, and keeps the damaged log.
    let (writer, recovered) = Writer::open(path, Settings::default()).unwrap();
    assert_eq!((recovered.rows, recovered.aside.len()), (2, 1));
    assert_eq!(numbers(path), [0, 1]);
    drop(writer);
}

#[test]
fn what_the_disk_changed_in_the_log_is_lost_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (mut writer, _) = Writer::open(path, Settings::default()).unwrap();
    // Not in the order of their times, and of two hours.
    for seconds in [[4_000, 3], [2, 4_001], [1, 0], [3_999, 5]] {
        append(&mut writer, &seconds.map(at)).unwrap();
    }
    let mut files = fs::read_dir(path.join("log")).unwrap();
    let log = files.next().unwrap().unwrap().path();
    let mut bytes = fs::read(&log).unwrap();
    let last = bytes.len() - 9;
    bytes[last] ^= 0x55;
    // In place: the writer has the file open.
    fs::write(&log, &bytes).unwrap();
    let status = writer.finish().unwrap();
    assert_eq!((status.rows, status.lost_rows, status.segments), (6, 2, 2));
    assert_eq!(numbers(path), [0, 1, 2, 3, 4_000, 4_001]);
}

/// Where `make setup` puts the engines of others.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    let python = cache.join("fathom/python/bin/python");
    python.exists().then_some(python)
}

#[test]
fn other_engines_read_segments_while_they_are_written() {
    let Some(python) = python() else {
        println!("skipped: DuckDB and Polars are not installed, `make setup` does it");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let waits = Histogram::of_buckets([(1_015_808, 3), (50_331_648, 4)]);
    let records: Vec<_> = (0..1_000)
        .map(|second| Example {
            wait_histogram: (second % 2 == 0).then(|| waits.clone()),
            ..at(second)
        })
        .collect();
    keep(directory.path(), &records[..400]);
    keep(directory.path(), &records[400..]);
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    append(&mut writer, &records).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines.py");
    let kind = directory.path().join("example");
    let read = Command::new(python).arg(script).arg(kind).output().unwrap();
    let told = String::from_utf8_lossy(&read.stderr);
    let last = BEGIN + 999 * SECOND;
    let expected = format!("1000|3500|{last}\n").repeat(2);
    assert_eq!(String::from_utf8_lossy(&read.stdout), expected, "{told}");
}
