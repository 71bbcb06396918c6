//! Rows of short intervals become rows of longer ones, and say the same.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod records;

use std::collections::BTreeSet;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use fathom_record::{Histogram, Nanoseconds, Record, Time, record};
use fathom_store::{HistogramColumn, Settings, Writer};
use records::{
    BEGIN, DAY, Event, SECOND, Sample, keep, keep_samples, lengths, roll_up, row, rows, sample,
    segments, settings, told,
};

#[test]
fn rows_become_one_a_minute_and_one_an_hour() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // A flow all the time, and another that ends a minute; in segments that overlap.
    let long = |seconds: std::ops::RangeInclusive<u64>| seconds.step_by(10);
    let samples: Vec<_> = long(10..=600).map(|end| sample(end, "long", 2)).collect();
    keep_samples(path, &samples[..25]);
    keep_samples(path, &samples[25..]);
    keep_samples(path, &[sample(60, "short", 5), sample(70, "short", 7)]);
    let others: Vec<_> = (0..5)
        .map(|number| Event {
            time: Time(BEGIN + number * SECOND + 1),
            number,
        })
        .collect();
    keep(
        path,
        &others
            .iter()
            .map(|it| it as &dyn Record)
            .collect::<Vec<_>>(),
    );

    roll_up(path, settings(), 2 * DAY);
    assert_eq!(told(path).len(), 62, "the hour is not old enough");
    roll_up(path, settings(), 2 * DAY + Duration::from_secs(3600));
    let minutes = (1..=10).map(|minute| row("long", minute * 60, 60, 12));
    let short = [row("short", 60, 60, 5), row("short", 120, 60, 7)];
    assert_eq!(lengths(path), minutes.chain(short).collect::<Vec<_>>());
    assert_eq!(segments(path, "sample").len(), 1);
    roll_up(path, settings(), 15 * DAY);
    assert_eq!(
        lengths(path),
        [row("long", 3600, 3600, 120), row("short", 3600, 3600, 12)]
    );
    // Again changes nothing, and what is of no interval stays as it is.
    roll_up(path, settings(), 20 * DAY);
    assert_eq!(lengths(path).len(), 2);
    assert_eq!(
        rows(path, "event")
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        5
    );
}

/// By minutes first or not: an hour says the same.
#[test]
fn each_field_is_folded_as_its_declaration_says() {
    let of = |first: Option<Duration>| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let samples = [
            sample(10, "one", 2),
            sample(20, "one", 3),
            sample(600, "one", 5),
        ];
        keep_samples(path, &samples);
        if let Some(first) = first {
            roll_up(path, settings(), first);
        }
        roll_up(path, settings(), 15 * DAY);
        let told = told(path);
        let (_, _, row) = told.values().next().unwrap().clone();
        assert_eq!(told.len(), 1);
        (row, samples)
    };
    for first in [None, Some(3 * DAY)] {
        let (row, samples) = of(first);
        let number = |name: &str| row[name].as_primitive::<UInt64Type>().value(0);
        let float = |name: &str| row[name].as_primitive::<Float64Type>().value(0);
        assert_eq!(number("duration_ns"), 3600 * SECOND);
        assert_eq!(number("packets"), 10);
        assert!((float("per_second") - 10.0 / 3600.0).abs() < 1e-9);
        assert_eq!(number("wait_min_ns"), 1_000_010);
        assert_eq!(number("wait_max_ns"), 5_000_600);
        // (1 + 2 + 1 + 2 + 3 + 1 + 2 + 3 + 4 + 5) / 10 ms, but for rounding.
        assert!(
            number("wait_mean_ns").abs_diff(2_400_310) < 10,
            "{}",
            number("wait_mean_ns")
        );
        // The root of (1 + 4 + 1 + 4 + 9 + 1 + 4 + 9 + 16 + 25) / 10 - 2.4 * 2.4.
        assert!(
            number("wait_stdev_ns").abs_diff(1_280_625) < 1_000,
            "{}",
            number("wait_stdev_ns")
        );
        // Of ten packets the five of the last interval.
        assert!((float("part") - 0.5).abs() < 1e-9);
        assert!(row["note"].is_null(0) && row["vlan"].is_null(0));
        let mut merged = Histogram::new();
        for sample in &samples {
            merged.merge(&sample.wait_histogram);
        }
        let folded = HistogramColumn::of(row["wait_histogram"].as_list()).unwrap();
        let folded = folded.histogram(0).unwrap();
        assert!(folded.buckets().eq(merged.buckets()));
        assert_eq!(Some(number("wait_p50_ns")), folded.quantile(0.5));
    }
}

/// Intervals end where they end, not a moment later: an hour has all of its own, and no other.
#[test]
fn what_ends_with_an_hour_is_of_that_hour() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let samples: Vec<_> = (3590..=3620)
        .step_by(10)
        .map(|end| sample(end, "one", 1))
        .collect();
    keep_samples(path, &samples);
    assert_eq!(segments(path, "sample").len(), 2);
    roll_up(path, settings(), 15 * DAY);
    assert_eq!(
        lengths(path),
        [row("one", 3600, 3600, 2), row("one", 7200, 3600, 2)]
    );
}

#[test]
fn longer_intervals_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let long = Sample {
        duration_ns: Nanoseconds(300 * SECOND),
        ..sample(300, "long", 4)
    };
    keep_samples(
        path,
        &[long, sample(310, "short", 1), sample(320, "short", 1)],
    );
    roll_up(path, settings(), 3 * DAY);
    assert_eq!(
        lengths(path),
        [row("long", 300, 300, 4), row("short", 360, 60, 2)]
    );
    roll_up(path, settings(), 15 * DAY);
    assert_eq!(
        lengths(path),
        [row("long", 3600, 3600, 4), row("short", 3600, 3600, 2)]
    );
}

mod older {
    use super::*;

    record! {
        /// As an older fathom wrote it.
        #[record = "sample"]
        pub(crate) struct Sample {
            /// The end of it.
            pub time: Time,
            /// How long.
            pub duration_ns: Nanoseconds,
            /// Whose.
            pub flow: String,
            /// How many.
            pub packets: u64,
            /// What there is no more.
            pub colour: &'static str,
        }
    }

    pub(crate) fn sample(end_s: u64, packets: u64) -> Sample {
        Sample {
            time: Time(BEGIN + end_s * SECOND),
            duration_ns: Nanoseconds(10 * SECOND),
            flow: "one".to_owned(),
            packets,
            colour: "red",
        }
    }
}

/// Columns come and go: segments merge and are rolled up all the same, and nothing of them is lost.
#[test]
fn segments_of_an_older_version_go_with_newer_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    keep(path, &[&older::sample(10, 3), &older::sample(20, 4)]);
    keep_samples(path, &[sample(30, "one", 5)]);
    roll_up(path, Settings::default(), DAY);
    assert_eq!(segments(path, "sample").len(), 1);
    let told = lengths(path);
    assert_eq!(
        told,
        [
            row("one", 10, 10, 3),
            row("one", 20, 10, 4),
            row("one", 30, 10, 5)
        ]
    );
    let merged = rows(path, "sample").remove(0);
    assert_eq!(merged["colour"].null_count(), 1);
    assert_eq!(merged["wait_max_ns"].null_count(), 2);
    // What has another colour is something else.
    roll_up(path, settings(), 3 * DAY);
    let packets: u64 = rows(path, "sample")
        .iter()
        .flat_map(|rows| {
            rows["packets"]
                .as_primitive::<UInt64Type>()
                .values()
                .to_vec()
        })
        .sum();
    assert_eq!(packets, 12);
    assert_eq!(rows(path, "sample")[0].num_rows(), 2);

    // Alone they say nothing of how they become one, and stay.
    let directory = tempfile::tempdir().unwrap();
    keep(
        directory.path(),
        &[&older::sample(10, 3), &older::sample(20, 4)],
    );
    roll_up(directory.path(), settings(), 15 * DAY);
    assert_eq!(lengths(directory.path()).len(), 2);
}

/// More flows than are put together at a time: each has one row all the same.
#[test]
fn very_many_flows_are_put_together_some_at_a_time() {
    const FLOWS: u64 = 70_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for end in [10, 20] {
        let all = (0..FLOWS).map(|flow| sample(end, &flow.to_string(), 1));
        keep_samples(path, &all.collect::<Vec<_>>());
    }
    roll_up(path, settings(), 3 * DAY);
    let rows = rows(path, "sample");
    let flows: BTreeSet<_> = rows
        .iter()
        .flat_map(|rows| {
            rows["flow"]
                .as_string::<i32>()
                .iter()
                .map(|it| it.unwrap().to_owned())
        })
        .collect();
    let counts = rows
        .iter()
        .flat_map(|rows| rows["packets"].as_primitive::<UInt64Type>().iter());
    assert_eq!(flows.len() as u64, FLOWS);
    assert!(counts.eq((0..FLOWS).map(|_| Some(2))));
}

/// The finest go first, and of these the oldest.
#[test]
fn a_store_that_is_too_large_loses_the_finest_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for hour in 0..4 {
        keep_samples(path, &[sample(hour * 3600 + 10, "one", hour + 1)]);
    }
    let hour = Duration::from_secs(3600);
    roll_up(path, settings(), 2 * DAY + 2 * hour);
    let ends: Vec<_> = lengths(path)
        .into_iter()
        .map(|(_, end, length, _)| (end, length))
        .collect();
    assert_eq!(ends, [(60, 60), (3660, 60), (7210, 10), (10_810, 10)]);
    let bytes: u64 = segments(path, "sample")
        .iter()
        .map(|path| path.metadata().unwrap().len())
        .sum();
    let (mut writer, _) = Writer::open(
        path,
        Settings {
            max_bytes: Some(bytes - 1),
            ..settings()
        },
    )
    .unwrap();
    writer.retain(Time(BEGIN)).unwrap();
    let ends: Vec<_> = lengths(path).into_iter().map(|(_, end, ..)| end).collect();
    assert_eq!(ends, [60, 3660, 10_810]);
}
