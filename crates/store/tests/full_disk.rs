//! A store on a disk that is full.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use fathom_record::{Count, Record, Time, record};
use fathom_store::{Batches, Error, Full, Settings, Snapshot, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

record! {
    /// A number, and what takes room.
    #[record = "example"]
    #[derive(Debug, Clone, PartialEq)]
    struct Example {
        /// When.
        pub time: Time,
        /// A number.
        pub count: u64,
        /// A text.
        pub text: String,
    }
}

const SECOND: u64 = 1_000_000_000;
/// A second after an hour began.
const BEGIN: u64 = 1_764_072_001 * SECOND;
const SMALL_DISK: &str = "FATHOM_TEST_SMALL_DISK";

/// Text that does not compress well.
fn at(second: u64) -> Example {
    let mut state = second.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::new();
    for _ in 0..1_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push(char::from(b'!' + (state % 90) as u8));
    }
    Example {
        time: Time(BEGIN + second * SECOND),
        count: second,
        text,
    }
}

fn append<R: Record>(
    writer: &mut Writer,
    records: impl IntoIterator<Item = R>,
) -> Result<(), Error> {
    let mut batches = Batches::new("host");
    for record in records {
        batches.put(&record);
    }
    let mut batches = batches.take().into_iter();
    batches.try_for_each(|batch| writer.append(batch))
}

/// The numbers that are there of a kind, in segments and the log, in order.
fn numbers(store: &Path, kind: &str) -> Vec<u64> {
    let snapshot = Snapshot::of(store).unwrap();
    let mut numbers = Vec::new();
    let mut read = |rows: &RecordBatch| {
        let column = rows.column_by_name("count").unwrap();
        numbers.extend_from_slice(column.as_primitive::<UInt64Type>().values());
    };
    if let Some(kind) = snapshot.kind(kind) {
        for path in &kind.segments {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap());
            for rows in reader.unwrap().build().unwrap() {
                read(&rows.unwrap());
            }
        }
        kind.open.iter().for_each(read);
    }
    numbers.sort_unstable();
    numbers
}

/// Runs a test again where a file system of 1 MB can be mounted without anybody else seeing it.
fn on_a_small_disk(name: &str, test: impl FnOnce(&Path)) {
    if let Ok(disk) = std::env::var(SMALL_DISK) {
        return test(Path::new(&disk));
    }
    let disk = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m none {} && exec \"$0\" --exact {name} --nocapture",
        disk.path().display()
    );
    let done = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(SMALL_DISK, disk.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    if told.contains("Operation not permitted") {
        println!("skipped: mounting a small file system needs root");
        return;
    }
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{told}{printed}");
}

#[test]
fn nothing_is_damaged_and_all_losses_are_counted() {
    on_a_small_disk("nothing_is_damaged_and_all_losses_are_counted", |disk| {
        for full in [Full::RemoveOldest, Full::Stop] {
            fill(disk, full);
        }
    });
}

fn fill(disk: &Path, full: Full) {
    let (store, filler) = (disk.join(format!("{full:?}")), disk.join("filler"));
    fs::write(&filler, vec![0; 300 << 10]).unwrap();
    let settings = Settings {
        log_bytes: 150 << 10,
        full,
        ..Settings::default()
    };
    let (mut writer, _) = Writer::open(&store, settings).unwrap();
    let (mut failed, mut taken) = (0, 0);
    for round in 0..60 {
        match append(&mut writer, (round * 50..round * 50 + 50).map(at)) {
            Ok(()) => taken += 50,
            Err(error) => {
                assert!(error.is_full_disk(), "{error}");
                failed += 1;
            }
        }
    }
    let status = writer.status();
    let there = numbers(&store, "example");
    match full {
        // All that was taken was told of as taken, and the newest is there.
        Full::RemoveOldest => {
            assert!(status.removed_segments > 0, "{status:?}");
            assert_eq!(there.last(), Some(&2999), "{status:?}, {failed} failed");
        }
        Full::Stop => {
            assert!(failed > 0 && status.lost_rows > 0, "{status:?}");
            assert_eq!(status.removed_segments, 0);
            assert_eq!(there.first(), Some(&0));
        }
    }
    assert_eq!(
        status.rows + status.lost_rows,
        3_000,
        "{taken} taken, {status:?}"
    );
    // The next writer begins on the full disk, too. With room, what is in logs is in segments.
    drop(writer);
    let (writer, recovered) = Writer::open(&store, settings).unwrap();
    assert_eq!(recovered.aside, Vec::<PathBuf>::new());
    assert_eq!(
        recovered.waiting_logs > 0,
        full == Full::Stop,
        "{recovered:?}"
    );
    drop(writer);
    assert_eq!(numbers(&store, "example"), there);
    fs::remove_file(&filler).unwrap();
    Writer::open(&store, settings).unwrap();
    assert_eq!(numbers(&store, "example"), there);
    assert_eq!(
        Snapshot::of(&store)
            .unwrap()
            .kind("example")
            .unwrap()
            .open
            .len(),
        0
    );
    fs::remove_dir_all(&store).unwrap();
}

/// A log has two kinds, and there is room for the segment of one. What comes then is of a log of
/// its own: no segment that is there stands for it.
#[test]
fn what_comes_behind_half_a_log_is_kept() {
    on_a_small_disk("what_comes_behind_half_a_log_is_kept", |disk| {
        let (store, filler) = (disk.join("store"), disk.join("filler"));
        let settings = Settings {
            log_age: Duration::ZERO,
            full: Full::Stop,
            ..Settings::default()
        };
        let count = |second: u64| Count::new(Time(BEGIN + second * SECOND), "rtt", "lost", second);
        let now = Time(BEGIN);
        let (mut writer, _) = Writer::open(&store, settings).unwrap();
        append(&mut writer, [count(1)]).unwrap();
        append(&mut writer, (0..200).map(at)).unwrap();
        let mut file = File::create(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        // Directories take nothing here, and a segment of one row two pages.
        let length = file.metadata().unwrap().len();
        file.set_len(length - (40 << 10)).unwrap();
        let error = writer.tick(now).unwrap_err();
        assert!(error.is_full_disk(), "{error}");
        assert_eq!(writer.status().segments, 1);
        append(&mut writer, [count(2)]).unwrap();
        writer.sync().unwrap();
        assert_eq!(numbers(&store, "count"), [1, 2]);
        fs::remove_file(&filler).unwrap();
        drop(file);
        writer.tick(now).unwrap();
        writer.finish().unwrap();
        drop(Writer::open(&store, settings).unwrap());
        assert_eq!(numbers(&store, "count"), [1, 2]);
        assert_eq!(numbers(&store, "example").len(), 200);
    });
}
