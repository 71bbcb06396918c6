//! `fathom doctor`: what it finds, what it advises, its status, and what it costs.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::run::{command, fathom, outcome};

fn checks() -> (i32, Vec<serde_json::Value>) {
    let outcome = fathom(&["doctor", "--format", "json"]);
    let lines = outcome.stdout.lines();
    let checks = lines.map(|line| serde_json::from_str(line).unwrap());
    (outcome.status, checks.collect())
}

#[test]
fn what_is_not_ok_has_a_remedy_and_what_does_not_work_is_the_status() {
    let (status, checks) = checks();
    for check in &checks {
        assert_eq!(check["kind"], "check");
        assert_eq!(
            check["verdict"] == "ok",
            check["remedy"].is_null(),
            "{check}"
        );
    }
    let is_no = |check: &serde_json::Value| check["verdict"] == "no";
    assert_eq!(status, i32::from(checks.iter().any(is_no)));
    let files = checks
        .iter()
        .find(|check| check["subject"] == "capture files");
    assert_eq!(files.unwrap()["verdict"], "ok");
}

/// The command without any privilege, whoever runs the tests.
fn without_privileges(command: &Command) -> Command {
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut unprivileged = Command::new(if is_root { "setpriv" } else { "env" });
    if is_root {
        unprivileged.args(["--bounding-set=-all", "--inh-caps=-all"]);
    }
    unprivileged
        .arg(command.get_program())
        .args(command.get_args());
    unprivileged
}

#[test]
fn a_machine_where_nothing_live_works_has_status_1_and_is_told_what_to_do() {
    let outcome = outcome(&mut without_privileges(&command(&["doctor"])));
    assert_eq!(outcome.status, 1, "{}", outcome.stdout);
    let told = "Nothing can be measured live; capture files can be: fathom rtt FILE\nNext: run as root, or: setcap";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
}

/// The processor time of a run, in ticks, and its status.
fn spent(arguments: &[&str]) -> (u32, Option<i32>) {
    let mut command = command(arguments);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let id = Id::Pid(Pid::from_raw(child.id().cast_signed()));
    waitid(id, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    let statistics = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // The fields after the name: user and system time are the 14th and 15th of all.
    let (_, fields) = statistics.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<u32>().unwrap()).sum();
    (ticks, child.wait().unwrap().code())
}

/// Nearly all of its time is that of the kernel's verifier: it is held against a measurement that
/// begins and ends.
#[test]
fn it_costs_little_more_than_beginning_to_measure() {
    let (measuring, status) = spent(&["rtt", "-i", "lo", "--duration", "1ms"]);
    if status != Some(0) {
        println!("skipped: no privileges");
        return;
    }
    let (examining, _) = spent(&["doctor"]);
    println!("doctor {examining} ticks, rtt {measuring}");
    // It loads what six commands attach, two programs of most.
    assert!(examining < measuring * 12, "{examining}, {measuring}");
}
