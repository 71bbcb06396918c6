//! `fathom balance` on real traffic: a client, a balancer and four servers on a segment.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

mod checks;
mod datagrams;
mod stage;
mod tunnel;

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fathom_lab::{Namespace, Process, wait_until};
use fathom_tests::Balancer;
use nix::sys::signal::Signal;
use stage::{Connection, SERVERS, SERVICE, SERVICE_V6, Server, Stage, address, address_v6};
use tunnel::TunnelEnd;

/// Connections that are open all the time, unless `FATHOM_CONNECTIONS` says otherwise. (With 10,000
/// it takes more than a minute, mostly of `poll`.)
const CONNECTIONS: usize = 3_000;

fn configuration(servers: &[u8], policy: &str) -> String {
    let mut text = format!(
        "[control]\npolicy = \"{policy}\"\n[health]\ninterval = \"100ms\"\nslow-start = \"1s\"\n"
    );
    for server in servers {
        let _ = write!(
            text,
            "[[server]]\nname = \"s{server}\"\naddress = \"{}\"\n",
            address(*server)
        );
    }
    let (address, port) = (SERVICE.ip(), SERVICE.port());
    let _ = write!(
        text,
        "[[service]]\nname = \"web\"\naddress = \"{address}\"\nport = {port}\nring = 4093\n"
    );
    text
}

fn servers(stage: &Stage) -> Vec<Server> {
    let servers = (1..=SERVERS).zip(&stage.servers);
    servers
        .map(|(number, namespace)| Server::start(namespace, number).unwrap())
        .collect()
}

/// Each in a process of its own: a process may have 20,000 descriptors, or less, and has them for
/// one end of connections.
fn servers_apart(stage: &Stage) -> Vec<Process> {
    let start = |(number, namespace): (u8, &Namespace)| {
        let program = std::env::current_exe().unwrap();
        let mut command = namespace.command(program.to_str().unwrap());
        command.args(["--ignored", "--exact", "serves_apart"]);
        command
            .env(NUMBER, number.to_string())
            .stdout(Stdio::null());
        Process::start(&mut command).unwrap()
    };
    let processes = (1..=SERVERS).zip(&stage.servers).map(start).collect();
    for server in 1..=SERVERS {
        let address = SocketAddr::new(address(server).parse().unwrap(), SERVICE.port());
        let answers = || TcpStream::connect(address).is_ok();
        wait_until(Duration::from_secs(20), "a server to listen", || {
            stage.client.enter(answers).unwrap_or(false)
        })
        .unwrap();
    }
    processes
}

/// Its number.
const NUMBER: &str = "FATHOM_SERVER";

#[fathom_lab::test]
#[ignore = "a server of another test, which ends it"]
fn serves_apart() {
    let Ok(number) = std::env::var(NUMBER) else {
        return;
    };
    let _server = Server::here(number.parse().unwrap()).unwrap();
    loop {
        std::thread::park();
    }
}

/// All of them are asked at once; what broke is counted.
fn check_whole(connections: &mut [Connection], when: &str) {
    let begin = Instant::now();
    let asked: Vec<_> = connections.iter_mut().map(Connection::request).collect();
    let broken = connections.iter_mut().zip(asked).filter_map(|(it, asked)| {
        let answered = asked.and_then(|()| it.answer());
        let is_whole = answered.is_ok_and(|server| server == it.server);
        (!is_whole).then_some(it.server)
    });
    let broken: Vec<_> = broken.collect();
    println!(
        "{when}: {} connections, {} broken, asked in {:?}",
        connections.len(),
        broken.len(),
        begin.elapsed()
    );
    assert!(broken.is_empty(), "{when}: {broken:?}");
}

/// How often something happened to packets.
fn count(balancer: &Balancer, name: &str) -> u64 {
    let records = balancer.status().unwrap();
    let own = records.iter().find(|record| record["name"] == name);
    own.and_then(|record| record["count"].as_u64()).unwrap_or(0)
}

/// How many of the connections each server has.
fn counts(connections: &[Connection]) -> [usize; SERVERS as usize] {
    let mut counts = [0; SERVERS as usize];
    for connection in connections {
        counts[usize::from(connection.server) - 1] += 1;
    }
    counts
}

/// Most connections are not measured, and so the table is not asked for most of their packets.
fn seldom_measured(servers: &[u8]) -> String {
    format!("measured = \"1/50\"\n{}", configuration(servers, "static"))
}

#[fathom_lab::test]
fn connections_outlive_all_that_happens_to_the_process() {
    let stage = Stage::new().unwrap();
    let _servers = servers_apart(&stage);
    let mut balancer = Balancer::start(&stage.balancer, &seldom_measured(&[1, 2, 3, 4])).unwrap();
    let wanted = std::env::var("FATHOM_CONNECTIONS");
    let wanted = wanted.ok().and_then(|count| count.parse().ok());
    let mut open = stage.connect(wanted.unwrap_or(CONNECTIONS)).unwrap();
    let spread = counts(&open);
    println!("connections by server: {spread:?}");
    let fair = open.len() as f64 / f64::from(SERVERS);
    for count in spread {
        // Five standard deviations of a fair choice.
        assert!(
            (count as f64 - fair).abs() < 5.0 * fair.sqrt(),
            "{spread:?}"
        );
    }
    check_whole(&mut open, "as begun");
    // An emulated processor takes seconds to ask the balancer once.
    wait_until(Duration::from_secs(60), "entries to be settled", || {
        check_whole(&mut open[..100], "as begun");
        count(&balancer, "connections not looked up") > 100
    })
    .unwrap();
    orders_are_obeyed(&stage, &balancer, &mut open);
    the_process_goes_and_comes(&stage, &mut balancer, &mut open);
    the_configuration_changes(&stage, &balancer, &mut open);
    balancer.end(Signal::SIGINT).unwrap();
    let said = balancer.said();
    assert!(
        said.contains("packets are forwarded by the last weights"),
        "{said}"
    );
    check_whole(&mut open, "after the end of the process");
    assert!(balancer.stop().unwrap());
    assert!(stage.connect(1).is_err());
}

fn orders_are_obeyed(stage: &Stage, balancer: &Balancer, open: &mut [Connection]) {
    let said = balancer.ask(&["weight", "s2", "3"]).unwrap();
    assert_eq!(
        said,
        "server s2 has the weight 3 now: it gets 50.0 % of the new connections of web\n"
    );
    let heavy = counts(&stage.connect(100).unwrap());
    assert!(
        (30..70).contains(&heavy[1]),
        "half of the new ones: {heavy:?}"
    );
    check_whole(open, "after a change of weights");
    let done = balancer.ask(&["drain", "s1", "--format", "json"]).unwrap();
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(
        (&done["kind"], &done["server"], &done["state"]),
        (&"balance_server".into(), &"s1".into(), &"drained".into())
    );
    assert_eq!(counts(&stage.connect(100).unwrap())[0], 0);
    check_whole(open, "with a server drained");
    let unknown = balancer.ask(&["drain", "s9"]).unwrap_err().to_string();
    assert!(unknown.contains("there is no server \"s9\""), "{unknown}");
}

fn the_process_goes_and_comes(stage: &Stage, balancer: &mut Balancer, open: &mut [Connection]) {
    balancer.end(Signal::SIGKILL).unwrap();
    assert_eq!(counts(&stage.connect(100).unwrap())[0], 0);
    check_whole(open, "after kill -9, without a process");
    balancer.run().unwrap();
    let said = balancer.said();
    assert!(
        said.contains("forwarding was under way, and goes on"),
        "{said}"
    );
    let found = balancer.field("balance_server", "s1", "state");
    assert_eq!(found.unwrap(), "drained");
    check_whole(open, "with another process");
    assert_eq!(counts(&stage.connect(100).unwrap())[0], 0);
}

fn the_configuration_changes(stage: &Stage, balancer: &Balancer, open: &mut [Connection]) {
    balancer.ask(&["drain", "s1", "--undo"]).unwrap();
    balancer.ask(&["weight", "s2", "default"]).unwrap();
    balancer.configure("[[server]]\nname = 7\n").unwrap();
    balancer_keeps_what_it_has(balancer);
    balancer.configure(&seldom_measured(&[1, 3, 4])).unwrap();
    balancer.reload().unwrap();
    let new = counts(&stage.connect(100).unwrap());
    assert!(new[0] > 0 && new[1] == 0, "{new:?}");
    check_whole(open, "with a server taken out of the configuration");
}

/// A configuration that is wrong changes nothing.
fn balancer_keeps_what_it_has(balancer: &Balancer) {
    let told = balancer.reload_refused().unwrap();
    assert!(
        told.contains("all stays as it was") && told.contains("line"),
        "{told}"
    );
    assert!(balancer.field("balance_server", "s2", "weight").is_ok());
}

#[fathom_lab::test]
fn a_server_that_does_not_answer_is_left_and_returns() {
    let stage = Stage::new().unwrap();
    let mut servers = servers(&stage);
    let mut balancer =
        Balancer::start(&stage.balancer, &configuration(&[1, 2, 3, 4], "static")).unwrap();
    servers.remove(2).stop().unwrap();
    println!(
        "left after {:?}",
        balancer.wait_for_share("s3", 0.0, 0.0).unwrap()
    );
    assert_eq!(
        balancer.field("balance_server", "s3", "state").unwrap(),
        "unhealthy"
    );
    assert_eq!(counts(&stage.connect(100).unwrap())[2], 0);
    let _returned = Server::start(&stage.servers[2], 3).unwrap();
    balancer.wait_for_share("s3", 0.01, 0.2).unwrap();
    println!(
        "all of its share is back after {:?}",
        balancer.wait_for_share("s3", 0.24, 0.26).unwrap()
    );
    let health = balancer
        .records()
        .into_iter()
        .filter(|record| record["kind"] == "balance_health");
    let states: Vec<_> = health.map(|record| record["state"].clone()).collect();
    assert_eq!(states, ["unhealthy", "healthy"]);
    assert!(balancer.stop().unwrap());
    let records = balancer.records().into_iter();
    let weights: Vec<_> = records
        .filter(|record| record["kind"] == "balance")
        .map(|record| {
            (
                record["server"].clone(),
                record["state"].clone(),
                record["share"].clone(),
            )
        })
        .collect();
    // At the start, if need be when they have been checked, and at the end; of the third also when
    // it falls, and as it returns.
    assert!((8..30).contains(&weights.len()), "{weights:?}");
}

/// A service of each family, a network and all ports beside; a server by IPv6 answers both.
#[fathom_lab::test]
fn services_of_both_families_have_servers_of_both() {
    let stage = Stage::new().unwrap();
    let _servers = servers(&stage);
    let text = configuration(&[1, 2], "static")
        + &format!(
            "[[server]]\nname = \"s3\"\naddress = \"{}\"\n[[server]]\nname = \"s4\"\naddress = \"{}\"\n",
            address_v6(3),
            address_v6(4)
        )
        + "[[service]]\nname = \"six\"\naddress = \"fd77:9::/64\"\nring = 4093\n";
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    for service in [SERVICE, SERVICE_V6.parse().unwrap()] {
        let mut open = stage.connect_to(service, 200).unwrap();
        println!("{service} by server: {:?}", counts(&open));
        assert!(counts(&open).iter().all(|count| *count > 20));
        check_whole(&mut open, "of both families");
    }
    stage.client.run("ping -c 1 -W 2 10.77.9.1").unwrap();
    stage.client.run("ping -c 1 -W 2 fd77:9::1").unwrap();
    assert!(balancer.stop().unwrap());
}

#[fathom_lab::test]
fn packets_go_through_a_tunnel_and_long_ones_are_told() {
    let stage = Stage::new().unwrap();
    let _servers = servers(&stage);
    let ends = stage.servers.iter().map(TunnelEnd::start);
    let ends: Vec<_> = ends.collect::<Result<_, _>>().unwrap();
    let text = configuration(&[1, 2, 3, 4], "static");
    let text = text.replace("[[server]]\n", "[[server]]\nencapsulation = \"ipip\"\n");
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    let mut open = stage.connect(200).unwrap();
    check_whole(&mut open, "through a tunnel");
    // The client takes 1500 bytes for the length of the path; in the tunnel there is room for 1480.
    for connection in &mut open[..20] {
        connection.send(20_000).unwrap();
    }
    let told = "too long for the path to the server: client told";
    assert!(count(&balancer, told) > 0);
    assert!(balancer.stop().unwrap());
    for end in ends {
        assert!(end.stop().unwrap() > 100, "packets through each tunnel");
    }
}

/// Connections live through it, as through any silence of the path.
#[fathom_lab::test]
fn an_interface_that_comes_back_is_used_again() {
    let stage = Stage::new().unwrap();
    let _servers = servers(&stage);
    let text = configuration(&[1, 2, 3, 4], "static");
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    let mut open = stage.connect(50).unwrap();
    stage.replace_interface().unwrap();
    wait_until(Duration::from_secs(20), "the interface", || {
        balancer.said().contains("interface eth0 is back")
    })
    .unwrap();
    check_whole(&mut open, "by another interface");
    stage.connect(10).unwrap();
    assert!(balancer.stop().unwrap());
}

/// With as little as this, a few connections are too many; when they are silent, all can be
/// measured again.
#[fathom_lab::test]
fn as_many_connections_are_measured_as_the_load_allows() {
    let stage = Stage::new().unwrap();
    let _servers = servers(&stage);
    let text = format!(
        "measured-packets = 20\n{}",
        configuration(&[1, 2, 3, 4], "static")
    );
    let mut balancer = Balancer::start(&stage.balancer, &text).unwrap();
    let mut open = stage.connect(200).unwrap();
    wait_until(Duration::from_secs(20), "fewer to be measured", || {
        // One after the other, so that it takes a while.
        assert!(open.iter_mut().all(Connection::is_whole));
        balancer.said().contains("one connection in ")
    })
    .unwrap();
    wait_until(Duration::from_secs(20), "all to be measured again", || {
        balancer.said().contains("all connections are measured")
    })
    .unwrap();
    println!("{}", balancer.said());
    assert!(count(&balancer, "packets measured") > 100);
    assert!(balancer.stop().unwrap());
}

/// Clients that open connections, ask some times, and open others, until they are told to end.
fn keep_asking(stage: &Stage, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let mut connections = stage.connect(1).unwrap();
        for _ in 0..30 {
            assert!(connections[0].is_whole());
        }
    }
}

#[fathom_lab::test]
fn weight_leaves_a_slow_server_and_returns_to_it() {
    let stage = Stage::new().unwrap();
    let servers = servers(&stage);
    for server in &servers {
        server.set_delay(Duration::from_millis(3));
    }
    let mut balancer =
        Balancer::start(&stage.balancer, &configuration(&[1, 2, 3, 4], "latency")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| keep_asking(&stage, &is_over));
        }
        let checked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| follow(&balancer, &servers)));
        is_over.store(true, Ordering::Relaxed);
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(balancer.stop().unwrap());
}

fn follow(balancer: &Balancer, servers: &[Server]) {
    wait_until(Duration::from_secs(30), "a latency of each server", || {
        (1..=4).all(|server| {
            let latency = balancer.field("balance", &format!("s{server}"), "latency_ns");
            latency.is_ok_and(|latency| latency.as_f64().is_some_and(|ns| ns > 3e6))
        })
    })
    .unwrap();
    servers[3].set_delay(Duration::from_millis(30));
    let left = balancer.wait_for_share("s4", 0.0, 0.125).unwrap();
    println!("half of the weight has left after {left:?}");
    // Three intervals, an epoch, and what clients need to open other connections; the machine may
    // be slow.
    assert!(left < Duration::from_secs(3), "{left:?}");
    servers[3].set_delay(Duration::from_millis(3));
    let back = balancer.wait_for_share("s4", 0.125, 1.0).unwrap();
    println!("half of the weight is back after {back:?}");
    assert!(back < Duration::from_secs(10), "{back:?}");
}
