//! Records in ClickHouse: what is asked there has the same answers as what is asked of a store.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::slice;

use fathom_lab::{Namespace, Process, Topology, wait_until};
use fathom_tests::binary;
use nix::sys::signal::Signal;
use serde_json::{Map, Value};

use super::metrics::{cache, installed};
use super::store::query;
use super::{PATIENCE, exchange, lab, wait_until_attached};

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

/// A server, or what answers as one.
struct Server<'a> {
    namespace: &'a Namespace,
    port: u16,
    process: Option<Process>,
    command: Vec<String>,
    /// What a time is as nanoseconds.
    is_old: bool,
}

impl<'a> Server<'a> {
    fn start(namespace: &'a Namespace, port: u16, command: Vec<String>, is_old: bool) -> Self {
        let mut server = Self {
            namespace,
            port,
            process: None,
            command,
            is_old,
        };
        server.come_back();
        server
    }

    fn come_back(&mut self) {
        let mut command = self.namespace.command(&self.command[0]);
        command
            .args(&self.command[1..])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Process::start(&mut command).unwrap());
        wait_until(PATIENCE, "the server to answer", || {
            self.ask("SELECT 1").trim() == "1"
        })
        .unwrap();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn ask(&self, statement: &str) -> String {
        let mut curl = self.namespace.command("curl");
        let curl = curl.args(["-s", &self.url(), "--data-binary", statement]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    }

    /// The rows of a view, in some order.
    fn rows(&self, view: &str, times: &[&str], columns: &str) -> Vec<String> {
        let time = |name: &&str| {
            if self.is_old {
                format!("{name} AS {name}_ns")
            } else {
                format!("toUnixTimestamp64Nano({name}) AS {name}_ns")
            }
        };
        let all = times.iter().map(time).chain([columns.to_owned()]);
        let all = all.collect::<Vec<_>>().join(", ");
        let answer = self.ask(&format!(
            "SELECT {all} FROM fathom.{view} FORMAT JSONEachRow"
        ));
        let rows = answer.lines().map(|line| {
            let row = serde_json::from_str(line);
            canonical(&row.unwrap_or_else(|_| panic!("{view}: {answer}")))
        });
        sorted(rows.collect())
    }
}

/// With numbers as they are compared: ClickHouse puts those of 64 bits into quotes.
fn canonical(row: &Map<String, Value>) -> String {
    let mut columns: Vec<_> = row
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            let number = match value {
                Value::String(text) => text.parse().ok(),
                value => value.as_f64(),
            };
            match number {
                Some(number) => format!("{name}={number:.9e}"),
                None => format!("{name}={value}"),
            }
        })
        .collect();
    columns.sort();
    columns.join(" ")
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

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

/// Debian's server, as one of two shards.
fn old(folder: &Path, number: u16) -> Vec<String> {
    let folder = folder.join(format!("shard{number}"));
    for name in ["data", "tmp"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let shard = |port| {
        format!("<shard><replica><host>127.0.0.1</host><port>{port}</port></replica></shard>")
    };
    let config = format!(
        "<yandex><logger><level>warning</level><console>1</console></logger>\
         <http_port>{}</http_port><tcp_port>{}</tcp_port><listen_host>127.0.0.1</listen_host>\
         <path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>\
         <users_config>{path}/users.xml</users_config><default_profile>default</default_profile>\
         <default_database>default</default_database><mark_cache_size>5000000</mark_cache_size>\
         <timezone>UTC</timezone>\
         <remote_servers><two>{}{}</two></remote_servers></yandex>",
        8123 + number,
        9000 + number,
        shard(9000),
        shard(9001),
        path = folder.display(),
    );
    let users = "<yandex><profiles><default/></profiles><users><default><password/>\
         <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>\
         </default></users><quotas><default/></quotas></yandex>";
    fs::write(folder.join("config.xml"), config).unwrap();
    fs::write(folder.join("users.xml"), users).unwrap();
    let config = folder.join("config.xml");
    vec![
        "clickhouse-server".to_owned(),
        format!("--config-file={}", config.display()),
    ]
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
        .args(["--clickhouse", url, "-i", Topology::HOST_INTERFACE])
        .stderr(File::create(said).unwrap());
    Process::start(&mut command).unwrap()
}

fn end(mut agent: Process, said: &Path) {
    agent.signal(Signal::SIGTERM).unwrap();
    let status = agent.wait_with_deadline(PATIENCE).unwrap();
    let said = fs::read_to_string(said).unwrap();
    assert!(
        status.success() && said.contains("ClickHouse: ") && said.contains(", 0 lost"),
        "{said}"
    );
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

#[fathom_lab::test]
fn two_shards_answer_as_the_store_does() {
    if installed("clickhouse-server").is_none() {
        return;
    }
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let start = |number| {
        let command = old(folder, number);
        Server::start(&lab.client, 8123 + number, command, true)
    };
    let (mut first, second) = (start(0), start(1));
    let urls = format!("{},{}", first.url(), second.url());
    for _ in 0..2 {
        init(&lab.client, &["--clickhouse", &urls, "--cluster", "two"]);
    }
    // Two hosts, each on a shard.
    let shard = |host: &str| first.ask(&format!("SELECT sipHash64('{host}') % 2"));
    let names: Vec<_> = (0..20).map(|number| format!("host{number}")).collect();
    let other = names
        .iter()
        .find(|name| shard(name) != shard(&names[0]))
        .unwrap();
    let hosts = [names[0].clone(), other.clone()];
    let mut stores = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let (store, said) = (folder.join(host), folder.join(format!("{host}.said")));
        let agent = agent(&lab, host, &store, &first.url(), &said);
        wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
        exchange(&lab);
        if number == 0 {
            first.process = None;
            exchange(&lab);
            let has_said = |what: &str| fs::read_to_string(&said).unwrap().contains(what);
            wait_until(PATIENCE, "the agent to miss it", || {
                has_said("does not take records")
            })
            .unwrap();
            first.come_back();
            wait_until(PATIENCE, "the agent to find it", || {
                has_said("takes records again")
            })
            .unwrap();
        }
        end(agent, &said);
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
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("chdb/server.py");
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
    let agent = agent(&lab, "client", &store, &server.url(), &said);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    exchange(&lab);
    end(agent, &said);
    compare(&server, slice::from_ref(&store));
    networks_have_the_same_names(&server, &store, folder);
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
    let own: Value = serde_json::from_slice(&own.stdout).unwrap();
    let expected = format!("{}\t{}", own["name"].as_str().unwrap(), own["count"]);
    assert_eq!(theirs.trim(), expected);
    assert!(expected.starts_with("lab, b\t"), "{expected}");
}
