//! A flood of exchanges while the agent reads its configuration again, and while samples are
//! captured: none is lost.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use etherparse::PacketBuilder;
use fathom_lab::traffic::flood::Flood;
use fathom_lab::{Namespace, Process, wait_until};
use fathom_tests::{attached_programs, binary};
use nix::sys::signal::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const INTERFACE: &str = "eth0";
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
/// Each query is followed by its answer: 40,000 samples a second, of which the ring has room for
/// what comes in a fifth of a second.
const FLOOD: Flood = Flood {
    destination: SERVER,
    packets: 4_000_000,
    burst: 800,
    pause: Duration::from_millis(10),
};
/// Clients. Each asks ten times a second, so that few ask twice while what was measured before and
/// what is measured from now on both run.
const CLIENTS: u32 = 4_000;

fn client(number: u32) -> [u8; 4] {
    let [.., third, fourth] = number.to_be_bytes();
    [10, 78, third, fourth]
}

/// A query or its answer. It does not matter that both leave by the same interface.
fn packet(number: u32) -> Vec<u8> {
    let (exchange, is_answer) = (number / 2, number % 2 == 1);
    let client = client(exchange % CLIENTS);
    let mut message = vec![0; 12];
    message[..2].copy_from_slice(&((exchange / CLIENTS) as u16).to_be_bytes());
    message[2] = if is_answer { 0x81 } else { 1 };
    message[5] = 1;
    message.extend_from_slice(b"\x04name\x04test\x00\x00\x01\x00\x01");
    let (from, to) = if is_answer {
        ((SERVER.octets(), 53), (client, 5_353))
    } else {
        ((client, 5_353), (SERVER.octets(), 53))
    };
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(from.0, to.0, 64).udp(from.1, to.1);
    builder.write(&mut packet, &message).unwrap();
    packet
}

fn start(host: &Namespace, directory: &Path) -> Process {
    let mut command = host.command(binary().unwrap().to_str().unwrap());
    command
        .current_dir(directory)
        .args(["--config", "fathom.toml", "agent", "--socket", "socket"])
        .args(["--format", "json", "--output", "records.json"])
        .stderr(Stdio::inherit());
    let agent = Process::start(&mut command).unwrap();
    wait_until(PATIENCE, "the agent to attach its programs", || {
        attached_programs(host, INTERFACE).is_ok_and(|count| count >= 2)
    })
    .unwrap();
    agent
}

fn configure(directory: &Path, measured: &str) {
    let configuration = format!(
        "[agent]\ninterface = [\"{INTERFACE}\"]\nmeasure = [{measured}]\ninterval = \"2s\"\n"
    );
    std::fs::write(directory.join("fathom.toml"), configuration).unwrap();
}

fn ask(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(binary().unwrap());
    let command = command
        .args(["agent", "--socket"])
        .arg(directory.join("socket"));
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn records(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// Counts of what was lost.
fn losses<'a>(records: impl Iterator<Item = &'a Value>) -> Vec<&'a Value> {
    let counts = records.filter(|it| it["kind"] == "count");
    let lost = counts.filter(|it| it["name"].as_str().unwrap().contains("lost"));
    lost.filter(|it| it["count"] != 0).collect()
}

#[fathom_lab::test]
fn what_passes_while_an_agent_begins_anew_is_measured() {
    let host = Namespace::new("host").unwrap();
    let server = Namespace::new("server").unwrap();
    host.connect(INTERFACE, &server, INTERFACE).unwrap();
    host.add_address(INTERFACE, "10.77.1.1/24").unwrap();
    server
        .add_address(INTERFACE, &format!("{SERVER}/24"))
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    configure(directory, "\"rtt\", \"traffic\", \"profile\"");
    let mut agent = start(&host, directory);

    let flood = FLOOD.start(&host, packet).unwrap();
    configure(directory, "\"rtt\", \"traffic\"");
    ask(directory, &["reload"]);
    configure(directory, "\"rtt\", \"response\"");
    ask(directory, &["reload"]);
    let network = ["capture", "10.99.0.0/16", "--duration", "100ms"];
    ask(directory, &network);
    assert!(!flood.is_finished(), "it took {:?}", FLOOD.duration());
    let exchanges = flood.finish() / 2;
    agent.signal(Signal::SIGTERM).unwrap();
    assert!(agent.wait_with_deadline(PATIENCE).unwrap().success());

    let text = std::fs::read_to_string(directory.join("records.json")).unwrap();
    let records: Vec<_> = records(&text).collect();
    let lost = losses(records.iter());
    assert!(lost.is_empty(), "{lost:#?}");
    let mut samples = HashMap::<_, u64>::new();
    for record in records.iter().filter(|it| it["kind"] == "rtt_aggregate") {
        let count = record["rtt_samples"].as_u64().unwrap_or_default();
        *samples
            .entry(record["source"].as_str().unwrap())
            .or_default() += count;
    }
    let (mut missing, mut twice) = (0, 0);
    for number in 0..CLIENTS {
        let asked = u64::from((exchanges + CLIENTS - 1 - number) / CLIENTS);
        let client = Ipv4Addr::from(client(number)).to_string();
        let answered = samples.get(client.as_str()).copied().unwrap_or_default();
        missing += asked.saturating_sub(answered);
        twice += answered.saturating_sub(asked);
    }
    println!("{exchanges} exchanges: {missing} missing, {twice} measured twice");
    assert_eq!(missing, 0);
    // Two reloads: what is measured twice must not be so much that it hides what is not measured.
    assert!(twice < 2 * u64::from(CLIENTS), "{twice}");
}
