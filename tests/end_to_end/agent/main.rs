//! The agent measures the same flows in several ways at once; what it says agrees with the lab, and
//! with itself.
#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod clickhouse;
mod clock;
mod dashboards;
mod metrics;
mod service;
mod store;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use fathom_lab::traffic::tools;
use fathom_lab::{LinkConfig, Namespace, Process, Topology, wait_until};
use fathom_tests::{attached_programs, binary};
use nix::sys::signal::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
/// One way between client and server.
const DELAY: Duration = Duration::from_millis(10);
const REQUESTS: usize = 200;
const BYTES: usize = 500;

fn lab() -> Topology {
    Topology::builder()
        .wan(LinkConfig::symmetric(DELAY))
        .build()
        .unwrap()
}

fn start(namespace: &Namespace, output: &Path, options: &[&str]) -> Process {
    let mut command = namespace.command(binary().unwrap().to_str().unwrap());
    command
        .args(["agent", "--format", "json", "--interval", "1s", "--output"])
        .arg(output)
        .arg("--socket")
        .arg(output.with_extension("sock"))
        .args(options)
        .stderr(Stdio::inherit());
    Process::start(&mut command).unwrap()
}

fn wait_until_attached(namespace: &Namespace, interface: &str) {
    wait_until(PATIENCE, "the agent to attach its programs", || {
        attached_programs(namespace, interface).is_ok_and(|count| count >= 2)
    })
    .unwrap();
}

/// Asks, and asks again when it is answered. Returns the client's port.
fn exchange(lab: &Topology) -> u16 {
    exchange_while(lab, |sent| sent < REQUESTS).0
}

/// The same while it is to go on, which is asked with the number of requests that were answered.
/// Returns the client's port, and that number.
fn exchange_while(lab: &Topology, goes_on: impl Fn(usize) -> bool) -> (u16, usize) {
    let address = SocketAddr::from((Topology::SERVER_V4, 8080));
    let listener = lab.server.enter(|| TcpListener::bind(address)).unwrap();
    let listener = listener.unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut message = [0; BYTES];
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&message).unwrap();
            }
        });
        let stream = lab.client.enter(|| TcpStream::connect(address)).unwrap();
        let mut stream = stream.unwrap();
        let mut message = [7; BYTES];
        let mut answered = 0;
        while goes_on(answered) {
            stream.write_all(&message).unwrap();
            stream.read_exact(&mut message).unwrap();
            answered += 1;
        }
        (stream.local_addr().unwrap().port(), answered)
    })
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// The stack is one for all labs, whose connections may have the same ends. The client's number.
fn namespace_of(lab: &Topology) -> u64 {
    std::fs::metadata(lab.client.path()).unwrap().ino()
}

fn sum(records: &[&Value], field: &str) -> u64 {
    let values = records.iter().map(|record| record[field].as_u64());
    values.map(Option::unwrap_or_default).sum()
}

#[fathom_lab::test]
fn one_flow_is_measured_in_all_ways_at_once() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("records.json");
    // Its interface is that of the default route.
    let mut agent = start(&lab.client, &output, &[]);
    wait_until_attached(&lab.client, Topology::HOST_INTERFACE);
    let port = exchange(&lab);
    // Only the last profile of a connection has totals.
    let own = namespace_of(&lab);
    let is_own = |it: &Value| it["source_port"] == port && it["network_namespace"] == own;
    let is_last = |it: &Value| is_own(it) && !it["total_packets"].is_null();
    wait_until(PATIENCE, "the end of the connection", || {
        let text = std::fs::read_to_string(&output).unwrap();
        // The last line may not be whole yet.
        let mut lines = text.lines().map(serde_json::from_str);
        lines.any(|line| line.is_ok_and(|record| is_last(&record)))
    })
    .unwrap();
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
    assert_eq!(
        attached_programs(&lab.client, Topology::HOST_INTERFACE).unwrap(),
        0
    );

    let records = records(&output);
    let id = records.iter().find(|record| is_last(record)).unwrap()["community_id"].clone();
    let mut of_flow: HashMap<&str, Vec<&Value>> = HashMap::new();
    for record in records.iter().filter(|it| it["community_id"] == id) {
        let kind = record["kind"].as_str().unwrap();
        of_flow.entry(kind).or_default().push(record);
    }
    let of = |kind: &str| &of_flow[kind][..];

    // What the lab did: a round trip is twice its delay, and the server answers at once.
    let round_trip = 2.0 * DELAY.as_nanos() as f64;
    let close = |ns: &Value| (0.9..1.5).contains(&(ns.as_f64().unwrap() / round_trip));
    let away = of("rtt_aggregate").iter();
    let mut away = away.filter(|it| it["destination_port"] == 8080 && !it["rtt_p50_ns"].is_null());
    assert!(close(&away.next().unwrap()["rtt_p50_ns"]), "{of_flow:#?}");
    let answered = of("response_aggregate").iter();
    let mut answered = answered.filter(|it| !it["latency_p50_ns"].is_null());
    assert!(
        close(&answered.next().unwrap()["latency_p50_ns"]),
        "{of_flow:#?}"
    );
    // The stack, and the packets that passed.
    let mut profiles = of("profile").to_vec();
    profiles.retain(|it| is_own(it));
    let sent = (REQUESTS * BYTES) as u64;
    assert_eq!(sum(&profiles, "bytes_acknowledged"), sent, "{of_flow:#?}");
    for field in ["packets", "bytes", "reverse_packets", "reverse_bytes"] {
        let told = sum(&profiles, &format!("total_{field}"));
        assert_eq!(sum(of("traffic"), field), told, "{field}: {of_flow:#?}");
    }
}

#[fathom_lab::test]
fn options_of_a_measurement_are_those_of_its_table() {
    let lab = lab();
    let directory = tempfile::tempdir().unwrap();
    let (output, config) = (
        directory.path().join("records.json"),
        directory.path().join("fathom.toml"),
    );
    std::fs::write(
        &config,
        "[agent]\nmeasure = [\"rtt\"]\n[rtt]\nmethod = \"handshake\"\n",
    )
    .unwrap();
    let options = ["--config", config.to_str().unwrap(), "-i", "lan0,wan0"];
    let mut agent = start(&lab.router, &output, &options);
    wait_until_attached(&lab.router, Topology::WAN_INTERFACE);
    exchange(&lab);
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
    let records = records(&output);
    let rtt: Vec<_> = records
        .iter()
        .filter(|it| it["kind"] == "rtt_aggregate")
        .collect();
    // One handshake has two halves, each seen at two interfaces.
    assert_eq!(sum(&rtt, "rtt_samples"), 4, "{rtt:#?}");
    assert!(records.iter().all(|it| it["kind"] != "traffic"));
}

#[fathom_lab::test]
fn an_interface_that_comes_and_goes_is_measured_each_time() {
    const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 76, 0, 2));
    let [near, far] = ["near", "far"].map(|name| Namespace::new(name).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("records.json");
    let options = ["--measure", "rtt,traffic", "-i", "w*"];
    let mut agent = start(&near, &output, &options);
    for _ in 0..3 {
        near.connect("w0", &far, "e0").unwrap();
        near.add_address("w0", "10.76.0.1/24").unwrap();
        far.add_address("e0", &format!("{FAR}/24")).unwrap();
        wait_until_attached(&near, "w0");
        tools::ping(&near, FAR, 5, Duration::from_millis(10)).unwrap();
        near.run("ip link delete w0").unwrap();
    }
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());
    let records = records(&output);
    let of = |kind: &str| -> Vec<_> {
        let of_kind = records.iter().filter(|it| it["kind"] == kind);
        of_kind.filter(|it| it["interface"] == "w0").collect()
    };
    assert_eq!(sum(&of("rtt_aggregate"), "rtt_samples"), 15, "{records:#?}");
    for field in ["packets", "reverse_packets"] {
        assert_eq!(sum(&of("traffic"), field), 15, "{field}: {records:#?}");
    }
}

#[fathom_lab::test]
fn what_cannot_be_measured_is_an_error_that_says_what_to_do() {
    let lonely = Namespace::new("lonely").unwrap();
    let told = |options: &[&str]| {
        let mut command = lonely.command(binary().unwrap().to_str().unwrap());
        let output = command.arg("agent").args(options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(told(&[]).contains("no default route: name an interface with -i"));
    assert!(told(&["-i", "eth7"]).contains("eth7"));
    assert!(told(&["-i", "lo", "--measure", "weather"]).contains("possible values"));
}
