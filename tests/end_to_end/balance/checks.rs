//! Health checks that go the way of clients' packets: what only clients would notice is found.

use std::net::TcpStream;
use std::time::Duration;

use fathom_lab::wait_until;
use fathom_tests::Balancer;
use nix::sys::signal::Signal;

use crate::stage::{SERVERS, SERVICE, SERVICE_V6, Server, Stage, address};
use crate::tunnel::TunnelEnd;
use crate::{configuration, count, counts, servers};

const PATIENCE: Duration = Duration::from_secs(30);

/// A stage on which what the balancer itself sends to the services has a way: a router, as whom the
/// client stands.
fn stage() -> Stage {
    let stage = Stage::new().unwrap();
    let [v4, v6] = prefixes();
    stage.balancer.add_route(&v4, "10.78.0.1").unwrap();
    stage.balancer.add_route(&v6, "fd78::1").unwrap();
    stage
}

/// The services' addresses.
fn prefixes() -> [String; 2] {
    [format!("{}/32", SERVICE.ip()), "fd77:9::1/128".to_owned()]
}

fn checked_by(way: &str) -> String {
    let text = configuration(&[1, 2, 3, 4], "static");
    text.replace("[health]\n", &format!("[health]\nway = \"{way}\"\n"))
}

/// Does a server answer at its own address?
fn answers(stage: &Stage, server: u8) -> bool {
    let own = format!("{}:{}", address(server), SERVICE.port());
    let connect = || TcpStream::connect(own).is_ok();
    stage.balancer.enter(connect).unwrap()
}

/// Of a service that is not the only one.
fn share(balancer: &Balancer, service: &str, server: &str) -> f64 {
    let records = balancer.status().unwrap();
    let own = records.iter().find(|record| {
        record["kind"] == "balance" && record["service"] == service && record["server"] == server
    });
    own.and_then(|record| record["share"].as_f64()).unwrap()
}

#[fathom_lab::test]
fn a_server_whose_tunnel_has_no_end_is_left_and_returns() {
    let stage = stage();
    let _servers = servers(&stage);
    let ends = stage.servers.iter().map(TunnelEnd::start);
    let mut ends: Vec<_> = ends.collect::<Result<_, _>>().unwrap();
    let text =
        checked_by("tunnel").replace("[[server]]\n", "[[server]]\nencapsulation = \"ipip\"\n");
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    for server in 1..=SERVERS {
        let name = format!("s{server}");
        wait_until(PATIENCE, "the first checks", || {
            let found = balancer.field("balance_server", &name, "state");
            found.is_ok_and(|found| found == "healthy")
        })
        .unwrap();
    }
    assert!(ends.remove(2).stop().unwrap() > 0, "checks came through");
    println!(
        "left after {:?}",
        balancer.wait_for_share("s3", 0.0, 0.0).unwrap()
    );
    assert!(answers(&stage, 3), "at its own address it is as it was");
    assert_eq!(counts(&stage.connect(100).unwrap())[2], 0);
    let problem = balancer.field("balance_server", "s3", "problem").unwrap();
    assert!(
        problem.as_str().unwrap().contains("10.77.9.1:8080"),
        "{problem}"
    );
    let _mended = TunnelEnd::start(&stage.servers[2]).unwrap();
    balancer.wait_for_share("s3", 0.01, 0.2).unwrap();
    println!(
        "all of its share is back after {:?}",
        balancer.wait_for_share("s3", 0.24, 0.26).unwrap()
    );
    assert!(counts(&stage.connect(200).unwrap())[2] > 0);
    assert!(
        count(
            &balancer,
            "packets of checks sent the way of clients' packets"
        ) > 0
    );
    assert!(balancer.stop().unwrap());
}

/// Layer 2, both families: what the server lacks is the address of one of its services. Without a
/// router: a neighbour stands for each service whom nobody needs to ask for.
#[fathom_lab::test]
fn a_server_without_the_address_of_a_service_is_left_by_that_one() {
    let stage = Stage::new().unwrap();
    for prefix in prefixes() {
        let (address, _) = prefix.split_once('/').unwrap();
        let (route, neighbour) = (
            format!("ip route add {prefix} dev eth0"),
            format!("ip neigh add {address} lladdr 02:00:00:00:00:01 nud permanent dev eth0"),
        );
        stage.balancer.run(&route).unwrap();
        stage.balancer.run(&neighbour).unwrap();
    }
    let _servers = servers(&stage);
    let text = checked_by("auto")
        + "[[service]]\nname = \"six\"\naddress = \"fd77:9::1\"\nport = 8080\nring = 4093\n";
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    let check = balancer.field("balance_server", "s2", "check").unwrap();
    let expected =
        "tcp to 10.77.9.1:8080, through the tunnel; tcp to [fd77:9::1]:8080, through the tunnel";
    assert_eq!(check, expected);
    stage.servers[1]
        .run("ip addr del fd77:9::1/128 dev lo")
        .unwrap();
    wait_until(PATIENCE, "one service to leave", || {
        share(&balancer, "six", "s2") == 0.0
    })
    .unwrap();
    assert!(answers(&stage, 2), "at its own address it is as it was");
    assert!(share(&balancer, "web", "s2") > 0.24);
    let service = SERVICE_V6.parse().unwrap();
    assert_eq!(counts(&stage.connect_to(service, 100).unwrap())[1], 0);
    stage.servers[1].add_address("lo", "fd77:9::1/128").unwrap();
    wait_until(PATIENCE, "it to come back", || {
        share(&balancer, "six", "s2") > 0.24
    })
    .unwrap();
    assert!(share(&balancer, "web", "s2") > 0.24);
    assert!(balancer.stop().unwrap());
}

/// The service is routed another way than the servers: packets of checks are given to the servers'
/// side.
#[fathom_lab::test]
fn checks_leave_by_another_interface_than_they_would() {
    let stage = Stage::new().unwrap();
    let (balancer, router) = (&stage.balancer, &stage.client);
    balancer.connect("eth1", router, "to-front").unwrap();
    balancer.add_address("eth1", "10.76.0.2/24").unwrap();
    router.add_address("to-front", "10.76.0.1/24").unwrap();
    router.enable_forwarding().unwrap();
    let [v4, _] = prefixes();
    balancer.add_route(&v4, "10.76.0.1").unwrap();
    for server in &stage.servers {
        server.add_route("10.76.0.0/24", "10.78.0.1").unwrap();
    }
    let _servers = servers(&stage);
    let mut balancer = Balancer::start(balancer, &checked_by("tunnel")).unwrap();
    let service = format!("{}/32", SERVICE.ip());
    for (change, state) in [("del", "unhealthy"), ("add", "healthy")] {
        wait_until(PATIENCE, "the others to be healthy", || {
            (1..=3).all(|server| {
                let found = balancer.field("balance_server", &format!("s{server}"), "state");
                found.is_ok_and(|found| found == "healthy")
            })
        })
        .unwrap();
        let change = format!("ip addr {change} {service} dev lo");
        stage.servers[3].run(&change).unwrap();
        wait_until(PATIENCE, "the change to be found", || {
            let found = balancer.field("balance_server", "s4", "state");
            found.is_ok_and(|found| found == state)
        })
        .unwrap();
    }
    assert!(balancer.stop().unwrap());
}

/// What the balancer cannot check says nothing of servers, and is told.
#[fathom_lab::test]
fn where_checks_cannot_leave_it_is_said() {
    let stage = Stage::new().unwrap();
    let mut servers = servers(&stage);
    servers.remove(3).stop().unwrap();
    let mut balancer = Balancer::start(&stage.balancer, &checked_by("tunnel")).unwrap();
    let told = "cannot be checked through the tunnel: 10.77.9.1: there is no route";
    assert!(balancer.said().contains(told), "{}", balancer.said());
    let field =
        |balancer: &Balancer, field: &str| balancer.field("balance_server", "s4", field).unwrap();
    assert_eq!(field(&balancer, "state"), "unknown");
    let check = field(&balancer, "check");
    assert!(
        check.as_str().unwrap().contains("there is no route"),
        "{check}"
    );
    // With another way of checks it is seen that one of them is not there, after kill -9 too.
    balancer.end(Signal::SIGKILL).unwrap();
    balancer.configure(&checked_by("auto")).unwrap();
    balancer.run().unwrap();
    let told = "its servers are checked at their own addresses";
    assert!(balancer.said().contains(told), "{}", balancer.said());
    balancer.wait_for_share("s4", 0.0, 0.0).unwrap();
    let expected = "tcp to 10.78.0.6:8080, not through the tunnel (10.77.9.1: there is no route to it: see `ip route get`)";
    assert_eq!(field(&balancer, "check"), expected);
    // A route that comes is used.
    let [v4, _] = prefixes();
    stage.balancer.add_route(&v4, "10.78.0.1").unwrap();
    wait_until(PATIENCE, "the route to be found", || {
        field(&balancer, "check") == "tcp to 10.77.9.1:8080, through the tunnel"
    })
    .unwrap();
    assert_eq!(field(&balancer, "state"), "unhealthy", "as it was before");
    let _server = Server::start(&stage.servers[3], 4).unwrap();
    balancer.wait_for_share("s4", 0.24, 0.26).unwrap();
    // One of its own: packets cannot leave.
    let [v4, _] = prefixes();
    stage.balancer.add_address("lo", &v4).unwrap();
    wait_until(PATIENCE, "the address to be found", || {
        balancer.said().contains("it is an address of this machine")
    })
    .unwrap();
    assert!(balancer.stop().unwrap());
}
