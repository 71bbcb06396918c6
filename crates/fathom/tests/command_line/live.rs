//! Interfaces in, records out. What needs privileges says so when they are missing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::run::{Running, command, fathom};

#[test]
fn an_interface_that_does_not_exist_is_told_with_those_that_do() {
    let outcome = fathom(&["rtt", "-i", "nowhere0"]);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome
            .stderr
            .contains("there is no interface \"nowhere0\": those here are "),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("lo"), "{}", outcome.stderr);
}

/// Starts on the interface; `None`, having said why, where that is not allowed.
fn started(command: &mut Command, interface: &str) -> Option<Running> {
    is_started(Running::start(command), interface)
}

/// Waits until it measures on the interface, as [`started`].
fn is_started(mut running: Running, interface: &str) -> Option<Running> {
    let line = running.line();
    if line.starts_with(&format!("{interface}: ")) {
        return Some(running);
    }
    let (_, rest) = running.end();
    assert!(
        line.contains("CAP_BPF") || line.contains("permitted"),
        "{line}{rest}"
    );
    println!("skipped: {}", line.trim_end());
    None
}

/// A byte there and back again.
struct PingPong(TcpStream, TcpStream);

impl PingPong {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self(client, server)
    }

    fn once(&mut self) {
        self.0.write_all(b"1").unwrap();
        self.1.read_exact(&mut [0]).unwrap();
        self.1.write_all(b"2").unwrap();
        self.0.read_exact(&mut [0]).unwrap();
    }
}

/// Tries until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::yield_now();
    }
}

fn holds_a_sample(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains("127.0.0.1"))
}

#[test]
fn samples_are_written_until_sigterm_and_the_file_is_opened_anew_at_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let (file, moved) = (
        directory.path().join("samples"),
        directory.path().join("samples.1"),
    );
    let options = [
        "rtt",
        "-i",
        "lo",
        "-v",
        "--near-side",
        "--sample-interval",
        "0",
        "--format",
        "csv",
    ];
    let mut command = command(&options);
    let Some(running) = started(command.arg("--output").arg(&file), "lo") else {
        return;
    };
    let mut traffic = PingPong::new();
    until("a sample", || {
        traffic.once();
        holds_a_sample(&file)
    });
    std::fs::rename(&file, &moved).unwrap();
    running.signal(Signal::SIGHUP);
    until("a sample in the new file", || {
        traffic.once();
        holds_a_sample(&file)
    });
    running.signal(Signal::SIGTERM);
    let (status, said) = running.end();
    assert_eq!(status, 0, "{said}");
    assert!(said.contains(" samples in "), "{said}");
    for file in [&file, &moved] {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.starts_with("kind,host,time,"), "{text}");
        assert!(text.ends_with('\n'));
    }
}

#[test]
fn aggregates_and_counts_are_written_at_every_interval() {
    let options = [
        "rtt",
        "-i",
        "lo",
        "-v",
        "--near-side",
        "--sample-interval",
        "0",
        "--format",
        "json",
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("aggregates");
    let mut command = command(&options);
    command
        .args(["--interval", "100ms", "--by", "interface", "--output"])
        .arg(&file);
    let Some(running) = started(&mut command, "lo") else {
        return;
    };
    let mut traffic = PingPong::new();
    until("two intervals", || {
        traffic.once();
        std::fs::read_to_string(&file).is_ok_and(|text| text.matches("rtt_aggregate").count() >= 2)
    });
    running.signal(Signal::SIGINT);
    assert_eq!(running.end().0, 0);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        !text.contains("\"kind\":\"rtt\""),
        "single samples are not printed"
    );
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            record["kind"] == "rtt_aggregate" || record["kind"] == "count",
            "{line}"
        );
    }
}

/// Runs it in a network namespace of its own after this command.
fn alone(first: &str, arguments: &str) -> Running {
    let program = env!("CARGO_BIN_EXE_fathom");
    let script = format!("{first} && exec {program} {arguments}");
    let mut namespace = Command::new("unshare");
    Running::start(namespace.args(["--net", "sh", "-c", &script]))
}

/// Runs `ip` where it runs.
fn ip(running: &Running, arguments: &str) {
    let process = running.id().to_string();
    let mut command = Command::new("nsenter");
    command.args(["-t", &process, "-n", "ip"]);
    let status = command.args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

#[test]
fn an_interface_that_goes_is_waited_for() {
    const PAIR: &str = "link add fa0 type veth peer name fa1";
    for command in ["rtt", "response", "traffic", "hops"] {
        let running = alone(&format!("ip {PAIR}"), &format!("{command} -v -i fa0"));
        let Some(mut running) = is_started(running, "fa0") else {
            return;
        };
        ip(&running, "link del fa0");
        let told = "fathom: fa0 has disappeared: it is waited for\n";
        assert_eq!(running.line(), told, "{command}");
        ip(&running, PAIR);
        assert_eq!(running.line(), "fathom: fa0 is back\n", "{command}");
        ip(&running, "link set fa0 name fa2");
        assert_eq!(running.line(), told, "{command}");
        running.signal(Signal::SIGINT);
        let (status, said) = running.end();
        assert_eq!(status, 0, "{command}: {said}");
    }
}

#[test]
fn patterns_take_interfaces_that_come() {
    for (wanted, come) in [("fb*", &["fb0"][..]), ("any", &["fb0", "other0"])] {
        let running = alone("true", &format!("rtt -v -i lo -i '{wanted}'"));
        let Some(mut running) = is_started(running, "lo") else {
            return;
        };
        if wanted == "fb*" {
            let told = "fathom: there is no interface like fb* yet: those that come are taken\n";
            assert_eq!(running.line(), told);
        }
        ip(&running, "link add fb0 type veth peer name other0");
        let mut told: Vec<_> = come.iter().map(|_| running.line()).collect();
        told.sort();
        let wanted = come.iter().map(|name| format!("fathom: {name} has come\n"));
        assert_eq!(told, wanted.collect::<Vec<_>>());
        running.signal(Signal::SIGINT);
        let (status, said) = running.end();
        assert_eq!(status, 0, "{said}");
    }
}

#[test]
fn the_same_interface_twice_is_taken_once() {
    for command_name in ["rtt", "response", "traffic", "hops"] {
        let options = [
            command_name,
            "-v",
            "-i",
            "lo",
            "-i",
            "lo",
            "-i",
            "l?",
            "--duration",
            "200ms",
        ];
        let Some(running) = started(&mut command(&options), "lo") else {
            return;
        };
        let (status, said) = running.end();
        assert_eq!(status, 0, "{command_name}: {said}");
        let told = "fathom: lo was named more than once: it is taken once\n";
        assert!(said.contains(told), "{command_name}: {said}");
        assert!(!said.contains("\nlo: "), "{command_name}: {said}");
    }
}

#[test]
fn memory_that_is_not_there_is_told() {
    let outcome = fathom(&[
        "rtt",
        "-i",
        "lo",
        "--flows",
        "67108864",
        "--duration",
        "1ms",
    ]);
    if outcome.stderr.contains("CAP_BPF") {
        println!("skipped: {}", outcome.stderr.trim_end());
        return;
    }
    // 40 GB may be there.
    if outcome.status != 0 {
        assert_eq!(outcome.status, 1);
        assert!(outcome.stderr.contains("(--flows)"), "{}", outcome.stderr);
    }
}

#[test]
fn hops_of_an_interface_named_in_a_file_and_twice() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fathom.toml");
    std::fs::write(&file, "[hops]\ninterface = [\"lo\", \"lo\"]\n").unwrap();
    let options = ["hops", "-v", "--duration", "200ms", "--config"];
    let Some(running) = started(command(&options).arg(&file), "lo") else {
        return;
    };
    let (status, said) = running.end();
    assert_eq!(status, 0, "{said}");
    assert!(!said.contains("lo: "), "{said}");
}

#[test]
fn a_command_that_cannot_be_run_is_named() {
    let outcome = fathom(&["hops", "-i", "lo", "--", "no-such-program"]);
    assert_eq!(outcome.status, 1);
    if outcome.stderr.contains("CAP_BPF") {
        println!("skipped: {}", outcome.stderr.trim_end());
        return;
    }
    let told = "cannot run no-such-program";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
}

#[test]
fn a_measurement_ends_after_its_duration() {
    let Some(running) = started(
        &mut command(&["rtt", "-i", "lo", "-v", "--duration", "200ms"]),
        "lo",
    ) else {
        return;
    };
    assert_eq!(running.end().0, 0);
}
