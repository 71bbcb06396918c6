//! Small segments merge, and old ones go.

use std::fs;
use std::time::Duration;

use arrow_array::cast::AsArray;
use fathom_record::Time;
use fathom_store::{Settings, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{BEGIN, Example, SECOND, append, at, keep, numbers, rows, segments};

#[test]
fn many_small_segments_become_one() {
    let directory = tempfile::tempdir().unwrap();
    for second in 0..70 {
        keep(directory.path(), &[at(second)]);
    }
    assert_eq!(segments(directory.path()).len(), 70);
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    writer.merge_due(Time(BEGIN)).unwrap();
    assert_eq!(segments(directory.path()).len(), 1);
    assert_eq!(writer.status().merged_segments, 70);
    assert_eq!(numbers(directory.path()), (0..70).collect::<Vec<_>>());
    // Few are merged when their hour is over.
    let next_hour = |second: u64| at(3600 + second);
    for second in 0..3 {
        append(&mut writer, &[next_hour(second)]).unwrap();
        writer.finish().unwrap();
        (writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    }
    writer.merge_due(Time(BEGIN + 3700 * SECOND)).unwrap();
    assert_eq!(segments(directory.path()).len(), 4);
    writer.merge_due(Time(BEGIN + 7300 * SECOND)).unwrap();
    assert_eq!(segments(directory.path()).len(), 2);
    assert_eq!(numbers(directory.path()).len(), 73);
}

/// Segments of an hour that is over, a second or more each, merge; how many row groups the segment
/// then has.
fn groups_of_merged(starts: &[u64], rows_each: u64) -> usize {
    let directory = tempfile::tempdir().unwrap();
    for &start in starts {
        let row = |row: u64| Example {
            time: Time(BEGIN + start * SECOND + row * 100_000),
            number: Some(start * SECOND + row * 100_000),
            text: Some((row % 7).to_string()),
            ..at(0)
        };
        keep(
            directory.path(),
            &(0..rows_each).map(row).collect::<Vec<_>>(),
        );
    }
    let (mut writer, _) = Writer::open(directory.path(), Settings::default()).unwrap();
    writer.merge_due(Time(BEGIN + 3700 * SECOND)).unwrap();
    let [merged] = &segments(directory.path())[..] else {
        panic!("{:?}", segments(directory.path()));
    };
    let numbers = numbers(directory.path());
    assert_eq!(numbers.len() as u64, starts.len() as u64 * rows_each);
    assert!(numbers.is_sorted());
    let texts = rows(directory.path());
    let texts = texts
        .iter()
        .map(|rows| rows.column_by_name("text").unwrap().as_string::<i32>());
    assert!(
        texts
            .flatten()
            .flatten()
            .all(|text| text.parse::<u64>().unwrap() < 7)
    );
    let file = fs::File::open(merged).unwrap();
    let read = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let groups = read.metadata().row_groups();
    // Readers leave out groups by what the file says of them.
    assert!(
        groups
            .iter()
            .all(|group| group.column(0).statistics().is_some())
    );
    groups.len()
}

#[test]
fn large_segments_in_a_row_are_put_one_after_the_other() {
    assert_eq!(groups_of_merged(&[0, 1, 2], 5_000), 3);
    // Small ones, and such as are of the same time, are written anew.
    assert_eq!(groups_of_merged(&[0, 1, 2], 1_000), 1);
    assert_eq!(groups_of_merged(&[0, 1, 1], 5_000), 2);
}

#[test]
fn old_records_go_by_age_and_by_size() {
    let kept = |settings: Settings| {
        let directory = tempfile::tempdir().unwrap();
        for hour in 0..10 {
            keep(directory.path(), &[at(hour * 3600)]);
        }
        let (mut writer, _) = Writer::open(directory.path(), settings).unwrap();
        writer.retain(Time(BEGIN + 10 * 3600 * SECOND)).unwrap();
        numbers(directory.path())
            .iter()
            .map(|second| second / 3600)
            .collect::<Vec<_>>()
    };
    let all = Settings::default();
    let of_an_age = Settings {
        max_age: Some(Duration::from_secs(3 * 3600 + 1)),
        ..all
    };
    assert_eq!(kept(of_an_age), [7, 8, 9]);
    let directory = tempfile::tempdir().unwrap();
    keep(directory.path(), &[at(0)]);
    let bytes = fs::metadata(&segments(directory.path())[0]).unwrap().len();
    let of_a_size = Settings {
        max_bytes: Some(2 * bytes + bytes / 2),
        ..all
    };
    assert_eq!(kept(of_a_size), [8, 9]);
    assert_eq!(kept(all).len(), 10);
}
