//! Which flows are probed, and how much.

use std::collections::BTreeMap;
use std::process::Stdio;

use fathom_lab::{Chain, Family, Process};
use fathom_tests::{Fathom, Group};

use crate::stage::{Application, MILLISECOND, beside_others, chain, wait_for_answers};

/// The name of the process of this test, which is where its sockets are.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    name.trim().to_owned()
}

#[fathom_lab::test]
fn sockets_of_a_process_are_found_whenever_and_however_they_were_made() {
    let _turn = beside_others();
    let chain = chain(2, |_| MILLISECOND).build().unwrap();
    let before = Application::tcp(&chain, Family::V6, 100);
    let name = own_name();
    let options = ["--rate", "20", "--process", &name];
    let clients = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &options).unwrap();
    let servers = Fathom::hops(&chain.server, Chain::HOST_INTERFACE, &options).unwrap();
    let nobody = ["--rate", "20", "--process", "nobody-at-all"];
    let none = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &nobody).unwrap();
    let after = Application::tcp(&chain, Family::V4, 100);
    for flow in [&before, &after] {
        wait_for_answers(&clients, 5, |probe| probe.flow.source_port == flow.port);
        wait_for_answers(&servers, 5, |probe| {
            probe.flow.destination_port == flow.port
        });
    }
    let pinged = chain.server_address(Family::V4);
    chain
        .client
        .run(&format!("ping -i 0.05 -c 20 {pinged}"))
        .unwrap();
    let probes = clients.finish().unwrap().probes();
    assert!(probes.iter().all(|probe| probe.flow.protocol == 6));
    servers.finish().unwrap();
    assert_eq!(none.finish().unwrap().probes(), []);
}

#[fathom_lab::test]
fn networks_and_ports_select() {
    let _turn = beside_others();
    let chain = chain(2, |_| MILLISECOND).build().unwrap();
    let options = ["--rate", "20", "--net", "fd78::/16", "--protocol", "udp"];
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &options).unwrap();
    let _others = [
        Application::tcp(&chain, Family::V6, 100),
        Application::udp(&chain, Family::V4, true),
    ];
    let flow = Application::udp(&chain, Family::V6, true);
    wait_for_answers(&fathom, 20, |_| true);
    let finished = fathom.finish().unwrap();
    let is_wanted = |probe: &fathom_tests::Probe| probe.flow.source_port == flow.port;
    assert!(finished.probes().iter().all(is_wanted));
}

#[fathom_lab::test]
fn control_groups_select() {
    let _turn = beside_others();
    let Some(group) = Group::create().unwrap() else {
        return;
    };
    let chain = chain(2, |_| MILLISECOND).build().unwrap();
    let options = ["--rate", "20", "--cgroup", group.folder()];
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &options).unwrap();
    let _others = [
        Application::tcp(&chain, Family::V4, 100),
        Application::udp(&chain, Family::V6, true),
    ];
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec ping -i 0.05 {}",
        group.folder(),
        chain.server_address(Family::V4)
    );
    let mut command = chain.client.command("sh");
    command.args(["-c", &script]).stdout(Stdio::null());
    let _member = Process::start(&mut command).unwrap();
    wait_for_answers(&fathom, 20, |_| true);
    let probes = fathom.finish().unwrap().probes();
    assert!(probes.iter().all(|probe| probe.flow.protocol == 1));
}

#[fathom_lab::test]
fn forwarded_flows_are_probed_from_where_they_are_seen() {
    let _turn = beside_others();
    let chain = chain(3, |_| MILLISECOND).build().unwrap();
    let interface = Chain::interface(2);
    let fathom = Fathom::hops(&chain.routers[0], &interface, &["--rate", "20"]).unwrap();
    for family in Family::BOTH {
        let flows = [
            Application::tcp(&chain, family, 3000),
            Application::udp(&chain, family, true),
        ];
        for flow in &flows {
            for hop in [2, 3] {
                wait_for_answers(&fathom, 10, |probe| {
                    probe.flow.source_port == flow.port
                        && usize::from(probe.ttl) == hop - 1
                        && probe.responder == Some(chain.responder(hop, family))
                });
            }
        }
    }
    fathom.finish().unwrap();
}

#[fathom_lab::test]
fn budgets_hold_over_all_flows() {
    let _turn = beside_others();
    let chain = chain(4, |_| MILLISECOND).build().unwrap();
    let options = ["--rate", "100", "--budget", "100"];
    let fathom = Fathom::hops(&chain.client, Chain::HOST_INTERFACE, &options).unwrap();
    let flows: Vec<_> = (0..6)
        .map(|number| Application::tcp(&chain, Family::BOTH[number % 2], 100))
        .collect();
    wait_for_answers(&fathom, 300, |_| true);
    drop(flows);
    let finished = fathom.finish().unwrap();
    let mut seconds = BTreeMap::<u64, u32>::new();
    for probe in finished.probes() {
        *seconds.entry(probe.time_ns / 1_000_000_000).or_default() += 1;
    }
    println!("probes in each second: {:?}", seconds.values());
    // A fifth of a second's worth may be saved up.
    assert!(seconds.values().all(|count| *count <= 121), "{seconds:?}");
    assert!(finished.count("probes put off: budget of all probes spent") > 0);
}
