//! A lab does not outlive its process, not even one that is killed.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use fathom_lab::{Namespace, Process, Topology, wait_until};

/// Set in the process that is killed.
const HOLDER: &str = "FATHOM_LAB_TEST_HOLDER";

/// Builds a lab with a process and a veth pair into the namespace it was started in, says so, and
/// waits for its end.
fn hold() -> ! {
    let lab = Topology::builder().build().unwrap();
    let outside = format!("/proc/{}/ns/net", std::process::id());
    lab.server
        .run(&format!(
            "ip link add inside0 type veth peer name outside0 netns {outside}"
        ))
        .unwrap();
    let process = Process::start(lab.server.command("sleep").arg("120")).unwrap();
    println!("holding {}", process.id());
    loop {
        std::thread::park();
    }
}

/// Whether a process is there, a zombie that nobody has collected yet not counted.
fn is_running(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

#[fathom_lab::test]
fn killed_lab_leaves_nothing() {
    if std::env::var_os(HOLDER).is_some() {
        hold();
    }
    let outside = Namespace::new("outside").unwrap();
    let mut holder = outside
        .command(std::env::current_exe().unwrap().to_str().unwrap())
        .args(["--exact", "killed_lab_leaves_nothing", "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let child: u32 = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("holding ")?.1.parse().ok())
        .unwrap();
    assert!(is_running(child));
    outside.run("ip link show outside0").unwrap();

    holder.kill().unwrap();
    holder.wait().unwrap();
    let patience = Duration::from_secs(10);
    wait_until(patience, "the process in the lab to end", || {
        !is_running(child)
    })
    .unwrap();
    // The pair goes when the namespace of its other end does.
    wait_until(patience, "the namespace of the lab to go", || {
        outside.run("ip link show outside0").is_err()
    })
    .unwrap();
}
