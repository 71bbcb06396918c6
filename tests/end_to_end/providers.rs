//! What `fathom compare` says of connections in the lab, whose delays and losses are known.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fathom_lab::traffic::tcp;
use fathom_lab::{Direction, LinkConfig, PacketKind, Process, Rule, Topology, wait_until};
use fathom_tests::{attached_programs, binary};
use nix::sys::signal::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
/// One way on the two links.
const NEAR: Duration = Duration::from_millis(5);
const FAR: Duration = Duration::from_millis(15);
/// No other test's: the stack, and so what is known of its connections, is one for all labs.
const PORT: u16 = 8351;
const CONNECTIONS: usize = 12;
/// Two servers: the router itself, and one behind it.
const SERVERS: [IpAddr; 2] = [Topology::LAN_V4, Topology::SERVER_V4];

fn lab() -> Topology {
    let first_syn_is_lost = Direction {
        rules: vec![Rule::nth(1, PacketKind::Syn).on_port(PORT).drop()],
        ..Direction::delayed(FAR)
    };
    Topology::builder()
        .lan(LinkConfig::symmetric(NEAR))
        .wan(LinkConfig {
            forward: first_syn_is_lost,
            backward: Direction::delayed(FAR),
            seed: 0,
        })
        .build()
        .unwrap()
}

fn compare(store: &Path, arguments: &[&str]) -> Vec<Value> {
    let answer = Command::new(binary().unwrap())
        .args(["compare", "--format", "json", "--since", "10m", "--store"])
        .arg(store)
        .args(arguments)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(answer.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

/// The group of a server, and the comparison.
fn of_server<'a>(rows: &'a [Value], server: &IpAddr) -> Option<&'a Value> {
    let group = match server {
        server if *server == Topology::LAN_V4 => "10.77.1.0/24",
        _ => "10.77.2.0/24",
    };
    let group = format!("{group}, tcp/{PORT}");
    let mut groups = rows.iter().filter(|row| row["kind"] == "group");
    groups.find(|row| row["group"] == group.as_str())
}

#[fathom_lab::test]
fn networks_differ_by_what_the_links_do() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path();
    let mut command = lab.client.command(binary().unwrap().to_str().unwrap());
    command
        .args(["agent", "--interval", "1s", "--host", "client", "--store"])
        .arg(store)
        .arg("--socket")
        .arg(store.with_extension("sock"))
        .stderr(Stdio::inherit());
    let mut agent = Process::start(&mut command).unwrap();
    wait_until(PATIENCE, "the agent to attach its programs", || {
        let attached = attached_programs(&lab.client, Topology::HOST_INTERFACE);
        attached.is_ok_and(|count| count >= 2)
    })
    .unwrap();
    for (namespace, address) in [&lab.router, &lab.server].into_iter().zip(SERVERS) {
        let address = SocketAddr::from((address, PORT));
        let _server = tcp::Server::start(namespace, address).unwrap();
        for _ in 0..CONNECTIONS {
            let requests = tcp::Client {
                requests: 20,
                ..tcp::Client::new(address)
            };
            requests.run(&lab.client).unwrap();
        }
    }
    let by = ["--by", "network,service", "--metric"];
    let asked = |metric| compare(store, &[&by[..], &[metric]].concat());
    // The last connection may not have ended yet.
    wait_until(PATIENCE, "all connections in the store", || {
        let rows = asked("rtt");
        let is_whole =
            |server| of_server(&rows, server).is_some_and(|it| it["sessions"] == CONNECTIONS);
        SERVERS.iter().all(is_whole)
    })
    .unwrap();
    for metric in ["establishment", "rtt"] {
        let rows = asked(metric);
        for (server, one_way) in SERVERS.iter().zip([NEAR, NEAR + FAR]) {
            let median_ns = of_server(&rows, server).unwrap()["median_ns"]
                .as_f64()
                .unwrap();
            let ratio = median_ns / (2 * one_way).as_nanos() as f64;
            assert!((0.95..1.5).contains(&ratio), "{metric}: {rows:#?}");
        }
        let is_own = |row: &&Value| {
            let names = [&row["group"], &row["other_group"]];
            let is_of_port = |name: &Value| {
                name.as_str()
                    .is_some_and(|it| it.ends_with(&PORT.to_string()))
            };
            row["kind"] == "comparison" && names.into_iter().all(is_of_port)
        };
        let comparison = rows.iter().find(is_own).unwrap();
        // Every connection to one server took longer than any to the other.
        assert!(
            comparison["effect"].as_f64().unwrap().abs() > 0.999,
            "{comparison}"
        );
        assert!(
            comparison["corrected_p"].as_f64().unwrap() < 0.01,
            "{comparison}"
        );
    }
    let rows = asked("syn-loss");
    for (server, expected) in SERVERS.iter().zip([0.0, 1.0 / CONNECTIONS as f64]) {
        let share = of_server(&rows, server).unwrap()["share"].as_f64().unwrap();
        assert!((share - expected).abs() < 1e-9, "{rows:#?}");
    }
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
}
