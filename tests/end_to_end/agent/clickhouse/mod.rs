//! Records in ClickHouse: what is asked there has the same answers as what is asked of a store.

mod server;
mod together;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;

use fathom_lab::{Namespace, Process, Topology, wait_until};
use fathom_tests::{binary, cache, certificates, repository};
use nix::sys::signal::Signal;

use super::dashboards::statements;
use super::metrics::installed;
use super::store::query;
use super::{PATIENCE, exchange, lab, wait_until_attached};
use serde_json::Value;
use server::{Server, canonical, old, sorted};
use together::put_together;

/// Each view, and the columns that are compared: those of time as nanoseconds, the rest as they
/// are.
const VIEWS: [(&str, &[&str], &str); 9] = [
    (
        "flows",
        &["time"],
        "host, interface, duration_ns, community_id, protocol, source, source_port, destination, \
         destination_port, packets, bytes, reverse_packets, reverse_bytes, packets_retransmitted, \
         loss_ratio, rtt_min_ns, rtt_p50_ns, rtt_p99_ns, client_rtt_min_ns, client_rtt_p50_ns, \
         client_rtt_p99_ns, latency_p50_ns, latency_p99_ns, sure, waiting_ns",
    ),
    (
        "servers",
        &["time"],
        "host, interface, protocol, destination, destination_port, flows, responses_per_second, \
         latency_p50_ns, latency_p90_ns, latency_p99_ns, sure, epochs_without, waiting_ns",
    ),
    (
        "connections",
        &["time", "start_time"],
        "host, interface, community_id, protocol, source, source_port, destination, \
         destination_port, role, process, container, container_runtime, pod, systemd_unit, cgroup, \
         network_namespace, reason, total_duration_ns, total_bytes_sent, total_bytes_received, \
         total_packets_lost, total_rtt_mean_ns",
    ),
    (
        "processes",
        &["first_time", "last_time"],
        "host, community_id, protocol, source, source_port, destination, destination_port, role, \
         pid, process, container, container_runtime, pod, systemd_unit",
    ),
    (
        "dns",
        &["time"],
        "host, container, pod, systemd_unit, resolver, query_name, query_type, response_code, \
         latency_ns",
    ),
    (
        "hops",
        &["time"],
        "host, ttl, responder, probes_sent, probes_lost, rtt_p50_ns",
    ),
    ("hosts", &["first_time", "last_time"], "host, kind, records"),
    (
        "agents",
        &["time"],
        "host, version, measurements, interfaces, interval_ns, labels",
    ),
    ("labels", &[], "host, name, value"),
];

fn of_store(store: &Path, view: &str, times: &[&str], columns: &str) -> Vec<String> {
    let times = times.iter();
    let times = times.map(|name| format!("CAST({name} AS BIGINT) AS {name}_ns"));
    let all: Vec<_> = times.chain([columns.to_owned()]).collect();
    let statement = format!("SELECT {} FROM {view}", all.join(", "));
    let rows = query(store, &statement);
    sorted(
        rows.iter()
            .map(|row| canonical(row.as_object().unwrap()))
            .collect(),
    )
}

fn init(namespace: &Namespace, options: &[&str]) {
    let mut command = namespace.command(binary().unwrap().to_str().unwrap());
    let done = command
        .args(["store", "init"])
        .args(options)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// Starts an agent, which measures when this returns.
fn agent(lab: &Topology, host: &str, store: &Path, url: &str, said: &Path) -> Process {
    let mut command = lab.client.command(binary().unwrap().to_str().unwrap());
    command
        .args([
            "agent",
            "--interval",
            "1s",
            "--metrics",
            "none",
            "--host",
            host,
            "--label",
            "site=ber1,rack=7",
            "--store",
        ])
        .arg(store)
        .arg("--spool")
        .arg(store.with_extension("spool"))
        .args(["--clickhouse", url, "-i", Topology::HOST_INTERFACE])
        .stderr(File::create(said).unwrap());
    let agent = Process::start(&mut command).unwrap();
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    agent
}

/// Ends the agent. A server that acknowledges nothing for some seconds is not waited for: what it
/// has not, the next agent delivers.
fn end(mut agent: Process, again: impl Fn() -> Process, said: &Path) {
    for _ in 0..3 {
        agent.signal(Signal::SIGTERM).unwrap();
        let status = agent.wait_with_deadline(PATIENCE).unwrap();
        let words = fs::read_to_string(said).unwrap();
        assert!(
            status.success() && words.contains(" acknowledged, 0 refused, 0 lost"),
            "{words}"
        );
        if !words.contains("has not acknowledged wait in") {
            return;
        }
        agent = again();
    }
    panic!("records wait for the server still");
}

fn compare(server: &Server<'_>, stores: &[PathBuf]) {
    for (view, times, columns) in VIEWS {
        let own = stores
            .iter()
            .flat_map(|store| of_store(store, view, times, columns));
        let own = sorted(own.collect());
        let are_some = [
            "flows",
            "servers",
            "connections",
            "hosts",
            "agents",
            "labels",
            "processes",
        ]
        .contains(&view);
        assert!(!are_some || !own.is_empty(), "{view}");
        assert_eq!(server.rows(view, times, columns), own, "{view}");
    }
}

/// What waits, as bytes on the disk.
fn spooled(store: &Path) -> u64 {
    let folders = fs::read_dir(store.with_extension("spool"));
    let folders = folders.into_iter().flatten().map_while(Result::ok);
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten());
    let sizes = files.map_while(Result::ok).map(|file| {
        let is_spool = file.path().extension().is_some_and(|it| it == "spool");
        file.metadata()
            .map_or(0, |found| u64::from(is_spool) * found.len())
    });
    sizes.sum()
}

/// Waits until the disk has what was measured by now: what came some seconds later is there, too.
fn wait_until_spooled(store: &Path) {
    const LATER: usize = 8;
    let (mut bytes, mut changes) = (0, 0);
    wait_until(PATIENCE, "records to be spooled", || {
        let now = spooled(store);
        changes += usize::from(now != bytes);
        bytes = now;
        changes > LATER
    })
    .unwrap();
}

/// The server is away, the agent is killed, and another one has the same spool.
fn survive(
    lab: &Topology,
    server: &mut Server<'_>,
    agent: &mut Process,
    again: impl Fn() -> Process,
    store: &Path,
    said: &Path,
) {
    server.process = None;
    exchange(lab);
    let has_said = |what: &str| fs::read_to_string(said).unwrap().contains(what);
    wait_until(PATIENCE, "the agent to miss it", || {
        has_said("records wait for it")
    })
    .unwrap();
    wait_until_spooled(store);
    agent.signal(Signal::SIGKILL).unwrap();
    agent.wait_with_deadline(PATIENCE).unwrap();
    *agent = again();
    wait_until(PATIENCE, "the next one to miss it", || {
        has_said("are sent first") && has_said("records wait for it")
    })
    .unwrap();
    exchange(lab);
    server.come_back();
    wait_until(PATIENCE, "the agent to find it", || {
        has_said("takes records again")
    })
    .unwrap();
}

/// As if tables were of a version that had not all columns: what is in them stays, and they get
/// them.
fn grow(namespace: &Namespace, servers: &[&Server<'_>], options: &[&str]) {
    let row =
        "INSERT INTO fathom.response_aggregate_local (host, time, block) VALUES ('x', 1, 'y')";
    for server in servers {
        assert_eq!(server.ask(row), "");
        for table in ["response_aggregate_local", "response_aggregate"] {
            for column in [
                "waiting_ns",
                "`latency_histogram.from_ns`",
                "`latency_histogram.count`",
            ] {
                let drop = format!("ALTER TABLE fathom.{table} DROP COLUMN {column}");
                assert_eq!(server.ask(&drop), "");
            }
        }
    }
    init(namespace, options);
    for server in servers {
        let row = server.ask(
            "SELECT host, waiting_ns, latency_histogram.count FROM fathom.response_aggregate_local",
        );
        assert_eq!(row, "x\t\\N\t[]\n");
        assert_eq!(
            server.ask("TRUNCATE TABLE fathom.response_aggregate_local"),
            ""
        );
    }
}

#[fathom_lab::test]
fn two_shards_answer_as_the_store_does() {
    if installed("clickhouse-server").is_none() {
        return;
    }
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    certificates(folder, "ca.pem", &["server"]).unwrap();
    let start = |number| {
        let command = old(folder, number);
        Server::start(&lab.client, 8123 + number, command, true)
    };
    let (mut first, second) = (start(0), start(1));
    let urls = format!("{},{}", first.url(), second.url());
    let options = ["--clickhouse", &urls, "--cluster", "two"];
    for _ in 0..2 {
        init(&lab.client, &options);
    }
    grow(&lab.client, &[&first, &second], &options);
    // Two hosts, each on a shard.
    let shard = |host: &str| first.ask(&format!("SELECT sipHash64('{host}') % 2"));
    let names: Vec<_> = (0..20).map(|number| format!("host{number}")).collect();
    let other = names
        .iter()
        .find(|name| shard(name) != shard(&names[0]))
        .unwrap();
    let hosts = [names[0].clone(), other.clone()];
    let url = format!(
        "https://127.0.0.1:8443?ca={}",
        folder.join("ca.pem").display()
    );
    let mut stores = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let (store, said) = (folder.join(host), folder.join(format!("{host}.said")));
        let run = || agent(&lab, host, &store, &url, &said);
        let mut agent = run();
        exchange(&lab);
        if number == 0 {
            survive(&lab, &mut first, &mut agent, run, &store, &said);
        }
        end(agent, run, &said);
        stores.push(store);
    }
    compare(&first, &stores);
    compare(&second, &stores);
    for server in [&first, &second] {
        let hosts = server.ask("SELECT uniq(host) FROM fathom.traffic_local");
        assert_eq!(hosts.trim(), "1");
        // As if answers had been lost, and batches had come again.
        for kind in [
            "traffic",
            "rtt_aggregate",
            "response_aggregate",
            "profile",
            "agent",
        ] {
            let again =
                format!("INSERT INTO fathom.{kind}_local SELECT * FROM fathom.{kind}_local");
            assert_eq!(server.ask(&again), "");
        }
    }
    compare(&first, &stores);
}

#[fathom_lab::test]
fn the_current_dialect_answers_as_the_store_does() {
    let python = cache().join("python/bin/python");
    let script = repository().join("tests/chdb/server.py");
    let has_chdb = Command::new(&python)
        .args(["-c", "import chdb"])
        .status()
        .is_ok_and(|status| status.success());
    if !has_chdb {
        println!("skipped: there is no chdb: `make setup` installs it");
        return;
    }
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    // It reads files below its folder alone.
    let command = [
        Path::new("env"),
        Path::new("--chdir"),
        folder,
        &python,
        &script,
        Path::new("127.0.0.1:8123"),
        &folder.join("chdb"),
    ]
    .map(|part| part.to_str().unwrap().to_owned());
    let server = Server::start(&lab.client, 8123, command.into(), false);
    init(&lab.client, &["--clickhouse", &server.url()]);
    let (store, said) = (folder.join("store"), folder.join("said"));
    let run = || agent(&lab, "client", &store, &server.url(), &said);
    let agent = run();
    exchange(&lab);
    end(agent, run, &said);
    compare(&server, slice::from_ref(&store));
    networks_have_the_same_names(&server, &store, folder);
    the_dashboard_is_answered(&server);
    put_together(&server, &store);
}

/// Each panel, with rows where the agent measured something.
fn the_dashboard_is_answered(server: &Server<'_>) {
    let statements = statements("client");
    assert!(statements.len() > 10, "{statements:?}");
    for (title, statement) in statements {
        let answer = server.ask(&format!("{statement} FORMAT JSONEachRow"));
        let rows = answer.lines().map(serde_json::from_str::<Value>);
        let rows = rows.collect::<Result<Vec<_>, _>>();
        let rows = rows.unwrap_or_else(|_| panic!("{title}: {statement}: {answer}"));
        let may_be_empty =
            title.contains("DNS") || title.contains("router") || title.contains("Probes");
        assert!(may_be_empty || !rows.is_empty(), "{title}: {statement}");
    }
}

/// As docs/store.md has it.
fn networks_have_the_same_names(server: &Server<'_>, store: &Path, folder: &Path) {
    let networks = folder.join("networks.csv");
    let address = Topology::SERVER_V4;
    fs::write(&networks, format!("prefix,name\n{address}/24,\"lab, b\"\n")).unwrap();
    let made = server.ask(&format!(
        "CREATE DICTIONARY fathom.networks (prefix String, name String) PRIMARY KEY prefix \
         SOURCE(FILE(PATH '{}' FORMAT 'CSVWithNames')) LAYOUT(IP_TRIE) LIFETIME(300)",
        networks.display()
    ));
    assert_eq!(made, "");
    let name = "dictGet('fathom.networks', 'name', toIPv6(destination))";
    let theirs = server.ask(&format!(
        "SELECT {name} AS name, count() FROM fathom.traffic WHERE name != '' GROUP BY name"
    ));
    let own = Command::new(binary().unwrap())
        .args(["query", "--format", "json", "--store"])
        .arg(store)
        .arg("--networks")
        .arg(&networks)
        .arg("SELECT network_name(destination) AS name, count(*) AS count FROM traffic WHERE network_name(destination) IS NOT NULL GROUP BY 1")
        .output()
        .unwrap();
    let own: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    let expected = format!("{}\t{}", own["name"].as_str().unwrap(), own["count"]);
    assert_eq!(theirs.trim(), expected);
    assert!(expected.starts_with("lab, b\t"), "{expected}");
}
