//! Interfaces that go, signals, and several measurements at a time: nothing crashes, nothing stays
//! behind.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use fathom_lab::traffic::tools;
use fathom_lab::{Namespace, Topology, wait_until};
use fathom_tests::{EVERY_PACKET, Fathom, attached_programs, has_tcx};
use nix::sys::signal::Signal;

const PATIENCE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(10);

/// A lab without delays.
fn lab() -> Topology {
    Topology::builder().build().unwrap()
}

fn ping(lab: &Topology, count: u32) {
    tools::ping(&lab.client, Topology::SERVER_V4, count, INTERVAL).unwrap();
}

/// Waits until `fathom` has printed so many echo samples of `interface`.
fn wait_for_samples(fathom: &Fathom, interface: &str, count: usize) {
    wait_until(PATIENCE, "samples", || {
        let samples = fathom.samples();
        let here = samples
            .iter()
            .filter(|sample| sample.interface == interface);
        here.count() >= count
    })
    .unwrap();
}

#[fathom_lab::test]
fn a_gone_interface_is_told_and_the_rest_goes_on() {
    let lab = lab();
    let both = [Topology::LAN_INTERFACE, Topology::WAN_INTERFACE];
    let mut fathom = Fathom::start(&lab.router, &both, &EVERY_PACKET).unwrap();
    ping(&lab, 5);
    wait_for_samples(&fathom, "lan0", 5);
    wait_for_samples(&fathom, "wan0", 5);
    let said = fathom.errors().len();
    lab.router.run("ip link delete lan0").unwrap();
    wait_until(PATIENCE, "a message about lan0", || {
        fathom.errors()[said..].contains("lan0")
    })
    .unwrap();
    tools::ping(&lab.router, Topology::SERVER_V4, 5, INTERVAL).unwrap();
    wait_for_samples(&fathom, "wan0", 10);
    assert!(
        fathom.process().status().unwrap().is_none(),
        "it ended: {}",
        fathom.errors()
    );
    let finished = fathom.finish().unwrap();
    println!("{}", finished.errors);
}

const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 76, 0, 2));

/// Joins two namespaces by a link that is `w0` at the near end.
fn join(near: &Namespace, far: &Namespace) {
    near.connect("w0", far, "e0").unwrap();
    near.add_address("w0", "10.76.0.1/24").unwrap();
    far.add_address("e0", &format!("{FAR}/24")).unwrap();
}

fn wait_for_message(fathom: &Fathom, message: &str) {
    let waited = wait_until(PATIENCE, message, || fathom.errors().contains(message));
    assert!(waited.is_ok(), "{message}: {}", fathom.errors());
}

#[fathom_lab::test]
fn an_interface_that_comes_back_is_measured_again() {
    let [near, far] = ["near", "far"].map(|name| Namespace::new(name).unwrap());
    join(&near, &far);
    let mut fathom = Fathom::start(&near, &["w0"], &EVERY_PACKET).unwrap();
    tools::ping(&near, FAR, 5, INTERVAL).unwrap();
    wait_for_samples(&fathom, "w0", 5);
    near.run("ip link delete w0").unwrap();
    wait_for_message(&fathom, "w0 has disappeared: it is waited for");
    let status = fathom.process().status().unwrap();
    assert!(status.is_none(), "it ended: {}", fathom.errors());
    join(&near, &far);
    wait_for_message(&fathom, "w0 is back");
    tools::ping(&near, FAR, 5, INTERVAL).unwrap();
    wait_for_samples(&fathom, "w0", 10);
    let finished = fathom.finish().unwrap();
    assert_eq!(finished.samples().len(), 10, "{}", finished.errors);
}

#[fathom_lab::test]
fn patterns_and_any_measure_interfaces_that_come() {
    for wanted in ["w*", "any"] {
        let [near, far] = ["near", "far"].map(|name| Namespace::new(name).unwrap());
        let mut options = EVERY_PACKET.to_vec();
        options.extend(["-i", wanted]);
        let fathom = Fathom::start(&near, &[], &options).unwrap();
        let message = "there is no interface like w* yet";
        let attached = || attached_programs(&near, "lo").unwrap();
        wait_until(PATIENCE, "the start", || {
            fathom.errors().contains(message) || attached() == 1
        })
        .unwrap_or_else(|error| panic!("{error}; {} programs: {}", attached(), fathom.errors()));
        join(&near, &far);
        wait_for_message(&fathom, "w0 has come");
        tools::ping(&near, FAR, 5, INTERVAL).unwrap();
        wait_for_samples(&fathom, "w0", 5);
        near.run("ip link delete w0").unwrap();
        wait_for_message(&fathom, "w0 has disappeared");
        let finished = fathom.finish().unwrap();
        assert_eq!(finished.samples().len(), 5, "{}", finished.errors);
    }
}

#[fathom_lab::test]
fn signals_leave_nothing_behind() {
    let lab = lab();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        if signal == Signal::SIGKILL && !has_tcx(&lab.router, "wan0").unwrap() {
            println!(
                "skipped: a killed process can leave filters behind on kernels before 6.6, which have no tcx links"
            );
            continue;
        }
        let both = [Topology::LAN_INTERFACE, Topology::WAN_INTERFACE];
        let fathom = Fathom::start(&lab.router, &both, &EVERY_PACKET).unwrap();
        ping(&lab, 5);
        wait_for_samples(&fathom, "wan0", 5);
        let finished = fathom.end(signal).unwrap();
        assert_eq!(
            finished.status.success(),
            signal != Signal::SIGKILL,
            "{}",
            finished.errors
        );
        for interface in both {
            // The kernel frees the links of a killed process soon after it is gone.
            wait_until(PATIENCE, "the programs to go", || {
                attached_programs(&lab.router, interface).unwrap() == 0
            })
            .unwrap();
        }
        let qdiscs = lab.router.run("tc qdisc show").unwrap();
        assert!(!qdiscs.contains("clsact"), "{qdiscs}");
        ping(&lab, 1);
    }
}

#[fathom_lab::test]
fn two_measure_the_same_interface() {
    let lab = lab();
    let first = Fathom::start(&lab.router, &["wan0"], &EVERY_PACKET).unwrap();
    let second = Fathom::start(&lab.router, &["wan0"], &EVERY_PACKET).unwrap();
    ping(&lab, 10);
    wait_for_samples(&first, "wan0", 10);
    wait_for_samples(&second, "wan0", 10);
    let first = first.finish().unwrap();
    // The one that stays is not touched by the other's end.
    ping(&lab, 5);
    wait_for_samples(&second, "wan0", 15);
    assert_eq!(first.samples().len(), 10);
    assert_eq!(second.finish().unwrap().samples().len(), 15);
}

#[fathom_lab::test]
fn a_missing_interface_is_named_with_those_that_exist() {
    let lab = lab();
    let path = fathom_tests::binary().unwrap();
    let mut command = lab.router.command(path.to_str().unwrap());
    let output = command.args(["rtt", "-i", "wan7"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    for name in ["wan7", "lan0", "wan0"] {
        assert!(errors.contains(name), "{errors}");
    }
}
