//! Records of intervals in a store, and what is there of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use fathom_record::{Fold, Histogram, Nanoseconds, Record, Squares, Time, Unit, record};
use fathom_store::{Batches, Settings, Snapshot, Writer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

record! {
    /// A flow in an interval.
    #[record = "sample"]
    #[derive(Debug, Clone)]
    pub(crate) struct Sample {
        /// The end of it.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: String,
        /// On which VLAN.
        pub vlan: Option<u16>,
        /// How many.
        #[field(unit = Unit::Packets, fold = Fold::Sum)]
        pub packets: Option<u64>,
        /// How many a second.
        #[field(fold = Fold::Rate)]
        pub per_second: f64,
        /// The shortest.
        #[field(fold = Fold::Least)]
        pub wait_min_ns: Option<Nanoseconds>,
        /// Of all.
        #[field(fold = Fold::Mean("packets"))]
        pub wait_mean_ns: Option<Nanoseconds>,
        /// How far they are from that.
        #[field(fold = Fold::Deviation { mean: "wait_mean_ns", weight: "packets" })]
        pub wait_stdev_ns: Option<Nanoseconds>,
        /// The longest.
        #[field(fold = Fold::Greatest)]
        pub wait_max_ns: Option<Nanoseconds>,
        /// Of all.
        #[field(fold = Fold::Percentile(50))]
        pub wait_p50_ns: Option<Nanoseconds>,
        /// A part.
        #[field(fold = Fold::Mean("per_second"))]
        pub part: Option<f64>,
        /// What holds for an interval alone.
        #[field(fold = Fold::Absent)]
        pub note: Option<String>,
        /// All.
        #[field(fold = Fold::Merge)]
        pub wait_histogram: Histogram,
    }
}

record! {
    /// What is of no interval.
    #[record = "event"]
    #[derive(Debug, Clone)]
    pub(crate) struct Event {
        /// When.
        pub time: Time,
        /// Which.
        pub number: u64,
    }
}

pub(crate) const SECOND: u64 = 1_000_000_000;
/// An hour begins.
pub(crate) const BEGIN: u64 = 1_764_072_000 * SECOND;
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// The interval of 10 s that ends then, after [`BEGIN`].
pub(crate) fn sample(end_s: u64, flow: &str, packets: u64) -> Sample {
    let (mut wait_histogram, mut squares) = (Histogram::new(), Squares::default());
    for packet in 1..=packets {
        wait_histogram.record(packet * 1_000_000 + end_s);
        squares.record(packet * 1_000_000 + end_s);
    }
    Sample {
        time: Time(BEGIN + end_s * SECOND),
        duration_ns: Nanoseconds(10 * SECOND),
        flow: flow.to_owned(),
        vlan: None,
        packets: Some(packets),
        per_second: packets as f64 / 10.0,
        wait_min_ns: wait_histogram.min().map(Nanoseconds),
        wait_mean_ns: wait_histogram.mean().map(Nanoseconds),
        wait_stdev_ns: squares.deviation(&wait_histogram).map(Nanoseconds),
        wait_max_ns: wait_histogram.max().map(Nanoseconds),
        wait_p50_ns: wait_histogram.quantile(0.5).map(Nanoseconds),
        part: Some(if packets > 3 { 1.0 } else { 0.0 }),
        note: Some(format!("at {end_s}")),
        wait_histogram,
    }
}

pub(crate) fn keep(directory: &Path, records: &[&dyn Record]) {
    let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
    let mut batches = Batches::new("host");
    for record in records {
        batches.put(*record);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap();
}

pub(crate) fn keep_samples(directory: &Path, samples: &[Sample]) {
    let records: Vec<_> = samples.iter().map(|it| it as &dyn Record).collect();
    keep(directory, &records);
}

pub(crate) fn settings() -> Settings {
    Settings {
        minutes_after: Some(2 * DAY),
        hours_after: Some(14 * DAY),
        ..Settings::default()
    }
}

/// Does all that is due so long after [`BEGIN`].
pub(crate) fn roll_up(directory: &Path, settings: Settings, after: Duration) {
    let (mut writer, _) = Writer::open(directory, settings).unwrap();
    let now = Time(BEGIN + after.as_nanos() as u64);
    loop {
        let before = writer.status();
        writer.merge_due(now).unwrap();
        writer.roll_up_due(now).unwrap();
        if writer.status() == before {
            break;
        }
    }
    writer.finish().unwrap();
}

pub(crate) fn segments(directory: &Path, kind: &str) -> Vec<PathBuf> {
    let snapshot = Snapshot::of(directory).unwrap();
    snapshot
        .kind(kind)
        .map_or(Vec::new(), |it| it.segments.clone())
}

pub(crate) fn rows(directory: &Path, kind: &str) -> Vec<RecordBatch> {
    let read = |path: &PathBuf| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap());
        let rows = reader.unwrap().build().unwrap().map(Result::unwrap);
        rows.collect::<Vec<_>>()
    };
    segments(directory, kind).iter().flat_map(read).collect()
}

/// What is there by flow and second after [`BEGIN`]: length in seconds, packets, and the row.
pub(crate) fn told(directory: &Path) -> BTreeMap<(String, u64), (u64, u64, RecordBatch)> {
    let mut told = BTreeMap::new();
    for rows in rows(directory, "sample") {
        for row in 0..rows.num_rows() {
            let rows = rows.slice(row, 1);
            let time = rows["time"]
                .as_primitive::<TimestampNanosecondType>()
                .value(0);
            let key = (
                rows["flow"].as_string::<i32>().value(0).to_owned(),
                (time.cast_unsigned() - BEGIN) / SECOND,
            );
            let length = rows["duration_ns"].as_primitive::<UInt64Type>().value(0) / SECOND;
            let packets = rows["packets"].as_primitive::<UInt64Type>().value(0);
            let before = told.insert(key.clone(), (length, packets, rows));
            assert!(before.is_none(), "{key:?} is there twice");
        }
    }
    told
}

pub(crate) fn lengths(directory: &Path) -> Vec<(String, u64, u64, u64)> {
    let told = told(directory).into_iter();
    told.map(|((flow, end), (length, packets, _))| (flow, end, length, packets))
        .collect()
}

pub(crate) fn row(flow: &str, end: u64, length: u64, packets: u64) -> (String, u64, u64, u64) {
    (flow.to_owned(), end, length, packets)
}
