//! Whose connections are, where they go, and what happens to them besides the network: time in
//! queues, profiles in between, connections from before.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fathom_lab::{Namespace, Process, Topology, wait_until};
use fathom_tests::{Fathom, Group, Prediction, Profile, check};
use serde_json::Value;

use crate::stage::{
    Family, MILLISECOND, ONE_WAY, PATIENCE, Pair, ROUND_TRIP, SECOND, SEGMENT, Stage, about, lab,
    listen, profiles_of, slack,
};

const PORT: u16 = 5300;
const LATE: u16 = 5302;
const NEIGHBOUR: u16 = 5304;
const NOWHERE: u16 = 5306;
const EXISTING: u16 = 5308;
const LONG: u16 = 5310;

/// The name of this process, as `ps -o comm` shows it.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    name.trim_end().to_owned()
}

/// Both applications are threads of this process; both hosts have a router.
#[fathom_lab::test]
fn process_and_route() {
    let stage = Stage::build(Vec::new(), Vec::new());
    for family in Family::BOTH {
        let server = SocketAddr::from((family.server(), family.port(PORT)));
        let mut pair = Pair::open(&stage.lab, server);
        let client = pair.client.local_addr().unwrap();
        pair.upload(1);
        pair.close();
        let gateways = match family {
            Family::V4 => [Topology::LAN_V4, Topology::WAN_V4],
            Family::V6 => [Topology::LAN_V6, Topology::WAN_V6],
        };
        for (host, role, gateway, local, remote) in [
            (&stage.lab.client, "client", gateways[0], client, server),
            (&stage.lab.server, "server", gateways[1], server, client),
        ] {
            let profiles = stage.profiles(host, server.port());
            assert_eq!(profiles.len(), 2);
            for profile in &profiles {
                assert_eq!(profile.text("role"), role);
                assert_eq!(profile.local(), Some(local));
                assert_eq!(profile.remote(), Some(remote));
                assert_eq!(profile.text("interface"), Topology::HOST_INTERFACE);
                assert_eq!(profile.text("next_hop"), gateway.to_string());
                assert_eq!(profile.number("pid"), Some(std::process::id().into()));
                assert_eq!(profile.text("process"), own_name());
                assert_eq!(profile.text("cgroup"), Group::own_path());
                assert_eq!(profile.text("congestion_control"), "reno");
                assert_eq!(profile.number("mss_bytes"), Some(SEGMENT as u64));
                assert_eq!(profile.get("is_existing"), None);
                assert_eq!(profile.get("mptcp_token"), None);
                assert!(profile.number("rtt_samples") >= Some(1));
                for name in ["srtt_ns", "rtt_min_ns", "rtt_mean_ns"] {
                    let found = profile.span(name).unwrap();
                    assert!(about(ROUND_TRIP).contains(&found), "{name} {found:?}");
                }
            }
            let [first, last] = &profiles[..] else {
                unreachable!()
            };
            assert_eq!(first.get("connection"), last.get("connection"));
            // Each is told by the wall clock as it is when the profile is made.
            let (end, start) = (
                first.time("time").unwrap(),
                last.time("start_time").unwrap(),
            );
            let between = start
                .duration_since(end)
                .unwrap_or_else(|error| error.duration());
            assert!(between < MILLISECOND, "{between:?}");
        }
    }
    stage.fathom.finish().unwrap();
}

/// To a host of the same network there is no router, and to the host itself no network.
#[fathom_lab::test]
fn neighbour_and_loopback() {
    let stage = Stage::build(Vec::new(), Vec::new());
    let lab = &stage.lab;
    for family in Family::BOTH {
        let (neighbour, own) = match family {
            Family::V4 => (Topology::LAN_V4, Topology::CLIENT_V4),
            Family::V6 => (Topology::LAN_V6, Topology::CLIENT_V6),
        };
        let port = family.port(NEIGHBOUR);
        for (host, address, interface) in [
            (&lab.router, neighbour, Topology::HOST_INTERFACE),
            (&lab.client, own, "lo"),
        ] {
            let seen = stage.fathom.profiles().len();
            let listener = listen(host, SocketAddr::new(address, port));
            let connect = || TcpStream::connect((address, port));
            let client = lab.client.enter(connect).unwrap().unwrap();
            let (server, _) = listener.accept().unwrap();
            drop(client);
            drop(server);
            let mut profiles = Vec::new();
            wait_until(PATIENCE, "the profiles", || {
                profiles = stage.fathom.profiles().split_off(seen);
                profiles.retain(|profile| profile.has_port(port));
                let is_client = |profile: &&Profile| profile.text("role") == "client";
                profiles.iter().filter(is_client).any(Profile::is_last)
                    && profiles.iter().filter(|profile| profile.is_last()).count() == 2
            })
            .unwrap();
            for profile in profiles
                .iter()
                .filter(|profile| profile.text("role") == "client")
            {
                assert_eq!(profile.text("interface"), interface, "{profile:?}");
                assert_eq!(profile.get("next_hop"), None, "{profile:?}");
            }
        }
    }
    stage.fathom.finish().unwrap();
}

/// The client is told that the connection is established half a round trip before the server is;
/// the server's application takes it when the test does.
#[fathom_lab::test]
fn accept_queue() {
    let stage = Stage::build(Vec::new(), Vec::new());
    for family in Family::BOTH {
        let address = SocketAddr::from((family.server(), family.port(LATE)));
        let listener = listen(&stage.lab.server, address);
        let connect = || TcpStream::connect(address);
        let client = stage.lab.client.enter(connect).unwrap().unwrap();
        let connected = Instant::now();
        wait_until(PATIENCE, "a late accept", || {
            connected.elapsed() >= 300 * MILLISECOND
        })
        .unwrap();
        let (server, _) = listener.accept().unwrap();
        let queued = connected.elapsed().saturating_sub(ONE_WAY);
        Pair { client, server }.close();
        let profiles = stage.profiles(&stage.lab.server, address.port());
        let found = profiles[0].span("accept_queue_ns").unwrap();
        let difference = found.abs_diff(queued);
        assert!(difference < slack() / 2, "{found:?}, not {queued:?}");
        assert_eq!(profiles[0].number("pid"), Some(std::process::id().into()));
        assert_eq!(profiles[1].get("accept_queue_ns"), None);
        let established = profiles[0].span("establishment_ns").unwrap();
        assert!(about(ROUND_TRIP).contains(&established), "{established:?}");
        for profile in stage.profiles(&stage.lab.client, address.port()) {
            assert_eq!(profile.get("accept_queue_ns"), None);
        }
    }
    stage.fathom.finish().unwrap();
}

/// The host itself has no route: no SYN is sent, and there is a profile all the same.
#[fathom_lab::test]
fn no_route() {
    let stage = Stage::build(Vec::new(), Vec::new());
    let client = &stage.lab.client;
    client
        .run("ip -4 route add unreachable 10.77.88.0/24")
        .unwrap();
    client
        .run("ip -6 route add unreachable fd77:88::/64")
        .unwrap();
    let has_functions = stage.fathom.errors().contains("probes: fentry");
    let reason = if has_functions {
        "host unreachable"
    } else {
        "no route, or no free port"
    };
    for (family, address) in Family::BOTH.into_iter().zip(["10.77.88.1", "fd77:88::1"]) {
        let remote = SocketAddr::new(address.parse().unwrap(), family.port(NOWHERE));
        let error = client.enter(|| TcpStream::connect(remote)).unwrap();
        assert_eq!(
            error.unwrap_err().kind(),
            std::io::ErrorKind::HostUnreachable
        );
        let mut profiles = Vec::new();
        wait_until(PATIENCE, "the profile", || {
            profiles = stage.fathom.profiles();
            profiles.retain(|profile| profile.remote() == Some(remote));
            !profiles.is_empty()
        })
        .unwrap();
        check(
            "client",
            &profiles,
            &[Prediction::new("NEW", "UNREACHABLE", reason)
                .within("duration_ns", about(Duration::ZERO))],
        );
        assert_eq!(profiles[0].number("pid"), Some(std::process::id().into()));
        assert_eq!(profiles[0].text("process"), own_name());
        assert_eq!(profiles[0].text("role"), "client");
        assert_eq!(profiles[0].text("cgroup"), Group::own_path());
        assert!(profiles[0].is_of(client), "{:?}", profiles[0]);
    }
    stage.fathom.finish().unwrap();
}

/// A process that keeps a namespace among those that can be found.
fn inhabitant(host: &Namespace) -> Process {
    Process::start(host.command("sleep").arg("60")).unwrap()
}

fn measure_everywhere(lab: &Topology, options: &[&str]) -> Fathom {
    let mut arguments = vec!["--net", "10.77.0.0/16,fd77::/16", "--all-namespaces"];
    arguments.extend(options);
    Fathom::profile(&lab.client, &arguments).unwrap()
}

/// What a connection did before is no part of its profiles, and what it does from then on is.
#[fathom_lab::test]
fn existing_connections() {
    let lab = lab(Vec::new(), Vec::new());
    let _inhabitant = inhabitant(&lab.server);
    let mut pairs = Family::BOTH.map(|family| {
        let address = SocketAddr::from((family.server(), family.port(EXISTING)));
        Pair::open(&lab, address)
    });
    for pair in &mut pairs {
        pair.upload(2);
    }
    let fathom = measure_everywhere(&lab, &[]);
    for mut pair in pairs {
        pair.upload(3);
        pair.close();
    }
    let stage = Stage { lab, fathom };
    for family in Family::BOTH {
        let port = family.port(EXISTING);
        let existing = Prediction::new("ESTABLISHED", "FINISHED", "FIN")
            .with("is_existing", true)
            .with("role", Value::Null);
        let client = existing
            .clone()
            .with("bytes_sent", 3 * SEGMENT)
            .with("packets_sent", 3)
            .with("bytes_acknowledged", 3 * SEGMENT)
            .with("packets_acknowledged", 4)
            .with("bytes_received", 1)
            .with("packets_received", 1);
        check(
            "client",
            &stage.profiles(&stage.lab.client, port),
            &[client],
        );
        let server = existing
            .with("bytes_sent", 1)
            .with("packets_sent", 1)
            .with("bytes_acknowledged", 1)
            // The acknowledgement of the answer before may have come before or after fathom.
            .with("packets_acknowledged", 2)
            .with("bytes_received", 3 * SEGMENT)
            .with("packets_received", 3);
        check(
            "server",
            &stage.profiles(&stage.lab.server, port),
            &[server],
        );
    }
    stage.fathom.finish().unwrap();
}

/// A connection that lives long has a profile each second or a little later: sockets are looked
/// through each second, and its second may not be over then.
#[fathom_lab::test]
fn periodic_profiles() {
    let lab = lab(Vec::new(), Vec::new());
    let _inhabitant = inhabitant(&lab.server);
    let fathom = measure_everywhere(&lab, &["--active-timeout", "1s"]);
    let pairs = Family::BOTH.map(|family| {
        let address = SocketAddr::from((family.server(), family.port(LONG)));
        let mut pair = Pair::open(&lab, address);
        pair.upload(2);
        pair
    });
    let is_told = |host, port| {
        let profiles = profiles_of(&fathom.profiles(), host, port);
        profiles.len() >= 3
    };
    wait_until(PATIENCE, "two periods", || {
        let ports = Family::BOTH.map(|family| family.port(LONG));
        ports
            .iter()
            .all(|port| is_told(&lab.client, *port) && is_told(&lab.server, *port))
    })
    .unwrap();
    for pair in pairs {
        pair.close();
    }
    let stage = Stage { lab, fathom };
    let period = |start_state| {
        Prediction::new(start_state, "UPDATE", "periodic")
            .within("duration_ns", SECOND..=2 * SECOND + 200 * MILLISECOND)
    };
    for family in Family::BOTH {
        let port = family.port(LONG);
        for (host, [sent, received]) in [
            (&stage.lab.client, [2000, 1]),
            (&stage.lab.server, [1, 2000]),
        ] {
            let mut profiles = stage.profiles(host, port);
            let packets = |bytes: u64| bytes.div_ceil(1000);
            let busy = period("ESTABLISHED")
                .with("bytes_sent", sent)
                .with("packets_sent", packets(sent))
                .with("bytes_acknowledged", sent)
                .with("packets_acknowledged", packets(sent))
                .with("bytes_received", received)
                .with("packets_received", packets(received));
            // A slow machine may have let more periods pass.
            let last = profiles.pop().unwrap();
            profiles.push(last.clone());
            profiles.drain(3..profiles.len() - 1);
            check(
                host.name(),
                &profiles,
                &[
                    Prediction::new("NEW", "ESTABLISHED", "established")
                        .with("packets_acknowledged", 1),
                    busy,
                    period("UPDATE"),
                    Prediction::new("UPDATE", "FINISHED", "FIN").with("packets_acknowledged", 1),
                ],
            );
        }
    }
    stage.fathom.finish().unwrap();
}

/// What is still open when the measurement ends has a last profile.
#[fathom_lab::test]
fn end_of_measurement() {
    let lab = lab(Vec::new(), Vec::new());
    let _inhabitant = inhabitant(&lab.server);
    let fathom = measure_everywhere(&lab, &[]);
    let address: (IpAddr, u16) = (Topology::SERVER_V4, PORT);
    let mut pair = Pair::open(&lab, address.into());
    pair.upload(2);
    let all = fathom.finish().unwrap().profiles();
    for host in [&lab.client, &lab.server] {
        let last = profiles_of(&all, host, PORT).pop().unwrap();
        let states = ["start_state", "end_state", "reason"].map(|name| last.text(name));
        assert_eq!(states, ["ESTABLISHED", "UPDATE", "end of measurement"]);
        let bytes = last.number("bytes_sent").unwrap() + last.number("bytes_received").unwrap();
        assert_eq!(bytes, 2001);
    }
    pair.close();
}
