//! Rows of longer intervals, which the server makes.

use std::path::Path;

use serde_json::Value;

use super::super::store::query;
use super::server::{Server, canonical, sorted};

/// Rows of a minute are what those of the store are together; also when batches come twice, and
/// late.
pub(super) fn put_together(server: &Server<'_>, store: &Path) {
    const KINDS: [(&str, &str, &str); 2] = [
        (
            "traffic",
            "host, community_id, source_port, destination_port",
            "sum(packets) AS packets, sum(bytes) AS bytes",
        ),
        (
            "rtt_aggregate",
            "host, community_id, source_port, destination_port",
            "sum(rtt_samples) AS rtt_samples, min(rtt_min_ns) AS rtt_min_ns, \
             quantile(merge(rtt_histogram), 0.99) AS rtt_p99_ns",
        ),
    ];
    let shift = |kind: &str, block: &str| {
        let shifted = format!(
            "INSERT INTO fathom.{kind} SELECT * REPLACE \
             (time - INTERVAL 2 HOUR AS time, concat(block, '{block}') AS block) \
             FROM (SELECT * FROM fathom.{kind} WHERE time > now() - INTERVAL 1 HOUR)"
        );
        assert_eq!(server.ask(&shifted), "");
    };
    let refresh = |kind: &str| {
        for statement in ["REFRESH", "WAIT"] {
            let done = server.ask(&format!(
                "SYSTEM {statement} VIEW fathom.{kind}_minutes_refresh"
            ));
            assert_eq!(done, "", "{statement}");
        }
    };
    for (kind, keys, values) in KINDS {
        let expected = query(
            store,
            &format!(
                "SELECT {keys}, {values} FROM {kind} \
                 GROUP BY date_trunc('minute', time - INTERVAL '1' NANOSECOND), {keys}"
            ),
        );
        let canonical = |row: &Value| canonical(row.as_object().unwrap());
        let expected = sorted(expected.iter().map(canonical).collect());
        assert!(!expected.is_empty(), "{kind}");
        let columns: Vec<_> = values
            .split(" AS ")
            .skip(1)
            .map(|it| it.split(',').next().unwrap())
            .collect();
        let put_together = || {
            refresh(kind);
            let view = format!("{kind}_minutes FINAL");
            let columns = format!("{keys}, {}", columns.join(", "));
            let rows = server.ask(&format!(
                "SELECT {columns} FROM fathom.{view} FORMAT JSONEachRow"
            ));
            let rows = rows
                .lines()
                .map(|row| canonical(&serde_json::from_str(row).unwrap()));
            sorted(rows.collect())
        };
        for _ in 0..2 {
            shift(kind, "");
            assert_eq!(put_together(), expected, "{kind}");
        }
        if kind == "traffic" {
            shift(kind, "late");
            let packets =
                |rows: &str| server.ask(&format!("SELECT sum(packets) FROM fathom.{rows}"));
            assert_eq!(put_together().len(), expected.len());
            assert_eq!(
                packets("traffic_minutes FINAL"),
                packets("traffic FINAL WHERE time < now() - INTERVAL 1 HOUR")
            );
        }
    }
}
