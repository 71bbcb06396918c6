//! Interfaces that go, signals, commands, silence: what was begun ends, and leaves nothing behind.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use fathom_lab::{Chain, Family, Namespace, Process, Tap, wait_until};
use fathom_record::Time;
use fathom_tests::{EVERY_PACKET, Fathom, attached_programs, binary};
use nix::sys::signal::Signal;

use crate::stage::{
    Application, MILLISECOND, PATIENCE, SECOND, beside_others, chain, wait_for_answers,
};

const INTERFACE: &str = Chain::HOST_INTERFACE;
const FAST: [&str; 2] = ["--rate", "20"];

fn attached(chain: &Chain) -> usize {
    attached_programs(&chain.client, INTERFACE).unwrap()
}

#[fathom_lab::test]
fn signals_leave_nothing_behind_and_others_alone() {
    let _turn = beside_others();
    let chain = chain(2, |_| MILLISECOND).build().unwrap();
    let other = Fathom::start(&chain.client, &[INTERFACE], &EVERY_PACKET).unwrap();
    let with_other = attached(&chain);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let fathom = Fathom::hops(&chain.client, INTERFACE, &FAST).unwrap();
        assert_eq!(attached(&chain), with_other + 2);
        let flow = Application::tcp(&chain, Family::V4, 100);
        wait_for_answers(&fathom, 10, |probe| probe.flow.source_port == flow.port);
        let finished = fathom.end(signal).unwrap();
        let is_killed = signal == Signal::SIGKILL;
        assert_eq!(finished.status.success(), !is_killed, "{}", finished.errors);
        wait_until(PATIENCE, "the programs to go", || {
            attached(&chain) == with_other
        })
        .unwrap();
    }
    let seen = other.samples().len();
    let _flow = Application::tcp(&chain, Family::V4, 100);
    wait_until(PATIENCE, "the other one to measure", || {
        other.samples().len() > seen
    })
    .unwrap();
    // What came later is not touched by the end of what came first.
    let last = Fathom::hops(&chain.client, INTERFACE, &FAST).unwrap();
    other.finish().unwrap();
    let flow = Application::tcp(&chain, Family::V4, 100);
    wait_for_answers(&last, 10, |probe| probe.flow.source_port == flow.port);
    last.finish().unwrap();
    assert_eq!(attached(&chain), 0);
}

/// Joins two namespaces by a link that is `w0` at the near end.
fn join(near: &Namespace, far: &Namespace) {
    near.connect("w0", far, "e0").unwrap();
    near.add_address("w0", "10.76.0.1/24").unwrap();
    far.add_address("e0", "10.76.0.2/24").unwrap();
}

/// The connection lives on, since its packets are sent again.
#[fathom_lab::test]
fn a_flow_is_probed_again_when_its_interface_is_back() {
    let _turn = beside_others();
    let [near, far] = ["near", "far"].map(|name| Namespace::new(name).unwrap());
    join(&near, &far);
    let fathom = Fathom::hops(&near, "w0", &["--rate", "20", "--timeout", "100ms"]).unwrap();
    let listener = far
        .enter(|| TcpListener::bind("10.76.0.2:7000"))
        .unwrap()
        .unwrap();
    let stream = near.enter(|| TcpStream::connect("10.76.0.2:7000")).unwrap();
    let mut stream = stream.unwrap();
    let (_accepted, _) = listener.accept().unwrap();
    let mut talk_until = |what: &str, is_so: &dyn Fn() -> bool| {
        let waited = wait_until(PATIENCE, what, || {
            stream.write_all(b"x").unwrap();
            is_so()
        });
        assert!(waited.is_ok(), "{what}: {}", fathom.errors());
    };
    talk_until("probes", &|| !fathom.probes().is_empty());
    near.run("ip link delete w0").unwrap();
    talk_until("a message", &|| {
        fathom
            .errors()
            .contains("w0 has disappeared: it is waited for")
    });
    join(&near, &far);
    talk_until("a message", &|| fathom.errors().contains("w0 is back"));
    let back = Time::now().0;
    talk_until("probes", &|| {
        let probes = fathom.probes();
        probes.iter().any(|probe| probe.time_ns > back)
    });
    fathom.finish().unwrap();
}

#[fathom_lab::test]
fn a_reader_that_goes_away_ends_it_well() {
    let _turn = beside_others();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let _flow = Application::tcp(&chain, Family::V4, 100);
    let (reader, writer) = std::io::pipe().unwrap();
    let path = binary().unwrap();
    let mut command = chain.client.command(path.to_str().unwrap());
    command
        .args(["hops", "-i", INTERFACE, "--interval", "50ms"])
        .stdout(writer)
        .stderr(Stdio::null());
    let mut process = Process::start(&mut command).unwrap();
    drop(command);
    wait_until(PATIENCE, "the programs", || attached(&chain) == 2).unwrap();
    drop(reader);
    assert!(process.wait_with_deadline(PATIENCE).unwrap().success());
}

#[fathom_lab::test]
fn a_silent_flow_is_probed_for_a_while_and_a_closed_one_is_not() {
    let _turn = beside_others();
    let chain = chain(2, |_| MILLISECOND).build().unwrap();
    let options = ["--rate", "20", "--idle", "3s", "--timeout", "500ms"];
    let fathom = Fathom::hops(&chain.client, INTERFACE, &options).unwrap();
    for family in Family::BOTH {
        let silent = Application::tcp(&chain, family, 100);
        let closed = Application::tcp(&chain, family, 100);
        for flow in [&silent, &closed] {
            wait_for_answers(&fathom, 10, |probe| probe.flow.source_port == flow.port);
        }
        silent.talk(false);
        let port = closed.port;
        drop(closed);
        wait_for_answers(&fathom, 20, |probe| {
            probe.is_idle && probe.flow.source_port == silent.port
        });
        let idle_probes = |port: u16| {
            let probes = fathom.probes();
            let idle = probes
                .into_iter()
                .filter(|probe| probe.flow.source_port == port && probe.is_idle);
            idle.collect::<Vec<_>>()
        };
        let mut count = 0;
        let mut since = std::time::Instant::now();
        wait_until(PATIENCE, "the end of probing", || {
            let now = idle_probes(silent.port).len();
            if now != count {
                count = now;
                since = std::time::Instant::now();
            }
            since.elapsed() > SECOND
        })
        .unwrap();
        let probes = idle_probes(silent.port);
        let times = probes.iter().map(|probe| probe.time_ns);
        let lasted_ns = times.clone().max().unwrap() - times.min().unwrap();
        println!(
            "{family:?}: {count} probes over {} ms",
            lasted_ns / 1_000_000
        );
        assert!((2_000_000_000..=3_500_000_000).contains(&lasted_ns));
        assert_eq!(idle_probes(port).len(), 0, "a closed flow was probed");
    }
    fathom.finish().unwrap();
}

#[fathom_lab::test]
fn a_command_is_run_and_its_flows_alone_are_probed() {
    let _turn = beside_others();
    let chain = chain(2, |_| 5 * MILLISECOND).build().unwrap();
    let other = Application::tcp(&chain, Family::V4, 100);
    let server = chain.server_address(Family::V4).to_string();
    let script = format!("ping -i 0.05 -c 20 {server}; exit 3");
    let options = ["--rate", "20", "--", "sh", "-c", &script];
    let fathom = Fathom::hops(&chain.client, INTERFACE, &options).unwrap();
    let finished = fathom.join().unwrap();
    assert!(finished.status.success(), "{}", finished.errors);
    // What it prints is not lost, and its status is told.
    assert!(finished.errors.contains("20 packets transmitted"));
    assert!(
        finished.errors.contains("exit status: 3"),
        "{}",
        finished.errors
    );
    let probes = finished.probes();
    assert!(probes.len() >= 10, "{}", finished.errors);
    assert!(probes.iter().all(|probe| probe.flow.protocol == 1));
    drop(other);
}

#[fathom_lab::test]
fn answers_are_kept_from_the_host_unless_asked_for() {
    let _turn = beside_others();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let received = || {
        let text = chain
            .client
            .run("nstat --zeros --noupdate --reset --json")
            .unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let count = |name: &str| report["kernel"][name].as_i64().unwrap_or_default();
        count("IcmpInTimeExcds") + count("Icmp6InTimeExcds")
    };
    for is_kept in [false, true] {
        let before = received();
        let mut options = FAST.to_vec();
        options.extend(is_kept.then_some("--keep-icmp"));
        let tap = Tap::start(&chain.client, INTERFACE).unwrap();
        let fathom = Fathom::hops(&chain.client, INTERFACE, &options).unwrap();
        for family in Family::BOTH {
            let flow = Application::tcp(&chain, family, 100);
            wait_for_answers(&fathom, 20, |probe| probe.flow.source_port == flow.port);
        }
        fathom.finish().unwrap();
        let came = tap.finish().unwrap();
        let came = came
            .iter()
            .filter(|packet| !packet.is_outgoing && matches!(packet.header.protocol, 1 | 58))
            .count();
        let count = received() - before;
        println!("{came} answers came, {count} reached the stack");
        assert_eq!(count >= 40, is_kept);
        assert!(is_kept || count == 0);
    }
}
