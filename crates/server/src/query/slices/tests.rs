//! Questions about stores, answered by slices and without: the answers are the same.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use fathom_record::{FlowKey, Fold, Histogram, Nanoseconds, Protocol, Record, Time, record};
use fathom_store::{Batches, Settings, Snapshot, Writer};
use proptest::prelude::*;
use records::{Aggregate, Traffic};

use super::super::engine::empty_context as context;
use super::super::{functions, tables, views};
use datafusion::execution::cache::cache_manager::CacheManagerConfig;

#[path = "../../../tests/query/records.rs"]
mod records;

record! {
    /// Responses, as far as views need them.
    #[record = "response_aggregate"]
    struct Responses {
        /// When.
        #[field(fold = Fold::End)]
        pub time: Time,
        /// How long.
        #[field(fold = Fold::Length)]
        pub duration_ns: Nanoseconds,
        /// Whose.
        pub flow: FlowKey,
        /// How many.
        #[field(fold = Fold::Sum)]
        pub flows: u64,
        /// Where.
        pub interface: &'static str,
        /// All.
        #[field(fold = Fold::Merge)]
        pub latency_histogram: Histogram,
    }
}

/// 2025-11-25T00:00:00Z.
const BEGIN_S: u64 = 1_764_028_800;
const INTERVAL_S: u64 = 600;

/// Which records there are of a flow and interval.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each kind is there or not")]
struct Kept {
    /// Since the beginning; the sixth ends with the hour.
    interval: u64,
    client: u8,
    traffic: bool,
    there: bool,
    back: bool,
    responses: bool,
}

/// What happens to a store: records are kept, hours become rows of an hour, nothing more is kept
/// in a log that stays open.
type Batch = Vec<Kept>;

fn kept() -> impl Strategy<Value = Kept> {
    let kinds = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0u64..24, 1u8..5, kinds).prop_map(|(interval, client, kinds)| Kept {
        interval,
        client,
        traffic: kinds.0,
        there: kinds.1,
        back: kinds.2,
        responses: kinds.3,
    })
}

fn put(batches: &mut Batches, kept: &Kept) {
    let end_s = (kept.interval + 1) * INTERVAL_S;
    let time = Time((BEGIN_S + end_s) * 1_000_000_000);
    let duration_ns = Nanoseconds(INTERVAL_S * 1_000_000_000);
    let flow = FlowKey {
        protocol: Protocol::TCP,
        source: IpAddr::from([10, 0, kept.client % 2, kept.client]),
        source_port: 40_000 + u16::from(kept.client),
        destination: IpAddr::from([192, 0, 2, kept.client % 2]),
        destination_port: 443,
    };
    let mut histogram = Histogram::new();
    histogram.record_many(1_000_000 * (1 + kept.interval), u64::from(kept.client));
    let round_trips = |flow| Aggregate {
        time,
        duration_ns,
        flow,
        rtt_p50_ns: histogram.quantile(0.5).map(Nanoseconds),
        interface: "eth0",
        rtt_histogram: histogram.clone(),
    };
    let traffic = Traffic {
        time,
        duration_ns,
        flow,
        bytes: kept.interval,
        interface: "eth0",
    };
    let responses = Responses {
        time,
        duration_ns,
        flow,
        flows: 1,
        interface: "eth0",
        latency_histogram: histogram.clone(),
    };
    let (there, back) = (round_trips(flow), round_trips(flow.reversed()));
    let all: [(bool, &dyn Record); 4] = [
        (kept.traffic, &traffic),
        (kept.there, &there),
        (kept.back, &back),
        (kept.responses, &responses),
    ];
    for (_, record) in all.into_iter().filter(|(is_kept, _)| *is_kept) {
        batches.put(record);
    }
}

fn append(writer: &mut Writer, kept: &Batch) {
    let mut batches = Batches::new("gateway");
    for kept in kept {
        put(&mut batches, kept);
    }
    for batch in batches.take() {
        writer.append(batch).unwrap();
    }
    writer.sync().unwrap();
}

/// Each batch becomes segments, which do not merge. Then the first hours become rows of an hour.
/// The writer has what is in no segment.
fn fill(directory: &Path, segments: &[Batch], is_rolled_up: bool, open: &Batch) -> Writer {
    for kept in segments {
        let (mut writer, _) = Writer::open(directory, Settings::default()).unwrap();
        append(&mut writer, kept);
        writer.finish().unwrap();
    }
    let settings = Settings {
        hours_after: is_rolled_up.then_some(Duration::from_secs(3_600)),
        ..Settings::default()
    };
    let (mut writer, _) = Writer::open(directory, settings).unwrap();
    let now = Time((BEGIN_S + 3 * 3_600) * 1_000_000_000);
    writer.roll_up_due(now).unwrap();
    append(&mut writer, open);
    writer
}

const HOSTS: &str = "SELECT * FROM hosts";
/// Those without a time in a join or a group are not answered by slices.
const NOT_BY_TIME: [&str; 3] = [
    HOSTS,
    "SELECT destination, count(*), count(rtt_p50_ns), min(time), max(rtt_p50_ns), max(source) FROM rtt_aggregate GROUP BY destination",
    "SELECT interface, count(DISTINCT source), count(source_port), max(bytes) FROM traffic GROUP BY interface, host",
];
const BY_TIME: [&str; 15] = [
    "SELECT * FROM flows",
    "SELECT count(*) FROM flows",
    "SELECT count(*) FROM servers",
    "SELECT source, count(*), sum(bytes), max(rtt_p50_ns), max(client_rtt_p50_ns) FROM flows GROUP BY source",
    "SELECT * FROM flows WHERE time > TIMESTAMP '2025-11-25 01:00:00' AND prefix(source, 24) = '10.0.1.0/24'",
    "SELECT * FROM servers",
    "SELECT destination, max(latency_p99_ns), sum(flows) FROM servers GROUP BY 1",
    "SELECT time, count(*), merge(rtt_histogram) FROM rtt_aggregate GROUP BY time",
    "SELECT t.time, r.time, bytes, rtt_p50_ns FROM traffic t FULL JOIN rtt_aggregate r ON t.time = r.time AND t.source = r.source",
    "SELECT r.time, count(*), sum(bytes) FROM traffic t RIGHT JOIN rtt_aggregate r USING (time, community_id) GROUP BY r.time",
    "SELECT r.time, count(*), sum(bytes) FROM traffic t LEFT JOIN rtt_aggregate r USING (time, community_id) GROUP BY r.time",
    "SELECT * FROM traffic t WHERE NOT EXISTS (SELECT 1 FROM response_aggregate r WHERE r.time = t.time AND r.source = t.source)",
    "SELECT bytes FROM traffic WHERE time IN (SELECT time FROM rtt_aggregate WHERE source_port > 40002)",
    "SELECT a.t, a.time, b.time, a.b FROM (SELECT time AS t, to_timestamp_nanos(bytes) AS time, bytes AS b FROM traffic) a JOIN rtt_aggregate b ON a.t = b.time",
    "SELECT time, sum(n) FROM (SELECT time, bytes AS n FROM traffic UNION ALL SELECT time, flows FROM response_aggregate) GROUP BY time",
];

/// The plan and the rows, in an order of their own.
fn answer(context: &SessionContext, snapshot: &Snapshot, question: &str) -> (String, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        functions::register(context);
        tables::register(context, snapshot).unwrap();
        views::register(context).await.unwrap();
        let plan = context.sql(&format!("EXPLAIN {question}")).await.unwrap();
        let plan = pretty_format_batches(&plan.collect().await.unwrap()).unwrap();
        let rows = context
            .sql(question)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        let rows = pretty_format_batches(&rows).unwrap().to_string();
        let mut rows: Vec<_> = rows.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        (plan.to_string(), rows)
    })
}

fn is_same(directory: &Path) -> Result<(), TestCaseError> {
    let snapshot = Snapshot::of(directory).unwrap();
    for question in BY_TIME.into_iter().chain(NOT_BY_TIME) {
        let (plan, by_slices) = answer(
            &context(1024, CacheManagerConfig::default()).unwrap(),
            &snapshot,
            question,
        );
        let (_, at_once) = answer(&SessionContext::new(), &snapshot, question);
        prop_assert_eq!(&by_slices, &at_once, "{}\n{}", question, plan);
        let is_by_time = BY_TIME.contains(&question);
        prop_assert_eq!(plan.contains("SlicedExec"), is_by_time, "{}", plan);
        // All records are of one host: footers say enough of them.
        let reads_files = plan.contains("file_groups");
        prop_assert!(!reads_files || question != HOSTS, "{}", plan);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Whatever a store has: records that came late, of the last moment of an hour, hours that are
    /// rows of an hour, several segments of one hour, records in no segment.
    #[test]
    fn answers_by_slices_are_the_same(
        segments in prop::collection::vec(prop::collection::vec(kept(), 1..90), 0..4),
        is_rolled_up in any::<bool>(),
        open in prop::collection::vec(kept(), 0..60),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let _writer = fill(directory.path(), &segments, is_rolled_up, &open);
        is_same(directory.path())?;
    }
}

/// Of one kind there are records, of the others none.
#[test]
fn a_kind_may_be_all_there_is() {
    let all = Kept {
        interval: 5,
        client: 1,
        traffic: false,
        there: false,
        back: false,
        responses: false,
    };
    for only in [
        Kept {
            traffic: true,
            ..all
        },
        Kept { there: true, ..all },
        Kept {
            responses: true,
            ..all
        },
    ] {
        let directory = tempfile::tempdir().unwrap();
        let writer = fill(directory.path(), &[vec![only]], false, &vec![]);
        writer.finish().unwrap();
        is_same(directory.path()).unwrap();
    }
}
