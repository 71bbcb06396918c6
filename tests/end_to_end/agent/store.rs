//! What the agent keeps, and what is asked of it.

use std::path::Path;
use std::process::{Command, Stdio};

use fathom_lab::{Process, Topology, wait_until};
use fathom_tests::binary;
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{BYTES, DELAY, PATIENCE, REQUESTS, exchange, lab, namespace_of, wait_until_attached};

/// An agent that keeps what it measures there.
pub(crate) fn command(lab: &Topology, store: &Path) -> Command {
    let mut command = lab.client.command(binary().unwrap().to_str().unwrap());
    command
        .args(["agent", "--interval", "1s", "--host", "client", "--store"])
        .arg(store)
        .arg("--socket")
        .arg(store.with_extension("sock"))
        .stderr(Stdio::inherit());
    command
}

fn start(lab: &Topology, store: &Path) -> Process {
    Process::start(&mut command(lab, store)).unwrap()
}

/// The rows of an answer.
pub(crate) fn query(store: &Path, statement: &str) -> Vec<Value> {
    let answer = Command::new(binary().unwrap())
        .args(["query", "--format", "json", "--store"])
        .arg(store)
        .arg(statement)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(answer.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

/// What all intervals of the flow have to say together, once each measurement has said something.
const OF_THE_FLOW: &str = "
    SELECT sum(bytes + reverse_bytes) AS bytes, min(rtt_min_ns) AS rtt_ns,
           max(client_rtt_min_ns) AS client_rtt_ns, min(latency_p50_ns) AS latency_ns
    FROM flows WHERE destination_port = 8080
    HAVING min(rtt_min_ns) IS NOT NULL AND min(latency_p50_ns) IS NOT NULL";
#[fathom_lab::test]
fn records_are_asked_for_while_they_come_and_survive_a_kill() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path();
    let of_the_connection = format!(
        "SELECT total_bytes_sent AS sent, total_bytes_received AS received, establishment_ns
         FROM connections
         WHERE destination_port = 8080 AND network_namespace = {}",
        namespace_of(&lab)
    );
    let agent = start(&lab, store);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    exchange(&lab);
    wait_until(PATIENCE, "the flow and its connection in the store", || {
        !query(store, OF_THE_FLOW).is_empty() && !query(store, &of_the_connection).is_empty()
    })
    .unwrap();

    // What the lab did: a round trip is twice its delay, and the server answers at once.
    let round_trip = 2.0 * DELAY.as_nanos() as f64;
    let close = |ns: &Value| (0.9..1.5).contains(&(ns.as_f64().unwrap() / round_trip));
    let flow = &query(store, OF_THE_FLOW)[0];
    assert!(
        close(&flow["rtt_ns"]) && close(&flow["latency_ns"]),
        "{flow}"
    );
    let payload = 2 * (REQUESTS * BYTES) as u64;
    assert!(flow["bytes"].as_u64().unwrap() > payload, "{flow}");
    let connections = query(store, &of_the_connection);
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0]["sent"], payload / 2, "{connections:?}");
    assert_eq!(connections[0]["received"], payload / 2, "{connections:?}");
    assert!(
        close(&connections[0]["establishment_ns"]),
        "{connections:?}"
    );

    // The flow on the wire is this test's, by the connection that the host knows.
    let own = "
        SELECT DISTINCT c.process AS of_connection, p.process, p.pid
        FROM flows f JOIN processes p ON p.host = f.host AND p.community_id = f.community_id
          AND f.time BETWEEN p.first_time AND p.last_time + INTERVAL '5 minutes'
        JOIN connections c ON c.community_id = f.community_id AND c.role = p.role
        WHERE f.destination_port = 8080 AND p.role = 'client'";
    let owners = query(store, own);
    assert_eq!(owners.len(), 1, "{owners:?}");
    assert_eq!(owners[0]["pid"], std::process::id(), "{owners:?}");
    assert_eq!(
        owners[0]["process"], owners[0]["of_connection"],
        "{owners:?}"
    );

    agent.signal(Signal::SIGKILL).unwrap();
    drop(agent);
    // What came of the flow in a second interval may be there only now.
    let before = flow["bytes"].as_u64();
    let flow = &query(store, OF_THE_FLOW)[0];
    assert!(flow["bytes"].as_u64() >= before, "{flow}");
    // The next agent finds what the killed one had in its log, and adds to it.
    let mut agent = start(&lab, store);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    assert_eq!(&query(store, OF_THE_FLOW)[0], flow);
    assert_eq!(query(store, &of_the_connection), connections);
    let second = lab.client.command(binary().unwrap().to_str().unwrap());
    refused(second, store, &agent);
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
    let hosts = query(store, "SELECT DISTINCT host FROM hosts");
    assert_eq!(hosts, [serde_json::json!({"host": "client"})]);
}

/// One process writes a store.
fn refused(mut second: Command, store: &Path, first: &Process) {
    second.args(["agent", "--store"]).arg(store);
    let output = second.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("process {}", first.id())), "{told}");
}
