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
    let mut running = Running::start(command);
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
        assert!(text.starts_with("kind,time,"), "{text}");
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

#[test]
fn an_interface_that_disappears_ends_its_part_with_a_message() {
    let program = env!("CARGO_BIN_EXE_fathom");
    let script = format!("ip link add fa0 type veth peer name fa1 && exec {program} rtt -v -i fa0");
    let mut namespace = Command::new("unshare");
    namespace.args(["--net", "sh", "-c", &script]);
    let mut running = Running::start(&mut namespace);
    let line = running.line();
    if !line.starts_with("fa0: ") {
        println!("skipped: {}", line.trim_end());
        return;
    }
    let process = running.id().to_string();
    let removed = Command::new("nsenter")
        .args(["-t", &process, "-n", "ip", "link", "del", "fa0"])
        .status();
    assert!(removed.unwrap().success());
    let (status, said) = running.end();
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("fa0 has disappeared"), "{said}");
    assert!(said.contains(" frames, 0 samples in "), "{said}");
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
