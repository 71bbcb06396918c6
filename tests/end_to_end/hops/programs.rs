//! Functions of users in probes and answers, and probes as long as packets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_lab::{Chain, Family, Passed, Tap};
use fathom_tests::{Fathom, Probe, ProbeOutcome};
use tempfile::TempDir;

use crate::harm::{assert_unharmed, counters};
use crate::stage::{Application, MILLISECOND, alone, beside_others, chain, wait_for_answers};

const ROUTERS: usize = 3;
const INTERFACE: &str = Chain::HOST_INTERFACE;
const PLAIN: &str = "probes sent plain: no router known at their TTL, or no packet at hand";

/// The objects that were compiled with the tests, in a folder.
struct Programs(TempDir);

impl Programs {
    fn write() -> Self {
        let folder = TempDir::new().unwrap();
        for (name, bytes) in [
            (
                "mark",
                &include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"))[..],
            ),
            (
                "unasked",
                include_bytes!(concat!(env!("OUT_DIR"), "/unasked.bpf.o")),
            ),
            (
                "farther",
                include_bytes!(concat!(env!("OUT_DIR"), "/farther.bpf.o")),
            ),
            ("text", b"int fathom_edit;"),
        ] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().unwrap().to_owned()
    }
}

#[fathom_lab::test]
fn the_documented_example_marks_probes_and_reads_what_routers_saw() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| MILLISECOND).build().unwrap();
    let programs = Programs::write();
    let mark = programs.path("mark");
    let options = [
        ["--rate", "20"],
        ["--idle", "1h"],
        ["--probe-program", &mark],
        ["--reply-program", &mark],
    ];
    let fathom = Fathom::hops(&chain.client, INTERFACE, &options.concat()).unwrap();
    for family in Family::BOTH {
        let flows = [
            Application::tcp(&chain, family, 3000),
            Application::udp(&chain, family, true),
        ];
        for flow in &flows {
            for is_idle in [false, true] {
                flow.talk(!is_idle);
                for ttl in 1..=ROUTERS as u8 {
                    wait_for_answers(&fathom, 5, |probe| {
                        probe.flow.source_port == flow.port
                            && probe.ttl == ttl
                            && probe.is_edited
                            && probe.is_idle == is_idle
                    });
                }
            }
        }
    }
    let finished = fathom.finish().unwrap();
    let probes = finished.probes();
    let edited = probes.iter().filter(|probe| probe.is_edited).count();
    println!(
        "{edited} of {} probes were edited\n{}",
        probes.len(),
        finished.errors
    );
    for probe in &probes {
        // What could do harm at the destination does not get there.
        assert!(!probe.is_edited || usize::from(probe.ttl) <= ROUTERS);
        if probe.outcome != ProbeOutcome::Answered {
            continue;
        }
        let told = if probe.is_edited { "0xb801" } else { "0x1" };
        assert_eq!(probe.extracted.as_deref(), Some(told), "{probe:?}");
        // It is compared with what was sent, not with what was built.
        assert_eq!(probe.changed, None);
    }
    // Those still on their way at the end are not told of.
    assert!(finished.count(PLAIN) >= (probes.len() - edited) as u64);
}

#[fathom_lab::test]
fn what_an_edit_must_not_change_is_not_sent() {
    let _turn = beside_others();
    let chain = chain(ROUTERS, |_| MILLISECOND).build().unwrap();
    let programs = Programs::write();
    let farther = programs.path("farther");
    let options = ["--rate", "20", "--probe-program", &farther];
    let fathom = Fathom::hops(&chain.client, INTERFACE, &options).unwrap();
    let flows = Family::BOTH.map(|family| Application::tcp(&chain, family, 100));
    for flow in &flows {
        // The first ones were plain: no router was known.
        wait_for_answers(&fathom, 20, |probe| {
            probe.flow.source_port == flow.port && probe.is_edited && probe.ttl == 3
        });
    }
    drop(flows);
    let finished = fathom.finish().unwrap();
    println!("{}", finished.errors);
    let is_touched = |probe: &Probe| probe.is_edited && probe.ttl < 3;
    assert!(!finished.probes().iter().any(is_touched));
    for name in [
        "probes not sent: dropped by the probe program",
        "probes not sent: edited where their answers would not be known, or in their TTL",
    ] {
        assert!(finished.count(name) > 0, "{name}");
    }
    assert_eq!(finished.count("probes lost on this host: no clone"), 0);
}

#[fathom_lab::test]
fn a_program_that_is_none_is_refused_with_the_reason() {
    let _turn = beside_others();
    let chain = chain(1, |_| MILLISECOND).build().unwrap();
    let programs = Programs::write();
    for (option, name, reason) in [
        ("--probe-program", "missing", "No such file"),
        ("--probe-program", "text", "no BPF object"),
        ("--probe-program", "unasked", "invalid mem access"),
        ("--reply-program", "unasked", "no function fathom_extract"),
    ] {
        let path = programs.path(name);
        let refused = Fathom::hops(&chain.client, INTERFACE, &[option, &path]).unwrap_err();
        let refused = refused.to_string();
        println!("{refused}");
        assert!(refused.contains(reason), "{refused}");
        assert!(refused.contains(&path), "{refused}");
    }
}

#[fathom_lab::test]
fn probes_as_long_as_packets_stop_at_routers() {
    let _turn = alone();
    let chain = chain(ROUTERS, |_| MILLISECOND).build().unwrap();
    let hosts = [&chain.client, &chain.server];
    let before = hosts.map(counters);
    let router = Tap::start(&chain.routers[0], &Chain::interface(2)).unwrap();
    let receiver = Tap::start(&chain.server, INTERFACE).unwrap();
    let fathom = Fathom::hops(&chain.client, INTERFACE, &["--rate", "50", "--full-size"]).unwrap();
    // Their IP packets: with TCP's timestamps one segment, and trains of such as fill the link.
    let mut expected = BTreeMap::new();
    let mut flows = Vec::new();
    for (family, ip_bytes) in [(Family::V4, 20), (Family::V6, 40)] {
        for (message, segment) in [(1000, 1000 + ip_bytes + 32), (4000, 1500)] {
            let flow = Application::tcp(&chain, family, message);
            expected.insert(flow.port, segment);
            flows.push(flow);
        }
        let flow = Application::udp(&chain, family, true);
        expected.insert(flow.port, 100 + ip_bytes + 8);
        flows.push(flow);
    }
    for flow in &flows {
        for ttl in 1..=ROUTERS as u8 {
            wait_for_answers(&fathom, 20, |probe| {
                probe.flow.source_port == flow.port
                    && probe.ttl == ttl
                    && probe.length == expected[&flow.port]
            });
        }
    }
    for flow in &flows {
        flow.talk(false);
    }
    let finished = fathom.finish().unwrap();
    println!("{}", finished.errors);
    let headers = [28, 40, 48, 60];
    for probe in finished.probes() {
        let is_long = !headers.contains(&probe.length);
        assert!(!is_long || usize::from(probe.ttl) <= ROUTERS, "{probe:?}");
    }
    // At the second link, with what was left of their TTL.
    let passed = router.finish().unwrap();
    let long = passed
        .iter()
        .filter(|packet| packet.is_outgoing && packet.header.hop_limit < 20)
        .filter(|packet| packet.header.payload_length > 900)
        .count();
    let arrived = receiver.finish().unwrap();
    let arrived = arrived
        .iter()
        .filter(|packet| !packet.is_outgoing && packet.header.hop_limit < 20);
    let (long_arrived, short_arrived): (Vec<&Passed>, Vec<&Passed>) =
        arrived.partition(|packet| packet.header.payload_length > 0);
    println!(
        "{long} long TCP probes passed router 1, {} probes with bytes and {} without reached the receiver",
        long_arrived.len(),
        short_arrived.len()
    );
    assert!(long >= 100);
    assert_eq!(long_arrived.len(), 0, "{long_arrived:?}");
    assert_unharmed(hosts, before);
}
