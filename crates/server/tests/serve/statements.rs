//! Statements of people: what they may do, and what they may take.

use std::time::Instant;

use crate::server::{PATIENCE, Server, request};
use crate::store::{empty, hour};

#[test]
fn statements_are_answered_and_cut() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    let answer = server.statement("SELECT host, count(*) AS rows FROM traffic GROUP BY host");
    let expected = serde_json::json!({
        "columns": ["host", "rows"], "rows": [["gateway", "1800"]], "is_cut": false
    });
    assert_eq!(answer.json(), expected);
    let many = server.statement("SELECT time FROM traffic").json();
    assert_eq!(many["rows"].as_array().unwrap().len(), 1_000);
    assert_eq!(many["is_cut"], true);
    let long = server
        .statement("SELECT repeat(host, 100000) FROM traffic")
        .json();
    assert_eq!(long["is_cut"], true);
}

#[test]
fn statements_only_ask() {
    let store = tempfile::tempdir().unwrap();
    hour(store.path());
    let server = Server::start(store.path());
    for statement in [
        "DROP TABLE traffic",
        "COPY traffic TO '/tmp/x.parquet'",
        "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION '/etc/passwd'",
        "INSERT INTO traffic SELECT * FROM traffic",
        "SET datafusion.execution.batch_size = 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT 1; SELECT 2",
        "--store",
        "",
    ] {
        let answer = server.statement(statement);
        assert_eq!(answer.status, 400, "{statement}: {}", answer.body);
        assert!(answer.json()["error"].is_string());
    }
    let kept = server.statement("SELECT count(*) FROM traffic").json();
    assert_eq!(kept["rows"][0][0], "1800");
}

#[test]
fn a_statement_that_needs_too_much_memory_harms_nobody() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    let greedy = "SELECT length(repeat('x', 2000000000))";
    let answer = server.statement(greedy);
    // On a busy machine it has no time to fail of itself.
    assert!([400, 504].contains(&answer.status), "{}", answer.body);
    assert_eq!(server.statement("SELECT 1 AS one").status, 200);
}

/// The process that answers is gone when nobody waits for it any more.
#[test]
fn a_statement_ends_when_its_client_leaves() {
    let store = tempfile::tempdir().unwrap();
    empty(store.path());
    let server = Server::start(store.path());
    let statement = r#"{"statement":"SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"}"#;
    let headers = [("Content-Type", "application/json")];
    // As browsers do, it would keep the connection.
    let headers = [headers[0], ("Connection", "keep-alive")];
    let waiting = server.send(&request(
        server.address,
        "POST",
        "/api/v1/sql",
        &headers,
        statement,
    ));
    wait_for(|| !children(server.pid()).is_empty(), "no process answers");
    let other = server.statement("SELECT 1");
    assert_eq!(other.status, 429, "{}", other.body);
    drop(waiting);
    wait_for(|| children(server.pid()).is_empty(), "the process goes on");
    assert_eq!(server.statement("SELECT 1 AS one").status, 200);
}

fn wait_for(is_so: impl Fn() -> bool, otherwise: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::yield_now();
    }
}

/// The processes that this one started, as the kernel lists them by thread.
fn children(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let listed = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let listed: Vec<String> = listed.collect();
    let pids = listed.iter().flat_map(|list| list.split_whitespace());
    pids.map(str::to_owned).collect()
}
