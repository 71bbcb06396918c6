//! An agent whose wall clock is set while it measures.

use std::path::{Path, PathBuf};

use fathom_lab::{Process, Topology, wait_until};
use nix::sys::signal::Signal;

use super::store::{command, query};
use super::{BYTES, DELAY, PATIENCE, REQUESTS, exchange, lab, wait_until_attached};

/// Where distributions have it.
fn library() -> Option<PathBuf> {
    let architectures = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let paths = architectures.map(|it| format!("/usr/lib/{it}/faketime/libfaketimeMT.so.1"));
    paths.into_iter().map(PathBuf::from).find(|it| it.exists())
}

/// Only its wall clock is that of the file; the one that counts from boot is the kernel's.
fn start(lab: &Topology, store: &Path, library: &Path, clock: &Path) -> Process {
    let mut command = command(lab, store);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", clock)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Process::start(&mut command).unwrap()
}

/// By how many hours the records of a connection are from now, and what they say of it.
fn told(store: &Path, port: u16) -> Vec<(i64, u64, f64)> {
    let statement = format!(
        "SELECT CAST(round(avg(EXTRACT(EPOCH FROM time) - EXTRACT(EPOCH FROM now())) / 3600)
             AS BIGINT) AS hours, sum(bytes + reverse_bytes) AS bytes, min(rtt_min_ns) AS rtt_ns
         FROM flows WHERE destination_port = 8080 AND source_port = {port}
         HAVING min(rtt_min_ns) IS NOT NULL AND min(latency_p50_ns) IS NOT NULL"
    );
    let rows = query(store, &statement);
    let rows = rows.iter().map(|row| {
        let hours = row["hours"].as_i64().unwrap();
        let bytes = row["bytes"].as_u64().unwrap();
        (hours, bytes, row["rtt_ns"].as_f64().unwrap())
    });
    rows.collect()
}

#[fathom_lab::test]
fn a_clock_that_is_set_changes_times_and_nothing_else() {
    let Some(library) = library() else {
        println!("skipped: there is no libfaketime: `make setup` installs it");
        return;
    };
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let (store, clock) = (
        directory.path().join("store"),
        directory.path().join("clock"),
    );
    std::fs::write(&clock, "+0").unwrap();
    let mut agent = start(&lab, &store, &library, &clock);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    let payload = 2 * (REQUESTS * BYTES) as u64;
    let round_trip = 2.0 * DELAY.as_nanos() as f64;
    for hours in [0, -1, 1, 24, 0] {
        let part = clock.with_extension("part");
        std::fs::write(&part, format!("{:+}", hours * 3600)).unwrap();
        std::fs::rename(&part, &clock).unwrap();
        let port = exchange(&lab);
        wait_until(PATIENCE, "the flow in the store", || {
            !told(&store, port).is_empty()
        })
        .unwrap();
        wait_until(PATIENCE, "all of the flow, at its time", || {
            let rows = told(&store, port);
            let [(told_hours, bytes, _)] = rows[..] else {
                return false;
            };
            told_hours == hours && bytes > payload
        })
        .unwrap();
        let (_, bytes, rtt_ns) = told(&store, port)[0];
        assert!(bytes < 2 * payload, "{hours}: {bytes}");
        assert!(
            (0.9..1.5).contains(&(rtt_ns / round_trip)),
            "{hours}: {rtt_ns}"
        );
    }
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
}
